import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import fc from 'fast-check'
import { growth, LINEAR } from '../../../test/support/growth.ts'
import { createSnippet } from './snippet.ts'
import { parsePhrases } from './text-query.ts'

const snippet = (text: string, query: string): string => createSnippet(text, parsePhrases(query))
const withoutMarks = (text: string): string => text.replace(/[«»…]/g, '')
const numberedWords = (from: number, to: number): string =>
  Array.from({ length: to - from }, (_, index) => `w${from + index}`).join(' ')

test('shows a short text as it is and highlights each hit', () => {
  for (const [text, query, shown] of [
    ['the new server', 'server', 'the new «server»'],
    ['the new server', '"new server"', 'the «new server»'],
    ['the new server', 'new server', 'the «new» «server»'],
    ['a a a a', '"a a"', '«a a a a»'],
    ['Café, CAFE: cafés', 'cafe', '«Café», «CAFE»: cafés'],
    ['deploy deployed', 'deploy*', '«deploy» «deployed»'],
    ['nothing here', 'other', 'nothing here'],
    ['', 'a', ''],
  ] as const)
    assert.equal(snippet(text, query), shown)
})

test('shows 32 words of a long text, centered on the hits', () => {
  const text = `${numberedWords(0, 100)} needle ${numberedWords(100, 200)}`
  assert.equal(snippet(text, 'needle'), `…${numberedWords(85, 100)} «needle» ${numberedWords(100, 116)}…`)
  assert.equal(snippet(text, 'w0'), `«w0» ${numberedWords(1, 32)}…`)
  assert.equal(snippet(text, 'w199'), `…${numberedWords(168, 199)} «w199»`)
  assert.equal(snippet(text, 'missing'), `${numberedWords(0, 32)}…`)
  assert.equal(snippet(numberedWords(0, 32), 'w3'), numberedWords(0, 32).replace('w3', '«w3»'))
  assert.equal(snippet(numberedWords(0, 33), 'w3'), `${numberedWords(0, 32).replace('w3', '«w3»')}…`)
})

test('shows the part with the most different hits', () => {
  const text = `apple apple apple ${numberedWords(0, 60)} apple ${numberedWords(60, 65)} pear ${numberedWords(65, 120)}`
  assert.match(snippet(text, 'apple pear'), /^….*«apple» w60 w61 w62 w63 w64 «pear».*…$/)
})

test('shows at most 1000 characters, including the hit', () => {
  const blanks = ' '.repeat(5000)
  for (const text of [`needle${blanks}more`, `more${blanks}needle`, `a${blanks}needle${blanks}b`])
    assert.match(snippet(text, 'needle'), /«needle»/)
  assert.equal(withoutMarks(snippet(`more${blanks}needle${blanks}`, 'needle')).length, 1000)
  const long = snippet(`${blanks}${'x'.repeat(5000)}${blanks}`, 'x*')
  assert.match(long, /^… +«x+»…$/)
  // Surrogate pairs are not cut.
  for (const shift of ['', ' '])
    assert.ok(snippet(`${shift}${'😀'.repeat(900)} a ${'😀'.repeat(900)}`, 'a').isWellFormed())
})

/** The snippet of FTS5, for a text of at most 32 words. */
function createFts5Snippet(db: DatabaseSync, text: string, query: string): string | undefined {
  db.prepare('delete from words').run()
  db.prepare('insert into words (rowid, content) values (1, ?)').run(text)
  const row = db.prepare(`select snippet(words, 0, '«', '»', '…', 64) as s from words where words match ?`).get(query)
  return row && String(row.s)
}

test('highlights the same hits as FTS5', () => {
  const db = new DatabaseSync(':memory:')
  db.exec(`create virtual table words using fts5 (content, tokenize = "unicode61 remove_diacritics 2")`)
  const word = fc.constantFrom('a', 'b', 'ab', 'É', 'e', 'straße', 'Ω', '中文', '9', 'a_b', 'न', 'ΟΔΟΣ', 'οδος', 'İ')
  const text = fc
    .array(fc.tuple(word, fc.constantFrom(' ', ', ', '-', '\n', '😀')), { maxLength: 15 })
    .map((parts) => parts.flat().join(''))
  const phrase = fc
    .tuple(fc.array(word, { minLength: 1, maxLength: 3 }), fc.constantFrom('', '*'))
    .map(([words, star]) => `"${words.join(' ')}"${star}`)
  const query = fc.tuple(fc.array(phrase, { minLength: 1, maxLength: 4 }), fc.constantFrom(' ', ' OR ', ' + '))
  fc.assert(
    fc.property(text, query, (content, [phrases, between]) => {
      const joined = phrases.join(between)
      // Only the last phrase of a sum may be a prefix.
      fc.pre(between !== ' + ' || !joined.slice(0, -1).includes('*'))
      const expected = createFts5Snippet(db, content, joined)
      if (expected !== undefined) assert.equal(snippet(content, joined), expected)
    }),
    { numRuns: 500 },
  )
  db.close()
})

test('returns a part of any text, with balanced marks', () => {
  const text = fc.array(fc.constantFrom('a', 'b ', ' ', 'a/', '😀', '\ud800', 'é'), { maxLength: 200 })
  fc.assert(
    fc.property(text, fc.integer({ min: 1, max: 40 }), (parts, times) => {
      const content = parts.join('').repeat(times)
      const shown = snippet(content, 'a OR "a b" OR b*')
      assert.ok(content.includes(withoutMarks(shown)))
      assert.match(shown, /^…?[^«»…]*(«[^«»…]+»[^«»…]*)*…?$/)
    }),
  )
})

test('takes time linear in the length of the text', () => {
  for (const [piece, query] of [
    ['a/', 'a'],
    ['a/', '"a a a a"'],
    ['a b ', '"a b a" OR "b a" OR a*'],
    ['a ', 'b'],
    ['é', 'e*'],
    ['-', 'a'],
    ['a\u0301', 'a'],
  ] as const) {
    const phrases = parsePhrases(query)
    const times = growth(
      2048,
      (size) => piece.repeat(size / piece.length),
      (text) => createSnippet(text, phrases),
    )
    assert.ok(times < LINEAR, `${JSON.stringify(piece)} for ${query}: ${times}`)
  }
})
