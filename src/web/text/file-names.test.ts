import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { de } from '../texts/de.ts'
import { ENGLISH } from '../texts/texts.ts'
import { admitFiles, displayName, extensionLabel, fileKind, formatSize, roomForFile } from './file-names.ts'

const file = (size: number, name = 'a.txt') => ({ name, size })

suite('the files of a message', () => {
  const limits = { each: 2048, count: 3, total: 4096 }

  test('are admitted up to each limit, and a sentence names the limit above it', () => {
    assert.deepEqual(admitFiles([], [file(2048)], limits, ENGLISH), { admitted: [file(2048)], problems: [] })
    assert.deepEqual(admitFiles([], [file(2049)], limits, ENGLISH), {
      admitted: [],
      problems: ['Not added: \u2068a.txt\u2069. A file may have at most 2 KB.'],
    })
    assert.deepEqual(admitFiles([file(1), file(1)], [file(1)], limits, ENGLISH).problems, [])
    assert.deepEqual(admitFiles([file(1), file(1), file(1)], [file(1)], limits, ENGLISH), {
      admitted: [],
      problems: ['Not added: \u2068a.txt\u2069. A message may have at most 3 files.'],
    })
    assert.deepEqual(admitFiles([file(2048)], [file(2048)], limits, ENGLISH).problems, [])
    assert.deepEqual(admitFiles([file(2048), file(1)], [file(2048), file(2047)], limits, ENGLISH), {
      admitted: [file(2047)],
      problems: ['Not added: \u2068a.txt\u2069. The files of a message may have at most 4 KB together.'],
    })
  })

  test('that are not admitted are named once for each limit', () => {
    const large = ['a', 'b', 'c', 'd\u202e', 'e'].map((name) => file(3000, name))
    const { admitted, problems } = admitFiles(
      [],
      [...large, file(1), file(1), file(1), file(1, 'last')],
      limits,
      ENGLISH,
    )
    assert.equal(admitted.length, 3)
    assert.deepEqual(problems, [
      'Not added: \u2068a\u2069, \u2068b\u2069, \u2068c\u2069 and 2 more. A file may have at most 2 KB.',
      'Not added: \u2068last\u2069. A message may have at most 3 files.',
    ])
  })

  test('leave room for another file up to the nearest limit', () => {
    const rooms = [[], [file(2048)], [file(2048), file(1048)], [file(1), file(1), file(1)]].map((present) =>
      roomForFile(present, limits),
    )
    assert.deepEqual(rooms, [2048, 2048, 1000, 0])
  })

  test('never exceed the limits, whatever is added', () => {
    const files = fc.array(fc.nat(3000).map((size) => file(size)))
    fc.assert(
      fc.property(files, (incoming) => {
        const { admitted, problems } = admitFiles([], incoming, limits, ENGLISH)
        const total = admitted.reduce((sum, { size }) => sum + size, 0)
        assert.ok(admitted.length <= limits.count && total <= limits.total)
        assert.equal(problems.length > 0, admitted.length < incoming.length)
      }),
    )
  })
})

test('a name is shown without characters that hide its extension', () => {
  assert.equal(displayName('photo\u202egpj.exe', ENGLISH), 'photo\ufffdgpj.exe')
  assert.equal(displayName('a\nb\u0000.txt', ENGLISH), 'a\ufffdb\ufffd.txt')
  assert.equal(displayName('می\u200cخواهم.pdf', ENGLISH), 'می\u200cخواهم.pdf')
  assert.equal(displayName('  ', ENGLISH), 'file')
  assert.equal(displayName(`photo.jpg${' \u3000'.repeat(60)}.exe`, ENGLISH), 'photo.jpg .exe')
  for (const hidden of [
    '\u200b',
    '\u2060',
    '\ufeff',
    '\u00ad',
    '\u200d',
    '\u200f',
    '\u061c',
    '\u3164',
    '\u2800',
    '\u{e0065}',
  ])
    assert.equal(displayName(`a.ex${hidden}e`, ENGLISH), 'a.ex\ufffde', JSON.stringify(hidden))
  assert.equal(displayName('👩\u200d🚀❤\ufe0f.png', ENGLISH), '👩\u200d🚀❤\ufe0f.png')
})

test('an extension is a label only if it looks like one', () => {
  assert.deepEqual(['a.pdf', 'a.tar.gz', 'a', '.env', 'a.<b>', 'a.config'].map(extensionLabel), [
    'PDF',
    'GZ',
    '',
    '',
    '',
    '',
  ])
})

test('only types that browsers may show in place are shown', () => {
  const kinds = ['image/png', 'image/svg+xml', 'text/html', 'audio/webm', 'image/png; charset=x', ''].map(fileKind)
  assert.deepEqual(kinds, ['image', 'other', 'other', 'audio', 'other', 'other'])
})

test('a size has two or three digits and a unit', () => {
  const sizes = [0, 1, 1023, 1024, 1536, 10_240, 1024 ** 2 - 1, 26_214_400, 1_234_567].map((size) =>
    formatSize(size, ENGLISH),
  )
  assert.deepEqual(sizes, ['0 bytes', '1 byte', '1023 bytes', '1 KB', '1.5 KB', '10 KB', '1 MB', '25 MB', '1.2 MB'])
  assert.deepEqual(
    [1, 1023, 1536, 26_214_400].map((size) => formatSize(size, de).replace(/\s/, ' ')),
    ['1 Byte', '1023 Byte', '1,5 KB', '25 MB'],
  )
})
