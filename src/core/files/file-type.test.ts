import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { FileTypeDetector } from './file-type.ts'

function typeOf(...pieces: (string | Buffer)[]): string {
  const detector = new FileTypeDetector()
  for (const piece of pieces) detector.write(typeof piece === 'string' ? Buffer.from(piece, 'latin1') : piece)
  const { type, extension } = detector.end()
  return `${type} ${extension}`
}

const KNOWN: Readonly<Record<string, readonly string[]>> = {
  'image/png png': ['\x89PNG\r\n\x1a\n'],
  'image/jpeg jpg': ['\xff\xd8\xff\xe0\0\x10JFIF', '\xff\xd8\xff\xdb'],
  'image/gif gif': ['GIF87a', 'GIF89a<script>'],
  'image/webp webp': ['RIFF\0\0\0\0WEBPVP8 '],
  'image/avif avif': ['\0\0\0\x1cftypavif\0\0\0\0', '\0\0\0\x18ftypmif1\0\0\0\0avifmiaf'],
  'application/pdf pdf': ['%PDF-1.7'],
  'application/zip zip': ['PK\x03\x04', 'PK\x05\x06'],
  'audio/mpeg mp3': ['ID3\x04', '\xff\xfb\x90\x64'],
  'audio/ogg ogg': [`OggS${'\0'.repeat(24)}OpusHead`, `OggS${'\0'.repeat(24)}\x01vorbis`],
  'audio/wav wav': ['RIFF\0\0\0\0WAVEfmt '],
  'audio/mp4 m4a': ['\0\0\0\x18ftypM4A \0\0\0\0', '\0\0\0\x10ftypmp42\0\0\0\0moovtrakhdlr\0\0soun'],
  'audio/aac aac': ['\xff\xf1\x50\x80', '\xff\xf9\x50\x80'],
  'audio/flac flac': ['fLaC\0'],
  'audio/webm webm': ['\x1a\x45\xdf\xa3\x9f\x42\x82\x84webm ... A_OPUS'],
  'video/webm webm': ['\x1a\x45\xdf\xa3\x9f\x42\x82\x84webm ... V_VP9 A_OPUS'],
  'video/mp4 mp4': ['\0\0\0\x18ftypisom\0\0\0\0'],
  'text/plain txt': [
    '',
    'hello\r\n\t\x1b[1m',
    '<svg onload="alert(1)">',
    '<!doctype html>',
    '{"a": 1}',
    'äöü'.normalize(),
  ],
  'application/octet-stream ': [
    '\0',
    'text\x01',
    'a\xff',
    '\xff\xfea\0',
    'MZ\x90\0',
    'RIFF\0\0\0\0AVI ',
    `OggS${'\0'.repeat(24)}\x80theora`,
    '\x1a\x45\xdf\xa3\x42\x82\x88matroska',
    '\xff\xfb\xf0\x64',
  ],
}

suite('the type of a file', () => {
  for (const [expected, contents] of Object.entries(KNOWN))
    test(`is ${expected}`, () => {
      for (const content of contents) {
        const bytes = expected.startsWith('text') ? Buffer.from(content) : Buffer.from(content, 'latin1')
        assert.equal(typeOf(bytes), expected, JSON.stringify(content))
      }
    })

  test('does not depend on the pieces in which the content arrives', () => {
    const contents = Object.values(KNOWN).flat()
    fc.assert(
      fc.property(fc.constantFrom(...contents), fc.array(fc.nat(40)), (content, cuts) => {
        const bytes = Buffer.from(content)
        const at = [0, ...cuts.filter((cut) => cut < bytes.length).sort((a, b) => a - b), bytes.length]
        assert.equal(typeOf(...at.slice(1).map((end, index) => bytes.subarray(at[index], end))), typeOf(bytes))
      }),
    )
  })

  test('is text only if all of it is', () => {
    const long = Buffer.from('ä'.repeat(10_000))
    assert.equal(typeOf(long), 'text/plain txt')
    assert.equal(typeOf(long, Buffer.from([0xc3])), 'application/octet-stream ')
    assert.equal(typeOf(long, Buffer.from([0])), 'application/octet-stream ')
  })
})
