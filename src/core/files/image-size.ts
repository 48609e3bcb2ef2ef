// Dimensions of images, from their headers: a file of a few kilobytes can name billions of pixels, which a browser would decode.

/** Enough for the headers of a photo with its colour profile and preview. */
export const IMAGE_HEAD_BYTES = 256 * 1024

/** Number of pixels; undefined if the header does not tell. */
export function countPixels(type: string, head: Buffer): number | undefined {
  try {
    const [width, height] = SIZES[type]?.(head) ?? []
    return width === undefined || height === undefined ? undefined : width * height
  } catch (error) {
    // The header is cut off.
    if (error instanceof RangeError) return undefined
    throw error
  }
}

type Size = readonly [width: number, height: number]

const SIZES: Readonly<Record<string, (head: Buffer) => Size | undefined>> = {
  'image/png': (head) => (is(head, 12, 'IHDR') ? [head.readUInt32BE(16), head.readUInt32BE(20)] : undefined),
  'image/gif': (head) => [head.readUInt16LE(6), head.readUInt16LE(8)],
  'image/jpeg': jpegSize,
  'image/webp': webpSize,
  'image/avif': avifSize,
}

function is(head: Buffer, at: number, text: string): boolean {
  return head.toString('latin1', at, at + text.length) === text
}

/** Walks the segments up to the frame header. */
function jpegSize(head: Buffer): Size | undefined {
  for (let at = 2; ; ) {
    if (head.readUInt8(at) !== 0xff) return undefined
    const marker = head.readUInt8(at + 1)
    if (marker === 0xff) at++
    else if (marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8)) at += 2
    else if (marker === 0xd9 || marker === 0xda) return undefined
    else if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker))
      return [head.readUInt16BE(at + 7), head.readUInt16BE(at + 5)]
    else at += 2 + Math.max(2, head.readUInt16BE(at + 2))
  }
}

function webpSize(head: Buffer): Size | undefined {
  if (is(head, 12, 'VP8X')) return [1 + head.readUIntLE(24, 3), 1 + head.readUIntLE(27, 3)]
  if (is(head, 12, 'VP8 ')) return [head.readUInt16LE(26) & 0x3fff, head.readUInt16LE(28) & 0x3fff]
  if (!is(head, 12, 'VP8L')) return undefined
  const bits = head.readUInt32LE(21)
  return [1 + (bits & 0x3fff), 1 + ((bits >>> 14) & 0x3fff)]
}

/** The largest of the spatial extents: an image may have parts and a preview. */
function avifSize(head: Buffer): Size | undefined {
  let largest: Size | undefined
  for (let at = head.indexOf('ispe'); at >= 0; at = head.indexOf('ispe', at + 4)) {
    const size: Size = [head.readUInt32BE(at + 8), head.readUInt32BE(at + 12)]
    if (!largest || size[0] * size[1] > largest[0] * largest[1]) largest = size
  }
  return largest
}
