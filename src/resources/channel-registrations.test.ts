import assert from 'node:assert/strict'
import { test } from 'node:test'
import { agent, isRefusal, onEveryEngine, type TestHost, testHost } from '../../test/support/host.ts'
import { run } from '../../test/support/sql.ts'
import type { HealthCheck } from '../core/delivery/channel-registrations.ts'
import { claimHealthChecks, recordHealth, registerChannel } from '../core/delivery/channel-registrations.ts'
import { type OutboxState, outbox } from '../core/delivery/outbox.ts'
import { audit } from '../registry/audit.ts'
import { channelRegistrationsResource } from './channel-registrations.ts'
import { channelSecretsResource } from './channel-secrets.ts'

const { list, undelivered } = channelRegistrationsResource.verbs
const AT = '2026-01-01T00:00:00.000Z'

const register = ({ host }: TestHost, name: string, prefix: string) =>
  host.engine.transaction((tx) =>
    registerChannel(tx, host, {
      name,
      url: 'http://127.0.0.1:9',
      jid_prefixes: [prefix],
      capabilities: { send: true, edit: false, like: true },
      secret_name: undefined,
    }),
  )

/** As routd does, for the one adapter. */
async function check({ host, clock }: TestHost, result: HealthCheck): Promise<void> {
  const [row] = await host.engine.transaction((tx) => claimHealthChecks(tx, { now: clock.now(), everyMs: 30_000 }))
  assert.ok(row)
  await host.engine.transaction((tx) => recordHealth(tx, host, row, result))
}

async function send({ host }: TestHost, seq: number, jid: string, state: OutboxState): Promise<void> {
  await host.engine.transaction((tx) =>
    outbox.insert(tx, {
      message_seq: seq,
      id: `message-${seq}`,
      jid,
      topic: '',
      folder: 'main',
      action: 'send',
      payload: '{"secret":1}',
      engages: false,
      state,
      attempts: seq,
      next_at: host.clock.now() + 1000 * seq,
      fence: 0,
      leased_until: 0,
      error: state === 'sent' ? undefined : `fault ${seq}`,
      created_at: AT,
      updated_at: AT,
    }),
  )
}

