import assert from 'node:assert/strict'
import { test } from 'node:test'
import { emptyStore, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { run } from '../../../test/support/sql.ts'
import { timestamp } from '../../lib/clock.ts'
import { openEngine } from '../../store/index.ts'
import { migrate } from '../../store/migrate.ts'
import { groups as groupTable } from '../groups/groups.ts'
import {
  DENIALS_PER_FOLDER,
  type DenialReport,
  deniedHost,
  networkDenials,
  recordDenials,
  unallowableReason,
} from './network-denials.ts'

const START = Date.parse('2026-01-01T00:00:00.000Z')
const at = (second: number): string => timestamp(START + second * 1000)
const denial = (host: string, second: number, rest: Partial<DenialReport> = {}): DenialReport => ({
  folder: 'team',
  host,
  port: 443,
  reason: 'blocked-by-allowlist',
  count: 1,
  at: at(second),
  ...rest,
})

onEveryEngine('network denials', (engine) => {
  test('are counted per folder, host, port and reason, with the first and last time', async (t) => {
    const { host, groups } = await testHost(t, engine)
    await groups('team', 'other')
    const record = (...denials: DenialReport[]) => host.engine.transaction((tx) => recordDenials(tx, denials))
    await record(
      denial('a.example', 5),
      denial('a.example', 7, { count: 3 }),
      denial('a.example', 1, { folder: 'other' }),
    )
    // Reported late, by a run that ended later.
    await record(denial('a.example', 2), denial('a.example', 6))
    await record(denial('a.example', 8, { port: undefined }), denial('a.example', 9, { reason: 'ip-literal' }))
    const rows = await host.engine.read((tx) => networkDenials.list(tx))
    const row = { folder: 'team', host: 'a.example', sni: '', port: 443, reason: 'blocked-by-allowlist' }
    assert.deepEqual(rows, [
      { ...row, folder: 'other', count: 1, first_at: at(1), last_at: at(1) },
      { ...row, port: 0, count: 1, first_at: at(8), last_at: at(8) },
      { ...row, count: 6, first_at: at(2), last_at: at(7) },
      { ...row, reason: 'ip-literal', count: 1, first_at: at(9), last_at: at(9) },
    ])
  })

  test('are counted per server name that was denied inside a tunnel', async (t) => {
    const { host, groups } = await testHost(t, engine)
    await groups('team')
    const hidden = (sni: string, second: number) => denial('a.example', second, { reason: 'sni-denied', sni })
    await host.engine.transaction((tx) =>
      recordDenials(tx, [hidden('b.example', 1), hidden('c.example', 2), hidden('b.example', 3)]),
    )
    const rows = await host.engine.read((tx) => networkDenials.list(tx))
    assert.deepEqual(
      rows.map(({ host: name, sni, count, last_at }) => [name, sni, count, last_at]),
      [
        ['a.example', 'b.example', 2, at(3)],
        ['a.example', 'c.example', 1, at(2)],
      ],
    )
  })

  test('of an older store survive the migration', async (t) => {
    const store = await openEngine(await emptyStore(t, engine))
    t.after(() => store.close())
    const older = { name: 'network_denials', storage: networkDenials.storage.slice(0, 2) }
    await migrate(store, [groupTable, older], () => at(0))
    await store.transaction(async (tx) => {
      await groupTable.insert(tx, { folder: 'team', name: 'team', product: 'assistant', open: true, added_at: at(0) })
      await run(tx, `insert into network_denials values ('team', 'a.example', 443, 'ip-literal', 3, $1, $2)`, [
        at(1),
        at(2),
      ])
    })
    await migrate(store, [groupTable, networkDenials], () => at(0))
    const rows = await store.read((tx) => networkDenials.list(tx))
    const row = { folder: 'team', host: 'a.example', sni: '', port: 443, reason: 'ip-literal' }
    assert.deepEqual(rows, [{ ...row, count: 3, first_at: at(1), last_at: at(2) }])
    await store.transaction((tx) => groupTable.remove(tx, { folder: 'team' }))
    assert.deepEqual(await store.read((tx) => networkDenials.list(tx)), [])
  })

  test('are limited to the newest 200 rows per folder', async (t) => {
    const { host, groups } = await testHost(t, engine)
    await groups('team', 'other')
    const record = (denials: DenialReport[]) => host.engine.transaction((tx) => recordDenials(tx, denials))
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

  test('are removed with their group and not recorded without one', async (t) => {
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

  test('store an invalid host truncated and without control characters', async (t) => {
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

test('a rule can allow a denied host unless it is an address or resolves to a private one', () => {
  const denied = { host: 'a.example', sni: '', reason: 'blocked-by-allowlist' }
  assert.equal(unallowableReason(denied), undefined)
  assert.match(unallowableReason({ ...denied, host: '10.0.0.1' }) ?? '', /an address/)
  assert.match(unallowableReason({ ...denied, host: '::1' }) ?? '', /an address/)
  assert.match(unallowableReason({ ...denied, reason: 'ip-literal' }) ?? '', /an address/)
  assert.match(unallowableReason({ ...denied, reason: 'destination-ip-prohibited' }) ?? '', /private/)
  assert.match(unallowableReason({ ...denied, host: 'a b; rm -rf' }) ?? '', /not a host name/)
})

test('a rule must allow the server name if that was denied', () => {
  const denied = { host: 'a.example', sni: 'b.example', reason: 'sni-denied' }
  assert.equal(deniedHost(denied), 'b.example')
  assert.equal(deniedHost({ ...denied, sni: '' }), 'a.example')
  assert.equal(unallowableReason(denied), undefined)
  assert.match(unallowableReason({ ...denied, sni: '10.0.0.1' }) ?? '', /an address/)
  assert.equal(
    unallowableReason({ ...denied, sni: '', reason: 'sni-unreadable' }),
    'no rule helps: its TLS hello cannot be read',
  )
})
