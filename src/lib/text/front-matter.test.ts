import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { frontMatterItems, frontMatterValue, splitFrontMatter } from './front-matter.ts'

test('splits any Markdown without loss', () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.stringMatching(/^---\n[a:\n-]{0,20}\n---\n.{0,5}$/)), (markdown) => {
      const { matter, body } = splitFrontMatter(markdown)
      assert.ok(markdown.endsWith(body) && markdown.includes(matter?.slice(1) ?? ''))
    }),
  )
  assert.deepEqual(splitFrontMatter('---\r\na: 1\r\n---\r\nb'), { matter: '\na: 1\r\n', body: 'b' })
  assert.deepEqual(splitFrontMatter('---\n---'), { matter: '\n', body: '' })
  assert.deepEqual(splitFrontMatter('a\n---\nb\n---\n'), { body: 'a\n---\nb\n---\n' })
})

test('reads the first line of a key, without blanks around it and without quotes', () => {
  const value = (matter: string) => frontMatterValue(`---\n${matter}\n---\nkey: body\n`, 'key')
  assert.deepEqual(value('other: 1\nkey: \t a b \t\r\nkey: 2'), { text: 'a b', isQuoted: false })
  assert.deepEqual(value('key:a: b'), { text: 'a: b', isQuoted: false })
  assert.deepEqual(value('key: "a \'b\'"'), { text: "a 'b'", isQuoted: true })
  assert.deepEqual(value("key: ' a '"), { text: ' a ', isQuoted: true })
  assert.deepEqual(value('key: ""'), { text: '', isQuoted: true })
  for (const text of ['"', '"a', "a'", `"a'`]) assert.deepEqual(value(`key: ${text}`), { text, isQuoted: false })
  for (const matter of ['key:', 'keys: a', ' key: a', ''])
    assert.deepEqual(value(matter), { text: '', isQuoted: false })
  assert.deepEqual(frontMatterValue('key: a', 'key'), { text: '', isQuoted: false })
})

test('reads the block below a key, which ends where the indentation does', () => {
  const value = (matter: string) => frontMatterValue(`---\n${matter}\n---\n  body\n`, 'key').text
  assert.equal(value('key: |\n  a \r\n\n    b: "c"\nnext: 1\n  no'), 'a\n\n  b: "c"')
  assert.equal(value('key: >-\n  a\n  b\n\n  c'), 'a b\nc')
  for (const matter of ['key: |', 'key: |\nnext: 1', 'key: >\n\n']) assert.equal(value(matter), '', matter)
  assert.equal(value('key: "|"\n  a'), '|')
  assert.equal(value('key: | a\n  b'), '| a')
})

test('reads back any value in quotes', () => {
  const line = fc.string({ unit: 'binary' }).filter((text) => !text.includes('\n'))
  fc.assert(
    fc.property(line, fc.constantFrom('"', "'"), (text, quote) => {
      const markdown = `---\nkey: ${quote}${text}${quote} \n---\n`
      assert.deepEqual(frontMatterValue(markdown, 'key'), { text, isQuoted: true })
    }),
  )
})

test('reads the items below a key, until a line that is none', () => {
  const items = (matter: string) => frontMatterItems(`---\n${matter}\n---\n- body\n`, 'key')
  assert.deepEqual(items('other:\n- x\nkey: \r\n  - a b \r\n\t- "c: d"\n- - e\nnext: 1\n- no'), ['a b', 'c: d', '- e'])
  for (const matter of ['key:', 'key: a\n- b', 'key:\n\n- a', ' key:\n- a', 'key:\n-a', ''])
    assert.deepEqual(items(matter), [], matter)
  assert.deepEqual(frontMatterItems('key:\n- a', 'key'), [])
  assert.deepEqual(items('key: ["a", 1, "b: c"]\n- no'), ['a', 'b: c'])
  assert.deepEqual(items('key: [a, b]'), [])
})
