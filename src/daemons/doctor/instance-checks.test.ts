import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { suite, test } from 'node:test'
import { onEveryEngine, type TestHost, testHost } from '../../../test/support/host.ts'
import { scheduledTasks } from '../../core/schedule/tasks.ts'
import { dailyCosts } from '../../core/turns/costs.ts'
import { timestamp } from '../../lib/clock.ts'
import { refuse } from '../../lib/refusal.ts'
import { type SettingSource, sourceOf } from '../../lib/settings.ts'
import { groupsResource } from '../../resources/groups.ts'
import { type AdapterState, checkAdapters } from './adapter-check.ts'
import { checkInstance, type InstanceCheckOptions } from './instance-checks.ts'

const source = (entries: Record<string, string>): SettingSource => sourceOf('.env', new Map(Object.entries(entries)))
const NO_ADAPTERS: AdapterState = { adapters: [], platforms: [] }
const KEY = { SECRETS_KEY: 'a key of the tests' }

async function check({ host }: TestHost, options: Partial<InstanceCheckOptions> = {}) {
  const sources = [source(KEY)]
  const adapters = async () => NO_ADAPTERS
  const found = await checkInstance({
    ...{ host, sources, current: sources, health: async () => {}, hasAgents: false, adapters },
    ...options,
  })
  return new Map(found.map((finding) => [finding.check, finding]))
}

onEveryEngine('checks of a running instance', (engine) => {
  test('find the same faults as svc doctor, each with its command', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main', 'team')
    const found = await check(on)
    assert.deepEqual(found.get('store'), { check: 'store', status: 'ok', detail: 'can be read and written' })
    assert.deepEqual(found.get('operators'), {
      check: 'operators',
      status: 'note',
      detail: 'there is no operator yet',
      next: "svc group test grant <provider>:<id> '**'",
    })
    assert.equal(found.get('groups')?.status, 'ok')
    assert.deepEqual(found.get('agents'), {
      check: 'agents',
      status: 'note',
      detail: 'not known here: another process runs them',
      next: 'svc doctor test',
    })
  })

  test('report recurring tasks whose next run was set by a clock that was ahead', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main')
    assert.equal((await check(on)).get('task times')?.status, 'ok')
    const add = (id: string, cron?: string) =>
      on.host.engine.transaction((tx) =>
        scheduledTasks.insert(tx, {
          ...{ id, owner: 'main', chat_jid: 'main', prompt: 'look', cron, status: 'active', context_mode: 'group' },
          ...{ next_run: '2036-01-01T00:00:00.000Z', created_at: timestamp(on.clock.now()) },
        }),
      )
    await add('daily', '0 9 * * *')
    await add('once')
    assert.deepEqual((await check(on)).get('task times'), {
      check: 'task times',
      status: 'wrong',
      detail:
        'daily runs next at 2036-01-01T00:00:00.000Z, but its schedule says 2026-01-01T09:00:00.000Z: the clock was ahead',
      next: 'svc serve test corrects this when it starts, and every ten minutes',
    })
  })

  test('report that old rows stay because the clock moved ahead', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main')
    assert.equal((await check(on)).get('removals')?.status, 'ok')
    on.clock.advance(401 * 24 * 3_600_000)
    assert.deepEqual((await check(on)).get('removals'), {
      check: 'removals',
      status: 'note',
      detail:
        'old rows are removed as of 2026-01-01T00:00:00.000Z: the clock moved ahead, and counts after svc has run for 24 h more',
      next: 'if the clock is wrong, correct it before that: timedatectl',
    })
  })

  test('report a spent budget as a fault and a nearly spent one as a note', async (t) => {
    const on = await testHost(t, engine)
    await on.groups('main', 'team')
    const day = on.host.clock.now()
    const spend = (cents: number) =>
      on.host.engine.transaction((tx) =>
        dailyCosts.upsert(tx, {
          payer: 'folder',
          name: 'team',
          day: new Date(day).toISOString().slice(0, 10),
          cents,
        }),
      )
    await on.cli.call(groupsResource.verbs.set_budget, { folder: 'team', daily: 100 })
    assert.equal((await check(on)).get('budgets')?.detail, 'none is nearly spent (1)')
    await spend(85)
    const near = (await check(on)).get('budgets')
    assert.deepEqual([near?.status, near?.detail], ['note', 'team has spent 85 of 100 cents today'])
    await spend(101)
    assert.equal((await check(on)).get('budgets')?.status, 'wrong')
  })
})

