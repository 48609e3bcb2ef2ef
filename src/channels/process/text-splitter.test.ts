import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import fc from 'fast-check'
import { runs } from '../../../test/support/part.ts'
import { splitText } from './text-splitter.ts'

const RUNS = { numRuns: runs(150, 3000) }
const withoutBlanks = (text: string): string => text.replace(/\s/g, '')
const bytes = (text: string): number => Buffer.byteLength(text)
const characters = (text: string): number => [...text].length
const LONE_SURROGATE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/

/** Text of everything that matters for cuts. */
const anyText = fc
  .array(
    fc.oneof(
      fc.constantFrom(' ', '\n', '\n\n', '```', '~~~', '```js\n', '`', '[', '](', ')', '. ', '! ', '😀', 'ä', '    '),
      fc.constantFrom('https://example.test/a/long/path', '[the name](https://example.test)', '````\n', '\n```\n'),
      fc.string({ maxLength: 12 }),
      fc.string({ unit: 'grapheme', maxLength: 4 }),
    ),
    { maxLength: 60 },
  )
  .map((pieces) => pieces.join(''))

const word = fc.stringMatching(/^[a-z]{1,9}$/)
const line = fc.array(word, { minLength: 1, maxLength: 6 }).map((words) => words.join(' '))
const codeBlock = fc
  .tuple(
    fc.constantFrom('```', '~~~', '````'),
    fc.constantFrom('', 'js'),
    fc.array(line, { minLength: 1, maxLength: 12 }),
  )
  .map(([marks, info, lines]) => `${marks}${info}\n${lines.join('\n')}\n${marks}`)
const link = fc.tuple(line, word).map(([name, path]) => `[${name}](https://example.test/${path})`)
const paragraph = fc.array(fc.oneof(word, link), { minLength: 1, maxLength: 20 }).map((each) => each.join(' '))
const document = fc
  .array(fc.oneof(paragraph, codeBlock), { minLength: 1, maxLength: 8 })
  .map((each) => each.join('\n\n'))

