import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { matchesEtag, negotiateEncoding } from './content-negotiation.ts'

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
