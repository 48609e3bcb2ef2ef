// The icon of the chat as PNG for installed pages: an indexed image whose value of a pixel says how much of it the bubble covers.
import { crc32, deflateSync } from 'node:zlib'

/** The bubble in a square of 32 units; the same as in `BUBBLE_PATH`. */
export const BUBBLE_PATH = 'M6 4h20a4 4 0 0 1 4 4v12a4 4 0 0 1-4 4H14l-8 6v-6a4 4 0 0 1-4-4V8a4 4 0 0 1 4-4z'
export const BUBBLE_COLOR = '#4f5bd5'
const BUBBLE_RGB = [0x4f, 0x5b, 0xd5] as const

interface IconOptions {
  readonly size: number
  /** White on the colour, which fills the square; platforms cut such icons to their own shape. */
  readonly isMaskable: boolean
}

export function drawIcon({ size, isMaskable }: IconOptions): Buffer {
  // A platform may cut off all but the inner 80 %.
  const scale = isMaskable ? 0.56 : 1
  const units = Array.from({ length: size }, (_, at) => (((at + 0.5) / size - 0.5) / scale + 0.5) * 32)
  const pixels = (size / 32) * scale
  const rows = Buffer.alloc((size + 1) * size)
  for (const [y, v] of units.entries())
    for (let x = 0; x < size; x++) {
      const distance = bubbleDistance(units[x] ?? 0, v) * pixels
      rows[y * (size + 1) + 1 + x] = Math.round(Math.min(Math.max(0.5 - distance, 0), 1) * 255)
    }
  const levels = Array.from({ length: 256 }, (_, level) => level)
  const palette = levels.flatMap((level) =>
    BUBBLE_RGB.map((part) => (isMaskable ? Math.round(part + ((255 - part) * level) / 255) : part)),
  )
  return pngFile(size, [
    ['PLTE', Buffer.from(palette)],
    ...(isMaskable ? [] : [['tRNS', Buffer.from(levels)] as const]),
    ['IDAT', deflateSync(rows, { level: 9 })],
  ])
}

/** Negative inside. */
function bubbleDistance(x: number, y: number): number {
  const dx = Math.abs(x - 16) - 10
  const dy = Math.abs(y - 14) - 6
  const corner = Math.sqrt(Math.max(dx, 0) ** 2 + Math.max(dy, 0) ** 2)
  const box = corner + Math.min(Math.max(dx, dy), 0) - 4
  // The tail: left edge, below the box, and above the line from (14, 24) to (6, 30).
  const tail = Math.max(6 - x, 20 - y, (x - 14) * 0.6 + (y - 24) * 0.8)
  return Math.min(box, tail)
}

function pngFile(size: number, chunks: readonly (readonly [type: string, data: Buffer])[]): Buffer {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(size, 0)
  header.writeUInt32BE(size, 4)
  // 8 bits, indexed.
  header.set([8, 3], 8)
  const all = [['IHDR', header] as const, ...chunks, ['IEND', Buffer.alloc(0)] as const]
  return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), ...all.map(([type, data]) => pngChunk(type, data))])
}

function pngChunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const chunk = Buffer.alloc(body.length + 8)
  chunk.writeUInt32BE(data.length, 0)
  body.copy(chunk, 4)
  chunk.writeUInt32BE(crc32(body), body.length + 4)
  return chunk
}