suite('checks of a running instance', () => {
  test('report what the process cannot do, and settings that wait for a restart', async (t) => {
    const on = await testHost(t)
    mkdirSync(on.host.layout?.groups ?? '', { recursive: true })
    const found = await check(on, {
      health: async () => refuse('unavailable', 'the disk of the store is full'),
      current: [source({ ...KEY, LOG_LEVEL: 'debug' })],
    })
    assert.equal(found.get('store')?.detail, 'the disk of the store is full')
    assert.deepEqual(found.get('settings'), {
      check: 'settings',
      status: 'note',
      detail: 'LOG_LEVEL has changed since the start',
      next: 'restart svc to use them',
    })
    const bad = await check(on, { current: [source({ ...KEY, LOG_LEVEL: 'loud' })] })
    assert.equal(bad.get('settings')?.status, 'wrong')
  })

  test('report a model without its settings, with the command that sets them', async (t) => {
    const on = await testHost(t)
    await on.groups('main')
    const models = async (env: Record<string, string>) =>
      (await check(on, { hasAgents: true, current: [source({ ...KEY, ...env })] })).get('models')
    assert.deepEqual(await models({}), {
      check: 'models',
      status: 'ok',
      detail: 'the built-in demo answers; svc model test sets a real model',
    })
    const missing = await models({ AGENT_RUNTIME: 'openai', OPENAI_BASE_URL: 'http://127.0.0.1:1/v1' })
    assert.deepEqual([missing?.status, missing?.next], ['wrong', 'svc model test'])
    assert.match(missing?.detail ?? '', /^main: .*model/)
    assert.equal((await check(on)).get('models')?.detail, 'not known here: another process runs them')
  })

  test('a check that does not end does not delay the others', async (t) => {
    const on = await testHost(t)
    const found = await check(on, { health: () => new Promise(() => {}), limitMs: 1 })
    assert.deepEqual(found.get('store'), {
      check: 'store',
      status: 'note',
      detail: 'not known: the check took longer than 0.001 s',
      next: 'svc doctor test',
    })
  })

  test('adapters that fail and platforms without an adapter are faults, unknown health is a note', () => {
    const adapter = (health: 'healthy' | 'failing' | 'unknown') => ({ name: 'bridge', health, seen_at: '' })
    const platform = { platform: 'slack', delivered_by: 'nothing', waiting: 0, failed: 0 } as const
    const AT = '2026-01-01T00:00:00.000Z'
    const states: [AdapterState, string, string][] = [
      [NO_ADAPTERS, 'ok', 'none is registered'],
      [{ adapters: [adapter('healthy')], platforms: [] }, 'ok', 'all answer (1)'],
      [{ adapters: [adapter('failing')], platforms: [] }, 'wrong', 'bridge does not answer'],
      [{ adapters: [adapter('unknown')], platforms: [] }, 'note', 'bridge was not checked lately: routd does not run'],
      [
        { adapters: [{ ...adapter('healthy'), state: 'login_needed', since: AT, detail: 'scan it' }], platforms: [] },
        'wrong',
        `bridge needs a sign-in at its platform since ${AT}: scan it`,
      ],
      [
        { adapters: [{ ...adapter('healthy'), state: 'refused' }], platforms: [] },
        'wrong',
        'bridge is refused by its platform',
      ],
      [
        { adapters: [{ ...adapter('healthy'), state: 'stale', since: AT }], platforms: [] },
        'note',
        `bridge has received nothing since ${AT}`,
      ],
      [{ adapters: [{ ...adapter('healthy'), state: 'ok' }], platforms: [] }, 'ok', 'all answer (1)'],
      [{ adapters: [{ ...adapter('failing'), state: 'refused' }], platforms: [] }, 'wrong', 'bridge does not answer'],
      [
        { adapters: [{ ...adapter('unknown'), state: 'refused' }], platforms: [] },
        'note',
        'bridge was not checked lately: routd does not run',
      ],
      [
        { adapters: [], platforms: [{ ...platform, waiting: 2 }] },
        'wrong',
        '2 messages wait for slack, which has no adapter',
      ],
      [{ adapters: [], platforms: [{ ...platform, failed: 3 }] }, 'note', 'slack: 3 not delivered'],
    ]
    for (const [state, status, detail] of states) {
      const finding = checkAdapters(state, 'demo')
      assert.deepEqual([finding.status, finding.detail], [status, detail])
    }
  })
})
