import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { runs } from '../../../test/support/part.ts'
import { readOpusFile } from './opus-file.ts'

function page(granule: bigint, ...packets: readonly Buffer[]): Buffer {
  const segments = packets.flatMap(({ length }) => [...Array<number>(Math.floor(length / 255)).fill(255), length % 255])
  const header = Buffer.alloc(27)
  header.write('OggS', 0, 'latin1')
  header.writeBigInt64LE(granule, 6)
  header[26] = segments.length
  return Buffer.concat([header, Buffer.from(segments), ...packets])
}

function head(preSkip: number): Buffer {
  const bytes = Buffer.alloc(19)
  bytes.write('OpusHead', 0, 'latin1')
  bytes.writeUInt16LE(preSkip, 10)
  return bytes
}

test('the length is that of the samples without the start, and the waveform is of the sizes of packets', () => {
  const sound = [
    page(0n, head(312)),
    page(0n, Buffer.from('OpusTags')),
    page(96_312n, Buffer.alloc(300), Buffer.alloc(75)),
  ]
  const { seconds, waveform } = readOpusFile(Buffer.concat(sound)) ?? assert.fail()
  assert.equal(seconds, 2)
  assert.deepEqual([...Buffer.from(waveform, 'base64')], [255, 64])
})

test('a long file has 256 values', () => {
  const packets = Array.from({ length: 1000 }, (_, at) => page(BigInt(960 * (at + 1)), Buffer.alloc(1 + (at % 200))))
  const file = Buffer.concat([page(0n, head(0)), page(0n, Buffer.from('OpusTags')), ...packets])
  assert.equal(Buffer.from(readOpusFile(file)?.waveform ?? '', 'base64').length, 256)
})

test('other bytes are no Opus file', () => {
  for (const bytes of [Buffer.alloc(0), Buffer.from('ID3 mp3'), page(0n, Buffer.from('vorbis')), page(0n, head(0))])
    assert.equal(readOpusFile(bytes), undefined)
  const whole = Buffer.concat([page(0n, head(0)), page(960n, Buffer.alloc(300))])
  fc.assert(
    fc.property(fc.nat(whole.length), fc.uint8Array(), (length, more) => {
      readOpusFile(Buffer.concat([whole.subarray(0, length), more]))
    }),
    { numRuns: runs(300, 5000) },
  )
})