/** Whether code is open at the end, as a platform reads a message. */
function endsInCode(part: string): boolean {
  let open: string | undefined
  for (const [, marks = '', info = ''] of part.matchAll(/^(`{3,}|~{3,})(.*)$/gm)) {
    if (open === undefined) open = marks
    else if (info === '' && marks.startsWith(open)) open = undefined
  }
  return open !== undefined
}

suite('a text that is too long', () => {
  test('is split into parts that fit, as the platform counts', () => {
    const sizes = fc.constantFrom(16, 17, 24, 40, 100, 300)
    const measures = fc.constantFrom(bytes, characters, (text: string) => text.length)
    fc.assert(
      fc.property(anyText, sizes, measures, (text, max, measure) => {
        for (const part of splitText(text, max, measure)) assert.ok(measure(part) <= max, `${measure(part)}: ${part}`)
      }),
      RUNS,
    )
  })

  test('ends at every size, and cuts no character in two', () => {
    fc.assert(
      fc.property(anyText, fc.integer({ min: 1, max: 20 }), (text, max) => {
        for (const part of splitText(text, max)) {
          assert.notEqual(part.trim(), '')
          if (!LONE_SURROGATE.test(text)) assert.doesNotMatch(part, LONE_SURROGATE)
        }
      }),
      RUNS,
    )
    assert.deepEqual(splitText('a😀b', 2), ['a', '😀', 'b'])
    assert.deepEqual(splitText('😀😀', 1), ['😀', '😀'])
  })

  test('loses nothing but blanks', () => {
    const plain = anyText.map((text) => text.replace(/[`~]/g, ''))
    fc.assert(
      fc.property(plain, fc.integer({ min: 1, max: 60 }), (text, max) => {
        assert.equal(withoutBlanks(splitText(text, max).join('')), withoutBlanks(text))
      }),
      RUNS,
    )
    const withoutMarks = (text: string): string => withoutBlanks(text).replace(/[`~]/g, '')
    const isWithin = (inner: string, outer: string): boolean => {
      let at = 0
      for (const character of outer) if (inner.startsWith(character, at)) at += character.length
      return at === inner.length
    }
    // Info strings of fences may be repeated.
    fc.assert(
      fc.property(anyText, fc.integer({ min: 1, max: 60 }), (text, max) => {
        assert.ok(isWithin(withoutMarks(text), withoutMarks(splitText(text, max).join(''))))
      }),
      RUNS,
    )
  })

  test('has closed code in each part, and the same lines of code', () => {
    const content = (text: string): string[] => text.split('\n').filter((each) => !/^(?:```|~~~)/.test(each))
    fc.assert(
      fc.property(document, fc.integer({ min: 80, max: 200 }), (text, max) => {
        const parts = splitText(text, max)
        for (const part of parts) {
          assert.ok(!endsInCode(part), part)
          assert.doesNotMatch(part, /^(`{3,}|~{3,})\w*\n+\1$/)
        }
        assert.equal(withoutBlanks(content(parts.join('\n')).join('')), withoutBlanks(content(text).join('')))
      }),
      RUNS,
    )
  })

  test('has no link in two parts', () => {
    fc.assert(
      fc.property(document, fc.integer({ min: 100, max: 200 }), (text, max) => {
        const links = [...text.matchAll(/\[[^\]]*\]\([^)]*\)/g)].map(([each]) => each)
        const found = splitText(text, max).flatMap((part) =>
          [...part.matchAll(/\[[^\]]*\]\([^)]*\)/g)].map(([each]) => each),
        )
        assert.deepEqual(found, links)
      }),
      RUNS,
    )
    assert.deepEqual(splitText('see https://example.test/path', 26), ['see', 'https://example.test/path'])
    assert.deepEqual(splitText('an image: ![a b](https://x.test)', 25), ['an image:', '![a b](https://x.test)'])
  })

  test('is cut between paragraphs, else lines, else sentences, else words', () => {
    assert.deepEqual(splitText('one two three\n\nfour\nfive six', 20), ['one two three', 'four\nfive six'])
    assert.deepEqual(splitText('one two three\nfour five', 20), ['one two three', 'four five'])
    assert.deepEqual(splitText('One two three. Four five', 20), ['One two three.', 'Four five'])
    assert.deepEqual(splitText('one two three four', 13), ['one two three', 'four'])
    assert.deepEqual(splitText('x'.repeat(7), 3), ['xxx', 'xxx', 'x'])
  })

  test('opens a fence again as it was, unless the fence is as long as a message', () => {
    assert.deepEqual(splitText('```js\none one one\ntwo two two\n```', 24), [
      '```js\none one one\n```',
      '```js\ntwo two two\n```',
    ])
    assert.deepEqual(splitText('~~~ a`b`\none one one one\ntwo two two two\n~~~', 40), [
      '~~~ a`b`\none one one one\n~~~',
      '~~~a`b`\ntwo two two two\n~~~',
    ])
    const long = splitText(`${'`'.repeat(30)}\n${'code '.repeat(20)}`, 40)
    assert.ok(
      long.every((part) => part.length <= 40),
      long.join('\n'),
    )
    const informed = splitText(`\`\`\`${'info '.repeat(30)}\n${'code\n'.repeat(20)}\`\`\``, 60)
    assert.ok(informed.length < 10, informed.join('\n'))
  })

  test('does not leave the fence alone at a cut', () => {
    assert.deepEqual(splitText('Some words before it\n```js\nconst a = 1\nconst b = 2\n```', 40), [
      'Some words before it',
      '```js\nconst a = 1\nconst b = 2\n```',
    ])
    assert.deepEqual(splitText('```\none one one\n```\nafter', 19), ['```\none one one\n```', 'after'])
  })

  test('of fences and blanks alone has no part without text', () => {
    assert.deepEqual(splitText(' \n\t\n ', 4), [])
    for (const text of ['```\n'.repeat(50), '~~~~~~'.repeat(20), '```'.repeat(100)])
      for (const max of [1, 2, 3, 7, 16, 50]) assert.ok(splitText(text, max).every((part) => part.trim() !== ''))
  })

  test('takes time in proportion to its length', () => {
    const SIZE = 262_144
    for (const max of [1, 300, 4096])
      for (const piece of max === 1 ? ['['] : ['x', ' ', '\n', '[', 'https://', '```\n', 'a\n\n', '😀', '[a](']) {
        let measured = 0
        const text = `a${piece.repeat(SIZE / piece.length)}b`
        splitText(text, max, (part) => {
          measured += part.length
          return part.length
        })
        assert.ok(measured < 60 * SIZE, `${JSON.stringify(piece)} at ${max}: ${measured}`)
      }
  })
})