onEveryEngine('channels', (engine) => {
  test('are listed with the health that the process of routd has written', async (t) => {
    const on = await testHost(t, engine)
    const { clock } = on
    await register(on, 'bridge', 'telegram:')
    const adapter = async () => (await on.cli.call(list, {})).adapters[0]
    assert.deepEqual(await adapter(), {
      name: 'bridge',
      url: 'http://127.0.0.1:9',
      jid_prefixes: ['telegram:'],
      platforms: ['telegram'],
      capabilities: ['send', 'like'],
      health: 'healthy',
      health_fails: 0,
      checked_at: AT,
      registered_at: AT,
      seen_at: AT,
      secret_name: undefined,
      state: undefined,
      detail: undefined,
      since: undefined,
      reported_at: undefined,
      qr: undefined,
    })
    clock.advance(31_000)
    await check(on, { isAlive: false })
    assert.equal((await adapter())?.health, 'failing')
    clock.advance(31_000)
    await check(on, { isAlive: true })
    assert.equal((await adapter())?.health, 'healthy')
    clock.advance(100_000)
    assert.equal((await adapter())?.health, 'unknown')
  })

  test('are listed with the state that they last reported, until they report none', async (t) => {
    const on = await testHost(t, engine)
    await register(on, 'bridge', 'telegram:')
    const shown = async () => {
      const [adapter] = (await on.cli.call(list, {})).adapters
      return [adapter?.state, adapter?.detail, adapter?.since, adapter?.reported_at, adapter?.qr]
    }
    const report = {
      state: 'login_needed',
      detail: 'scan it',
      since: '2025-12-31T00:00:00.000Z',
      qr: '2@code',
    } as const
    on.clock.advance(31_000)
    await check(on, { isAlive: true, report })
    const first = '2026-01-01T00:00:31.000Z'
    assert.deepEqual(await shown(), ['login_needed', 'scan it', '2025-12-31T00:00:00.000Z', first, '2@code'])
    on.clock.advance(31_000)
    await check(on, { isAlive: false })
    // The last report remains, without the code: it is no longer valid.
    assert.deepEqual(await shown(), ['login_needed', 'scan it', '2025-12-31T00:00:00.000Z', first, undefined])
    on.clock.advance(31_000)
    await check(on, { isAlive: true, report: { state: 'ok' } })
    assert.deepEqual(await shown(), ['ok', undefined, undefined, '2026-01-01T00:01:33.000Z', undefined])
    await register(on, 'bridge', 'telegram:')
    assert.equal((await shown())[0], 'ok')
    on.clock.advance(31_000)
    await check(on, { isAlive: true })
    assert.deepEqual(await shown(), [undefined, undefined, undefined, undefined, undefined])
  })

  test('keep the QR code of a sign-in encrypted, show it only in the status, and only while it is checked', async (t) => {
    const on = await testHost(t, engine)
    await register(on, 'bridge', 'whatsapp:')
    on.clock.advance(31_000)
    await check(on, { isAlive: true, report: { state: 'login_needed', qr: '2@the-code' } })
    const { rows } = await on.host.engine.read((tx) => run(tx, 'select * from channel_registrations'))
    const stored = rows
      .flatMap((row) => Object.values(row))
      .map((value) => Buffer.from(String(value)).toString('latin1'))
    assert.ok(!stored.join().includes('the-code'))
    const secrets = await on.cli.call(channelSecretsResource.verbs.list, {})
    assert.equal(secrets.channel_secrets[0]?.adapters[0]?.state, 'login_needed')
    assert.ok(!JSON.stringify(secrets).includes('the-code'))
    assert.ok(!JSON.stringify(await on.host.engine.read((tx) => audit.list(tx))).includes('the-code'))
    const qr = async () => (await on.cli.call(list, {})).adapters[0]?.qr
    assert.equal(await qr(), '2@the-code')
    on.clock.advance(100_000)
    assert.equal(await qr(), undefined)
    await assert.rejects(on.as(agent('main')).call(list, {}), isRefusal('forbidden'))
  })

  test('are checked every 5 s while they report a QR code, otherwise every 30 s', async (t) => {
    const on = await testHost(t, engine)
    await register(on, 'bridge', 'whatsapp:')
    const isDue = async (ms: number): Promise<boolean> => {
      on.clock.advance(ms)
      const due = { now: on.clock.now(), everyMs: 30_000 }
      return (await on.host.engine.transaction((tx) => claimHealthChecks(tx, due))).length === 1
    }
    assert.deepEqual([await isDue(29_999), await isDue(1)], [false, true])
    on.clock.advance(30_000)
    await check(on, { isAlive: true, report: { state: 'login_needed', qr: '2@code' } })
    assert.deepEqual([await isDue(4999), await isDue(1)], [false, true])
    on.clock.advance(5000)
    await check(on, { isAlive: true, report: { state: 'ok' } })
    assert.deepEqual([await isDue(29_999), await isDue(1)], [false, true])
  })

  test('count the messages that wait and failed by platform, also of platforms without an adapter', async (t) => {
    const on = await testHost(t, engine)
    await register(on, 'bridge', 'telegram:')
    await on.cli.call(channelSecretsResource.verbs.add, { name: 'chat', platforms: ['slack'] })
    const states = { 1: 'pending', 2: 'sending', 3: 'failed', 4: 'sent' } as const
    for (const [seq, state] of Object.entries(states)) await send(on, Number(seq), 'telegram:1', state)
    await send(on, 5, 'discord:1', 'unknown')
    await send(on, 6, 'sandbox:1', 'failed')
    assert.deepEqual((await on.cli.call(list, {})).platforms, [
      { platform: 'discord', delivered_by: 'nothing', adapters: [], waiting: 0, failed: 1 },
      { platform: 'sandbox', delivered_by: 'built-in', adapters: [], waiting: 0, failed: 1 },
      { platform: 'slack', delivered_by: 'nothing', adapters: [], waiting: 0, failed: 0 },
      { platform: 'telegram', delivered_by: 'adapter', adapters: ['bridge'], waiting: 2, failed: 1 },
    ])
  })

  test('list undelivered messages in pages, without what was to be sent', async (t) => {
    const on = await testHost(t, engine)
    const states = ['failed', 'pending', 'unknown', 'pending', 'failed', 'sent', 'sending'] as const
    for (const [index, state] of states.entries()) await send(on, index + 1, 'telegram:1', state)
    const pages = async (kind: string): Promise<string[][]> => {
      const read: string[][] = []
      let after: string | undefined
      do {
        const page = await on.cli.call(undelivered, { kind, limit: 2, ...(after === undefined ? {} : { after }) })
        read.push(page.undelivered.map(({ id, state, error, next_at }) => `${id} ${state} ${error} ${next_at ?? '-'}`))
        after = page.next
      } while (after !== undefined)
      return read
    }
    assert.deepEqual(await pages('failed'), [
      ['message-5 failed fault 5 -', 'message-3 unknown fault 3 -'],
      ['message-1 failed fault 1 -'],
    ])
    assert.deepEqual(await pages('waiting'), [
      ['message-2 pending fault 2 2026-01-01T00:00:02.000Z', 'message-4 pending fault 4 2026-01-01T00:00:04.000Z'],
      ['message-7 sending fault 7 2026-01-01T00:00:07.000Z'],
    ])
    assert.ok(!JSON.stringify(await on.cli.call(undelivered, {})).includes('payload'))
    await assert.rejects(on.cli.call(undelivered, { after: 'e30' }), isRefusal('invalid', 'after is not a cursor'))
  })
})
