import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { parsePhrases } from './text-query.ts'

const showPhrases = (query: string): string =>
  parsePhrases(query)
    .map(({ words, isPrefix }) => words.join(' ') + (isPrefix ? '*' : ''))
    .join(' | ')

test('parses the phrases of a query as FTS5 does', () => {
  for (const [query, phrases] of [
    ['one', 'one'],
    ['one Two', 'one | two'],
    ['"one two" three', 'one two | three'],
    ['"say ""one"" two"', 'say one two'],
    ['a AND b OR c NOT d', 'a | b | c | d'],
    ['and or not', 'and | or | not'],
    ['pre*', 'pre*'],
    ['"one pre" *', 'one pre*'],
    ['one + two + "three four"*', 'one two three four*'],
    ['NEAR(a "b c" d*, 10) NEAR', 'a | b c | d* | near'],
    ['NEAR', 'near'],
    ['^one', 'one'],
    ['content : one', 'one'],
    ['{content} : (a OR b)', 'content | a | b'],
    ['Café naïve', 'cafe | naive'],
    ['a_b x·y', 'a b | x y'],
    ['"" "-" one', 'one'],
    ['', ''],
  ] as const)
    assert.equal(showPhrases(query), phrases, query)
})

test('accepts any text and returns no empty phrase', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (query) => {
      for (const { words } of parsePhrases(query)) assert.ok(words.length > 0 && words.every((word) => word !== ''))
    }),
  )
})
