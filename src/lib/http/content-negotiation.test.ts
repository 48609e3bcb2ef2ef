import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { matchesEtag, negotiateEncoding, preferredLanguages } from './content-negotiation.ts'

test('matches a tag, weak or strong, alone or in a list', () => {
  for (const header of ['"a"', 'W/"a"', '"b", "a"', '"b","a" ', '*']) assert.ok(matchesEtag(header, '"a"'), header)
  for (const header of [undefined, '', '"b"', 'a', '"a', '"ab"', '"A"'])
    assert.ok(!matchesEtag(header, '"a"'), String(header))
})

test('chooses the preferred coding, and none that the client does not accept', () => {
  const chosen = (header: string | undefined) => negotiateEncoding(header, ['br', 'gzip'])
  const cases: Record<string, string | undefined> = {
    'gzip, deflate, br, zstd': 'br',
    'gzip, deflate': 'gzip',
    'GZIP;Q=0.5 , br;q=0.4': 'gzip',
    'br;q=0, gzip': 'gzip',
    'br;q=0': undefined,
    '*': 'br',
    '*;q=0.1, br;q=0': 'gzip',
    identity: undefined,
    'br;q=x': undefined,
    '': undefined,
    xbr: undefined,
  }
  for (const [header, coding] of Object.entries(cases)) assert.equal(chosen(header), coding, header)
  assert.equal(chosen(undefined), undefined)
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (header) => [undefined, 'br', 'gzip'].includes(chosen(header))))
})

test('lists the languages that the client accepts, the preferred one first', () => {
  const cases: Record<string, string[]> = {
    'de-AT, de;q=0.9, en;q=0.8': ['de-at', 'de', 'en'],
    'en;q=0.5,de': ['de', 'en'],
    'fr;q=0.5, de; q=0.5': ['fr', 'de'],
    'de;q=0, en;q=0.001': ['en'],
    '*': ['*'],
    'de;q=x': [],
  }
  for (const [header, languages] of Object.entries(cases))
    assert.deepEqual(preferredLanguages(header), languages, header)
  assert.deepEqual(preferredLanguages('').filter(Boolean), [])
  assert.deepEqual(preferredLanguages(undefined).filter(Boolean), [])
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (header) => {
      const names = header
        .toLowerCase()
        .split(',')
        .map((part) => part.split(';')[0]?.trim())
      return preferredLanguages(header).every((language) => names.includes(language))
    }),
  )
})
