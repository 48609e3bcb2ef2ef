// What Discord wants to know of a voice message: how long it is, and how loud at each time.

export interface OpusFile {
  readonly seconds: number
  /** Up to 256 values of 0 to 255, in base64. */
  readonly waveform: string
}

const SAMPLES_PER_S = 48_000
const WAVEFORM_MAX = 256

/** Undefined if it is no Opus in an Ogg file. The sizes of packets stand for the loudness, as silence takes few bytes. */
export function readOpusFile(bytes: Buffer): OpusFile | undefined {
  const sizes: number[] = []
  let [size, samples, skipped]: [number, bigint, number | undefined] = [0, 0n, undefined]
  for (let at = 0; at < bytes.length; ) {
    if (at + 27 > bytes.length || bytes.toString('latin1', at, at + 4) !== 'OggS') return undefined
    const segments = bytes.subarray(at + 27, at + 27 + (bytes[at + 26] ?? 0))
    const start = at + 27 + segments.length
    if (skipped === undefined) {
      if (bytes.toString('latin1', start, start + 8) !== 'OpusHead' || start + 12 > bytes.length) return undefined
      skipped = bytes.readUInt16LE(start + 10)
    }
    const granule = bytes.readBigInt64LE(at + 6)
    if (granule > samples) samples = granule
    at = start
    for (const segment of segments) {
      size += segment
      at += segment
      if (segment === 255) continue
      sizes.push(size)
      size = 0
    }
  }
  const seconds = (Number(samples) - (skipped ?? 0)) / SAMPLES_PER_S
  // Two packets are headers.
  return seconds > 0 && sizes.length > 2 ? { seconds, waveform: waveformOf(sizes.slice(2)) } : undefined
}

function waveformOf(sizes: readonly number[]): string {
  const largest = sizes.reduce((max, size) => Math.max(max, size), 1)
  const count = Math.min(WAVEFORM_MAX, sizes.length)
  const values = Array.from({ length: count }, (_, at) => {
    const from = Math.floor((at * sizes.length) / count)
    const to = Math.floor(((at + 1) * sizes.length) / count)
    const part = sizes.slice(from, to)
    return Math.round((255 * part.reduce((sum, size) => sum + size, 0)) / part.length / largest)
  })
  return Buffer.from(values).toString('base64')
}
