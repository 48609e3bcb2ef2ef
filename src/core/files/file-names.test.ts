import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { contentDisposition, fileNameOfPart, showableFileName } from './file-names.ts'

test('shows the last part of a path, without what would hide or turn it', () => {
  const names: [given: string, shown: string][] = [
    ['report.pdf', 'report.pdf'],
    ['../../etc/passwd', 'passwd'],
    ['C:\\Users\\me\\a.txt', 'a.txt'],
    ['a\u0000b\nc\u0085.txt', 'abc.txt'],
    ['invoice\u202egpj.exe', 'invoicegpj.exe'],
    ['a.ex\u200be\ufeff', 'a.exe'],
    ['می\u200cخواهم.pdf', 'می\u200cخواهم.pdf'],
    [`photo.jpg${' '.repeat(100)}.exe`, 'photo.jpg .exe'],
    ['\ud800x', '\ufffdx'],
    ['..', 'file'],
    ['dir/', 'file'],
    [' \t', 'file'],
    ['😀.png', '😀.png'],
    [`${'a'.repeat(300)}.pdf`, `${'a'.repeat(238)}.pdf`],
    ['é'.repeat(255), 'é'.repeat(255)],
    ['é'.repeat(256), 'é'.repeat(238)],
  ]
  for (const [given, shown] of names) assert.equal(showableFileName(given), shown, JSON.stringify(given))
})

test('reads names as browsers and other programs write them', () => {
  assert.equal(fileNameOfPart('a %22b%22%0D%0A.txt'), 'a "b".txt')
  assert.equal(fileNameOfPart("UTF-8''na%C3%AFve%20plan.txt"), 'naïve plan.txt')
  assert.equal(fileNameOfPart("utf-8'en'%ff"), "utf-8'en'%ff")
})

test('writes any name as one header', () => {
  assert.equal(
    contentDisposition('attachment', 'a "ü"\\%*.txt'),
    `attachment; filename="a _____*.txt"; filename*=UTF-8''a%20%22%C3%BC%22%5C%25%2A.txt`,
  )
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (given) => {
      const name = showableFileName(given)
      assert.ok(name !== '' && [...name].length <= 255 && !/[/\\\p{Cc}]/u.test(name))
      const header = contentDisposition('inline', name)
      assert.match(header, /^inline; filename="[ -!#-$&-[\]-~]*"; filename\*=UTF-8''[\w.%!~-]*$/)
      assert.equal(decodeURIComponent(header.slice(header.indexOf("''") + 2)), name)
    }),
  )
})
