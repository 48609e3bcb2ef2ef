import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { phrasesOf } from './text-query.ts'

const shown = (query: string): string =>
  phrasesOf(query)
    .map(({ words, isPrefix }) => words.join(' ') + (isPrefix ? '*' : ''))
    .join(' | ')

test('the phrases of a query are read as FTS5 reads them', () => {
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
    assert.equal(shown(query), phrases, query)
})

test('any text has phrases of words', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (query) => {
      for (const { words } of phrasesOf(query)) assert.ok(words.length > 0 && words.every((word) => word !== ''))
    }),
  )
})
