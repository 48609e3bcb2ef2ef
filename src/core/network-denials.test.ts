import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryEngine, testHost } from '../../test/support/host.ts'
import { timestamp } from '../lib/clock.ts'
import { groups as groupTable } from './groups.ts'
import { DENIALS_PER_FOLDER, type Denial, networkDenials, recordDenials, unallowable } from './network-denials.ts'

const START = Date.parse('2026-01-01T00:00:00.000Z')
const at = (second: number): string => timestamp(START + second * 1000)
const denial = (host: string, second: number, rest: Partial<Denial> = {}): Denial => ({
  folder: 'team',
  host,
  port: 443,
  reason: 'blocked-by-allowlist',
  count: 1,
  at: at(second),
  ...rest,
})

onEveryEngine('network denials', (engine) => {
  test('are counted for each folder, host, port and reason, with the first and the last time', async (t) => {
    const { host, groups } = await testHost(t, engine)
    await groups('team', 'other')
    const record = (...denials: Denial[]) => host.engine.transaction((tx) => recordDenials(tx, denials))
    await record(
      denial('a.example', 5),
      denial('a.example', 7, { count: 3 }),
      denial('a.example', 1, { folder: 'other' }),
    )
    // Reported late, by a run that ended later.
    await record(denial('a.example', 2), denial('a.example', 6))
    await record(denial('a.example', 8, { port: undefined }), denial('a.example', 9, { reason: 'ip-literal' }))
    const rows = await host.engine.read((tx) => networkDenials.list(tx))
    const row = { folder: 'team', host: 'a.example', port: 443, reason: 'blocked-by-allowlist' }
    assert.deepEqual(rows, [
      { ...row, folder: 'other', count: 1, first_at: at(1), last_at: at(1) },
      { ...row, port: 0, count: 1, first_at: at(8), last_at: at(8) },
      { ...row, count: 6, first_at: at(2), last_at: at(7) },
      { ...row, reason: 'ip-literal', count: 1, first_at: at(9), last_at: at(9) },
    ])
  })

  test('of one folder are limited to 200 rows, and the oldest go', async (t) => {
    const { host, groups } = await testHost(t, engine)
    await groups('team', 'other')
    const record = (denials: Denial[]) => host.engine.transaction((tx) => recordDenials(tx, denials))
    const hostsOf = async (folder: string) =>
      (await host.engine.read((tx) => networkDenials.list(tx, { folder }))).map((row) => row.host)
    assert.equal(DENIALS_PER_FOLDER, 200)
    await record([denial('kept.example', 0, { folder: 'other' })])
    await record(Array.from({ length: 200 }, (_, n) => denial(`h${n}.example`, n)))
    assert.equal((await hostsOf('team')).length, 200)
    await record([denial('h0.example', 500), denial('new.example', 501)])
    const hosts = await hostsOf('team')
    assert.equal(hosts.length, 200)
    assert.ok(hosts.includes('h0.example') && hosts.includes('new.example') && !hosts.includes('h1.example'))
    assert.deepEqual(await hostsOf('other'), ['kept.example'])
  })

  test('go with their group, and a folder without one has none', async (t) => {
    const { host, groups } = await testHost(t, engine)
    await groups('team', 'other')
    await host.engine.transaction((tx) =>
      recordDenials(tx, [
        denial('a.example', 0, { folder: 'gone' }),
        denial('a.example', 0),
        denial('a.example', 0, { folder: 'other' }),
      ]),
    )
    await host.engine.transaction((tx) => groupTable.remove(tx, { folder: 'team' }))
    const rows = await host.engine.read((tx) => networkDenials.list(tx))
    assert.deepEqual(
      rows.map(({ folder }) => folder),
      ['other'],
    )
  })

  test('keep a host that no DNS name looks like, cut and without control characters', async (t) => {
    const { host, groups } = await testHost(t, engine)
    await groups('team')
    await host.engine.transaction((tx) =>
      recordDenials(tx, [denial('a\u0000\u001b[2J', 0), denial('x'.repeat(300), 1), denial('\ud800', 2)]),
    )
    const rows = await host.engine.read((tx) => networkDenials.list(tx))
    assert.deepEqual(
      rows.map((row) => row.host),
      ['a\ufffd\ufffd[2J', 'x'.repeat(256), '\ufffd'],
    )
  })
})

test('a denied host is allowed by a rule unless it is an address or has a private one', () => {
  const reason = 'blocked-by-allowlist'
  assert.equal(unallowable({ host: 'a.example', reason }), undefined)
  assert.match(unallowable({ host: '10.0.0.1', reason }) ?? '', /an address/)
  assert.match(unallowable({ host: '::1', reason }) ?? '', /an address/)
  assert.match(unallowable({ host: 'a.example', reason: 'ip-literal' }) ?? '', /an address/)
  assert.match(unallowable({ host: 'a.example', reason: 'destination-ip-prohibited' }) ?? '', /private/)
  assert.match(unallowable({ host: 'a b; rm -rf', reason }) ?? '', /not a host name/)
})
