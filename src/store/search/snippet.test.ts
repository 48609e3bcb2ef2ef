import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import fc from 'fast-check'
import { growth, LINEAR } from '../../../test/support/growth.ts'
import { snippetOf } from './snippet.ts'
import { phrasesOf } from './text-query.ts'

const snippet = (text: string, query: string): string => snippetOf(text, phrasesOf(query))
const bare = (text: string): string => text.replace(/[«»…]/g, '')
const numbered = (from: number, to: number): string =>
  Array.from({ length: to - from }, (_, index) => `w${from + index}`).join(' ')

test('a short text is shown as it is, with marks around each hit', () => {
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

test('of a long text 32 words are shown, with as many before the hits as after', () => {
  const text = `${numbered(0, 100)} needle ${numbered(100, 200)}`
  assert.equal(snippet(text, 'needle'), `…${numbered(85, 100)} «needle» ${numbered(100, 116)}…`)
  assert.equal(snippet(text, 'w0'), `«w0» ${numbered(1, 32)}…`)
  assert.equal(snippet(text, 'w199'), `…${numbered(168, 199)} «w199»`)
  assert.equal(snippet(text, 'missing'), `${numbered(0, 32)}…`)
  assert.equal(snippet(numbered(0, 32), 'w3'), numbered(0, 32).replace('w3', '«w3»'))
  assert.equal(snippet(numbered(0, 33), 'w3'), `${numbered(0, 32).replace('w3', '«w3»')}…`)
})

test('the part with the most different hits is shown', () => {
  const text = `apple apple apple ${numbered(0, 60)} apple ${numbered(60, 65)} pear ${numbered(65, 120)}`
  assert.match(snippet(text, 'apple pear'), /^….*«apple» w60 w61 w62 w63 w64 «pear».*…$/)
})

test('a snippet has at most 1000 characters of the text, and the hit is in it', () => {
  const blanks = ' '.repeat(5000)
  for (const text of [`needle${blanks}more`, `more${blanks}needle`, `a${blanks}needle${blanks}b`])
    assert.match(snippet(text, 'needle'), /«needle»/)
  assert.equal(bare(snippet(`more${blanks}needle${blanks}`, 'needle')).length, 1000)
  const long = snippet(`${blanks}${'x'.repeat(5000)}${blanks}`, 'x*')
  assert.match(long, /^… +«x+»…$/)
  // Pairs of code units are not cut.
  for (const shift of ['', ' '])
    assert.ok(snippet(`${shift}${'😀'.repeat(900)} a ${'😀'.repeat(900)}`, 'a').isWellFormed())
})

/** What FTS5 makes of it: the text of at most 32 words, marked. */
function theirs(db: DatabaseSync, text: string, query: string): string | undefined {
  db.prepare('delete from words').run()
  db.prepare('insert into words (rowid, content) values (1, ?)').run(text)
  const row = db.prepare(`select snippet(words, 0, '«', '»', '…', 64) as s from words where words match ?`).get(query)
  return row && String(row.s)
}

test('hits are those that FTS5 marks', () => {
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
      const asked = phrases.join(between)
      // Only the last phrase of a sum may be a prefix.
      fc.pre(between !== ' + ' || !asked.slice(0, -1).includes('*'))
      const expected = theirs(db, content, asked)
      if (expected !== undefined) assert.equal(snippet(content, asked), expected)
    }),
    { numRuns: 500 },
  )
  db.close()
})

test('any text gives a part of it in which marks are in pairs', () => {
  const text = fc.array(fc.constantFrom('a', 'b ', ' ', 'a/', '😀', '\ud800', 'é'), { maxLength: 200 })
  fc.assert(
    fc.property(text, fc.integer({ min: 1, max: 40 }), (parts, times) => {
      const content = parts.join('').repeat(times)
      const shown = snippet(content, 'a OR "a b" OR b*')
      assert.ok(content.includes(bare(shown)))
      assert.match(shown, /^…?[^«»…]*(«[^«»…]+»[^«»…]*)*…?$/)
    }),
  )
})

test('the time of a snippet grows with the length of the text at most', () => {
  for (const [piece, query] of [
    ['a/', 'a'],
    ['a/', '"a a a a"'],
    ['a b ', '"a b a" OR "b a" OR a*'],
    ['a ', 'b'],
    ['é', 'e*'],
    ['-', 'a'],
    ['a\u0301', 'a'],
  ] as const) {
    const phrases = phrasesOf(query)
    const times = growth(
      2048,
      (size) => piece.repeat(size / piece.length),
      (text) => snippetOf(text, phrases),
    )
    assert.ok(times < LINEAR, `${JSON.stringify(piece)} for ${query}: ${times}`)
  }
})
