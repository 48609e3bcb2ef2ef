import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { FileTypeDetector } from './file-type.ts'
import { countPixels, IMAGE_HEAD_BYTES } from './image-size.ts'

const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1')

function numbers(size: 1 | 2 | 3 | 4, order: 'BE' | 'LE', ...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(size * values.length)
  for (const [at, value] of values.entries())
    if (order === 'BE') bytes.writeUIntBE(value, at * size, size)
    else bytes.writeUIntLE(value, at * size, size)
  return bytes
}

const png = (width: number, height: number): Buffer =>
  Buffer.concat([latin1('\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR'), numbers(4, 'BE', width, height), latin1('\x08\x06\0\0\0')])

const gif = (width: number, height: number): Buffer =>
  Buffer.concat([latin1('GIF89a'), numbers(2, 'LE', width, height), latin1('\0\0\0')])

/** A segment before the frame, as a photo has for its profile or preview. */
const jpeg = (width: number, height: number, before = 20, marker = 0xc0): Buffer =>
  Buffer.concat([
    ...[latin1('\xff\xd8\xff\xe1'), numbers(2, 'BE', before), Buffer.alloc(before - 2)],
    ...[Buffer.of(0xff, 0xff, marker, 0, 17, 8), numbers(2, 'BE', height, width), Buffer.of(3)],
  ])

const riff = (...chunks: readonly Buffer[]): Buffer => Buffer.concat([latin1('RIFF\0\0\0\0WEBP'), ...chunks])
const webp: Readonly<Record<string, (width: number, height: number) => Buffer>> = {
  extended: (width, height) =>
    riff(latin1('VP8X\0\0\0\0\0\0\0\0'), numbers(3, 'LE', width - 1), numbers(3, 'LE', height - 1)),
  lossy: (width, height) =>
    riff(latin1('VP8 \0\0\0\0\0\0\0\x9d\x01\x2a'), numbers(2, 'LE', width | 0x4000, height | 0x8000)),
  lossless: (width, height) => riff(latin1('VP8L\0\0\0\0\x2f'), numbers(4, 'LE', (width - 1) | ((height - 1) << 14))),
}

const avif = (...sizes: readonly (readonly [width: number, height: number])[]): Buffer =>
  Buffer.concat([
    latin1('\0\0\0\x1cftypavif\0\0\0\0avifmif1miaf'),
    ...sizes.flatMap(([width, height]) => [latin1('\0\0\0\x14ispe\0\0\0\0'), numbers(4, 'BE', width, height)]),
  ])

const IMAGES: Readonly<Record<string, readonly [type: string, make: (width: number, height: number) => Buffer]>> = {
  PNG: ['image/png', png],
  GIF: ['image/gif', gif],
  JPEG: ['image/jpeg', jpeg],
  'a progressive JPEG': ['image/jpeg', (width, height) => jpeg(width, height, 400, 0xc2)],
  ...Object.fromEntries(Object.entries(webp).map(([name, make]) => [`${name} WebP`, ['image/webp', make]])),
  AVIF: ['image/avif', (width, height) => avif([width, height])],
}

function shownType(image: Buffer): string {
  return typeOfPieces([image])
}

function typeOfPieces(pieces: Iterable<Buffer>): string {
  const detector = new FileTypeDetector()
  for (const piece of pieces) detector.write(piece)
  return detector.endToShow().type
}

suite('the size of an image', () => {
  for (const [name, [type, make]] of Object.entries(IMAGES)) {
    test(`of ${name} is in its header`, () => {
      assert.equal(countPixels(type, make(640, 480)), 640 * 480)
      assert.equal(countPixels(type, make(1, 16_000)), 16_000)
    })

    test(`of ${name} is unknown if the header is cut off`, () => {
      const whole = make(640, 480)
      for (let length = 0; length < whole.length; length++) {
        const pixels = countPixels(type, whole.subarray(0, length))
        assert.ok(pixels === undefined || pixels === 640 * 480, `${length} bytes: ${pixels}`)
      }
    })

    test(`of ${name} decides whether browsers show it: up to 50 million pixels`, () => {
      assert.equal(shownType(make(10_000, 5_000)), type)
      assert.equal(shownType(make(10_000, 5_001)), 'application/octet-stream')
    })
  }

  test('is that of the largest part', () => {
    assert.equal(countPixels('image/avif', avif([10, 10], [300, 200], [20, 20])), 60_000)
  })

  test('is unknown in a JPEG whose frame is not before its image data', () => {
    const scan = Buffer.concat([latin1('\xff\xd8\xff\xda\0\x08'), jpeg(640, 480).subarray(2)])
    assert.equal(countPixels('image/jpeg', scan), undefined)
    assert.equal(shownType(scan), 'application/octet-stream')
  })

  test('is found in the first 256 KiB, also byte by byte, and not after them', () => {
    const photo = (before: number): Buffer => {
      const [segment, image] = [
        Buffer.concat([latin1('\xff\xe2'), numbers(2, 'BE', 60_000), Buffer.alloc(59_998)]),
        jpeg(640, 480),
      ]
      const whole = Math.floor(before / segment.length)
      const rest = Buffer.alloc(before % segment.length, 0xff)
      return Buffer.concat([image.subarray(0, 2), ...Array(whole).fill(segment), rest, image.subarray(2)])
    }
    const fits = photo(IMAGE_HEAD_BYTES - jpeg(1, 1).length)
    assert.equal(shownType(fits), 'image/jpeg')
    assert.equal(typeOfPieces(Array.from(fits, (byte) => Buffer.of(byte))), 'image/jpeg')
    assert.equal(shownType(photo(IMAGE_HEAD_BYTES)), 'application/octet-stream')
  })

  test('is read from any bytes without an error', () => {
    const types = ['image/png', 'image/gif', 'image/jpeg', 'image/webp', 'image/avif']
    const starts = Object.values(IMAGES).map(([, make]) => make(640, 480))
    fc.assert(
      fc.property(
        fc.constantFrom(...types),
        fc.constantFrom(...starts),
        fc.uint8Array(),
        fc.nat(40),
        (type, start, bytes, at) => {
          const pixels = countPixels(type, Buffer.concat([start.subarray(0, at), bytes]))
          assert.ok(pixels === undefined || pixels >= 0)
        },
      ),
    )
  })
})
