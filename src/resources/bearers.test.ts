import assert from 'node:assert/strict'
import { test } from 'node:test'
import { agent, isRefusal, onEveryEngine, person, testHost } from '../../test/support/host.ts'
import { verifyBearer } from '../core/access/bearers.ts'
import type { Caller } from '../core/access/caller.ts'
import { issuedBearers } from '../core/access/issued-bearers.ts'
import { createSession } from '../core/people/sessions.ts'
import { audit } from '../registry/audit.ts'
import { bearersResource } from './bearers.ts'

const { list, create, revoke } = bearersResource.verbs
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const withSession = (sub: string) => ({ kind: 'person', sub, session: `session of ${sub}` }) as const

onEveryEngine('the bearers resource', (engine) => {
  test('a person with a session makes a bearer, which is listed and audited without its text', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('team')
    await on.grant('github:1', 'interact', 'team')
    const ada = on.as(withSession('github:1'), 'dash')
    const { id, bearer } = await ada.call(create, { name: 'backup', folder: 'team', ttl_ms: HOUR_MS })
    assert.deepEqual(await verifyBearer(on.host, bearer), { kind: 'person', sub: 'github:1', folder: 'team' })
    const { bearers } = await ada.call(list, {})
    assert.deepEqual(
      bearers.map((row) => [row.id, row.sub, row.name, row.folder, row.kind, row.created_by]),
      [[id, 'github:1', 'backup', 'team', 'user', 'github:1']],
    )
    const rows = await on.host.engine.read((tx) => audit.list(tx, { resource: 'bearers' }))
    assert.deepEqual(
      rows.map(({ action, actor, key, params_summary }) => [action, actor, key, params_summary]),
      [['bearers.create', 'github:1', id, '{"name":"backup","folder":"team","ttl_ms":3600000}']],
    )
    const stored = JSON.stringify([rows, await on.host.engine.read((tx) => issuedBearers.list(tx))])
    for (const part of bearer.split('.')) assert.ok(!stored.includes(part))
  })

  test('needs a recent sign-in for longer than a day', async (t) => {
    const on = await testHost(t, engine)
    const started = {
      sub: 'github:1',
      kind: 'browser',
      method: 'link',
      idleMs: 40 * DAY_MS,
      maxMs: 40 * DAY_MS,
    } as const
    const { session } = await on.host.engine.transaction((tx) => createSession(tx, on.host, started))
    const caller = { kind: 'person', sub: 'github:1', session: session.family_id } as const
    const ofDays = (ttl_ms: number, by: Caller = caller) => on.as(by, 'dash').call(create, { ttl_ms })
    on.clock.advance(15 * 60_000 - 1)
    await ofDays(30 * DAY_MS)
    on.clock.advance(1)
    await ofDays(DAY_MS)
    const denied = isRefusal('forbidden', 'for longer than a day needs a sign-in of the last 15 minutes')
    await assert.rejects(ofDays(DAY_MS + 1), denied)
    await assert.rejects(ofDays(30 * DAY_MS, { ...caller, sub: 'github:2' }), denied)
    assert.equal(await on.host.engine.read((tx) => issuedBearers.count(tx)), 2)
    await on.cli.call(create, { sub: 'github:1', ttl_ms: 30 * DAY_MS })
  })

  test('leaves neither bearer nor row if the folder is not the person’s', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('team', 'other')
    await on.grant('github:1', 'interact', 'team')
    const ada = on.as(withSession('github:1'), 'dash')
    const answers = await Promise.all(
      ['other', 'nowhere'].map((folder) =>
        ada.call(create, { name: 'x', folder }).catch((error: Error) => error.message.replace(folder, '…')),
      ),
    )
    assert.deepEqual(answers, Array(2).fill('there is no group … that you may use'))
    assert.equal(await on.host.engine.read((tx) => issuedBearers.count(tx)), 0)
  })

  test('a bearer, an agent, and people other than unrestricted operators cannot make one for others', async (t) => {
    const on = await testHost(t, engine)
    await on.operator('github:9')
    for (const caller of [person('github:9'), agent('main'), { kind: 'service', sub: 'service:timed' } as const])
      await assert.rejects(on.as(caller).call(create, { name: 'x' }), isRefusal('forbidden', 'needs a browser session'))
    await on.operator('github:8')
    await on.grant('github:8', 'mcp:send', 'closed', 'deny')
    for (const [sub, given] of [
      ['github:1', 'github:2'],
      ['github:8', 'github:2'],
      ['github:9', 'service:timed'],
    ] as const)
      await assert.rejects(
        on.as(withSession(sub), 'dash').call(create, { name: 'x', sub: given }),
        isRefusal('forbidden', 'not permitted for others'),
      )
    await assert.rejects(on.as(withSession('github:1'), 'rest').call(create, {}), isRefusal('forbidden'))
    const other = await on.as(withSession('github:9'), 'dash').call(create, { sub: 'github:1' })
    assert.deepEqual(await verifyBearer(on.host, other.bearer), { kind: 'person', sub: 'github:1' })
    await assert.rejects(on.cli.call(create, { name: 'x' }), isRefusal('invalid', 'sub is missing'))
    const { id } = await on.cli.call(create, { sub: 'service:timed' })
    const row = await on.host.engine.read((tx) => issuedBearers.find(tx, { id }))
    assert.deepEqual([row?.kind, row?.sub, row?.created_by], ['service', 'service:timed', 'cli'])
  })

  test('people see and revoke their own bearers, operators and the host those of everyone', async (t) => {
    const on = await testHost(t, engine)
    await on.operator('github:9')
    const [ada, ben, op] = [person('github:1'), person('github:2'), person('github:9')].map((each) => on.as(each))
    const made = async (sub: string) => on.cli.call(create, { sub, name: 'x' })
    const [first, second, third] = [await made('github:1'), await made('github:2'), await made('github:2')]
    const idsOf = async (by = ada, sub?: string) => (await by?.call(list, { sub }))?.bearers.map(({ id }) => id).sort()
    assert.deepEqual(await idsOf(ada), [first.id])
    assert.deepEqual(await idsOf(ada, 'github:2'), [first.id])
    assert.deepEqual(await idsOf(op), [first.id, second.id, third.id].sort())
    assert.deepEqual(await idsOf(on.cli, 'github:1'), [first.id])
    const denied = isRefusal('not_found', 'there is no such bearer')
    await assert.rejects(ada?.call(revoke, { id: second.id }) ?? Promise.resolve(), denied)
    await assert.rejects(ada?.call(revoke, { id: 'unknown' }) ?? Promise.resolve(), denied)
    await ben?.call(revoke, { id: second.id })
    await op?.call(revoke, { id: third.id })
    for (const { bearer } of [second, third])
      await assert.rejects(verifyBearer(on.host, bearer), isRefusal('unauthenticated'))
    assert.equal((await verifyBearer(on.host, first.bearer)).kind, 'person')
    await assert.rejects(on.cli.call(revoke, { id: second.id }), isRefusal('not_found', 'has ended already'))
    await assert.rejects(on.as(agent('main')).call(list, {}), isRefusal('forbidden'))
  })

  test('an expired bearer cannot be revoked', async (t) => {
    const on = await testHost(t, engine)
    const { id } = await on.cli.call(create, { sub: 'github:1', ttl_ms: HOUR_MS })
    on.clock.advance(HOUR_MS)
    await assert.rejects(on.cli.call(revoke, { id }), isRefusal('not_found', 'has ended already'))
  })
})
