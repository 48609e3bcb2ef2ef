import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { overrideEngine } from '../../../test/support/engine-override.ts'
import { freshStore, onEveryEngine } from '../../../test/support/host.ts'
import { type OnboardingTest, openOnboardingTest } from '../../../test/support/onboarding.ts'
import { until } from '../../../test/support/until.ts'
import { acl } from '../../core/access/acl.ts'
import { groups } from '../../core/groups/groups.ts'
import { groupDirs } from '../../core/layout.ts'
import { onboarding } from '../../core/people/onboarding.ts'
import { gateAdmissions } from '../../core/people/onboarding-gates.ts'
import { routes } from '../../core/routing/routes.ts'
import { openLog } from '../../lib/log/log.ts'
import { groupsResource } from '../../resources/groups.ts'
import { onboardingGatesResource } from '../../resources/onboarding-gates.ts'
import { secretsResource } from '../../resources/secrets.ts'
import type { Tx } from '../../store/engine.ts'
import { AdmissionWorker, admitWaiting } from './admission-worker.ts'

const DAY_MS = 24 * 3600 * 1000

function homeOf({ host }: OnboardingTest, folder: string): string {
  return groupDirs(host.layout ?? assert.fail('no files'), folder).home
}

async function admitted({ host }: OnboardingTest): Promise<string[]> {
  const rows = await host.engine.read((tx) => onboarding.list(tx, { status: 'approved' }))
  return rows.map(({ jid }) => jid)
}

/** What an admission writes. */
const written = ({ host }: OnboardingTest, folder: string) =>
  host.engine.read(async (tx) => ({
    group: (await groups.find(tx, { folder }))?.name,
    routes: (await routes.list(tx)).filter(({ target }) => target === folder).map(({ match }) => match),
    grants: (await acl.list(tx, { scope: `${folder}/**` })).map(({ principal, action }) => `${principal} ${action}`),
    count: (await gateAdmissions.list(tx)).map(({ admitted: count }) => count),
  }))

onEveryEngine('the admission of a waiting chat', (engine) => {
  test('creates group, route and grant, and tells the chat', async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.groups('main', 'team')
    const prototype = join(homeOf(on, 'team'), 'prototype')
    mkdirSync(prototype)
    writeFileSync(join(prototype, 'NOTES.md'), 'from the parent')
    await on.gate('team/*', 5)
    await on.ask('telegram:42', 'team/ada')
    await on.admit()
    assert.deepEqual(await written(on, 'team/ada'), {
      group: 'ada',
      routes: ['platform=telegram room=42'],
      grants: ['telegram:7 admin'],
      count: [1],
    })
    assert.equal(readFileSync(join(homeOf(on, 'team/ada'), 'NOTES.md'), 'utf8'), 'from the parent')
    assert.deepEqual(await on.told('telegram:42'), [
      'You are in: this chat belongs to the folder team/ada now. Write what you need.',
    ])
    const { status, gate, position, prepared } = (await on.row('telegram:42')) ?? {}
    assert.deepEqual([status, gate, position, prepared], ['approved', 'team/*', undefined, undefined])
  })

  test('is exact: of 50 that wait for a limit of 5, two processes admit 5, in order', async (t) => {
    const store = await freshStore(t, engine)
    const [on, other] = [await openOnboardingTest(t, engine, store), await openOnboardingTest(t, engine, store)]
    await on.groups('main')
    await on.gate('*', 5)
    for (let room = 10; room < 60; room++) await on.ask(`telegram:${room}`, `f${room}`)
    await Promise.all([on.admit(), other.admit()])
    assert.deepEqual(await admitted(on), ['telegram:10', 'telegram:11', 'telegram:12', 'telegram:13', 'telegram:14'])
    assert.deepEqual((await written(on, 'f10')).count, [5])
    await on.admit()
    assert.equal((await admitted(on)).length, 5)
  })

  test('is complete when several processes make the files of the same folders', async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.groups('main')
    await on.gate('*', 20)
    const rooms = Array.from({ length: 20 }, (_, at) => 10 + at)
    for (const room of rooms) await on.ask(`telegram:${room}`, `f${room}`)
    await Promise.all([on.admit(), on.admit(), on.admit()])
    assert.equal((await admitted(on)).length, 20)
    for (const room of rooms) assert.ok(readdirSync(homeOf(on, `f${room}`)).length > 0, `f${room} has no files`)
  })

  test('continues when the day changes and when the limit is raised', async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.groups('main')
    await on.gate('*', 1)
    for (const room of ['1', '2', '3']) await on.ask(`telegram:${room}`, `f${room}`)
    await on.admit()
    assert.deepEqual(await admitted(on), ['telegram:1'])
    on.clock.advance(DAY_MS - 1)
    await on.admit()
    assert.deepEqual(await admitted(on), ['telegram:1'])
    on.clock.advance(1)
    await on.admit()
    assert.deepEqual(await admitted(on), ['telegram:1', 'telegram:2'])
    await on.gate('*', 2)
    await on.admit()
    assert.deepEqual(await admitted(on), ['telegram:1', 'telegram:2', 'telegram:3'])
  })

  test('waits for an operator without a gate, and for a disabled gate', async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.groups('main')
    await on.gate('team/*', 5)
    const { update } = onboardingGatesResource.verbs
    await on.cli.call(update, { spec: 'team/*', enabled: false })
    await on.ask('telegram:1', 'team/ada')
    await on.ask('telegram:2', 'other')
    await on.admit()
    assert.deepEqual(await admitted(on), [])
    await on.cli.call(update, { spec: 'team/*', enabled: true })
    await on.admit()
    assert.deepEqual(await admitted(on), ['telegram:1'])
    assert.equal((await on.row('telegram:2'))?.gate, undefined)
  })

  test('queues per gate: a full gate does not hold up another', async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.groups('main')
    await on.gate('a/*', 1)
    await on.gate('b/*', 1)
    for (const [room, folder] of Object.entries({ 1: 'a/one', 2: 'a/two', 3: 'b/one' }))
      await on.ask(`telegram:${room}`, folder)
    await on.admit()
    assert.deepEqual(await admitted(on), ['telegram:1', 'telegram:3'])
    // A more literal gate takes over.
    await on.gate('a/two', 1)
    await on.admit()
    assert.deepEqual(await admitted(on), ['telegram:1', 'telegram:2', 'telegram:3'])
    assert.equal((await on.row('telegram:2'))?.gate, 'a/two')
  })

  test('is complete or does not happen', async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.groups('main')
    await on.gate('*', 5)
    await on.ask('telegram:42', 'ada')
    const log = await openLog({ to: { write: () => {} } })
    const { engine: store } = on.host
    for (const table of ['groups', 'routes', 'acl', 'onboarding', 'outbox', 'gate_admissions', 'audit']) {
      const failing = overrideEngine(store, {
        transaction: (work) => store.transaction((tx) => work(failOn(tx, table))),
      })
      await admitWaiting({ host: { ...on.host, engine: failing }, log })
      assert.deepEqual(await written(on, 'ada'), { group: undefined, routes: [], grants: [], count: [] }, table)
      assert.equal((await on.row('telegram:42'))?.status, 'queued', table)
    }
    assert.equal((await on.row('telegram:42'))?.prepared, 'ada')
    await on.admit()
    assert.equal((await written(on, 'ada')).group, 'ada')
    assert.equal((await on.told('telegram:42')).length, 1)
  })

  test('never gives away files, secrets or chats of earlier groups', async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.groups('main', 'files', 'sealed', 'free')
    await on.gate('*', 5)
    await on.cli.call(secretsResource.verbs.create, {
      scope_kind: 'folder',
      owner: 'sealed',
      key: 'API_KEY',
      value: 'x',
    })
    await on.cli.call(groupsResource.verbs.remove, { folder: 'files' })
    await on.cli.call(groupsResource.verbs.remove, { folder: 'sealed' })
    writeFileSync(join(homeOf(on, 'files'), 'SECRET.md'), 'secret')
    rmSync(homeOf(on, 'sealed'), { recursive: true })
    await on.ask('telegram:1', 'files')
    await on.ask('telegram:2', 'sealed')
    await on.admit()
    for (const [jid, folder] of [
      ['telegram:1', 'files'],
      ['telegram:2', 'sealed'],
    ] as const) {
      assert.equal((await on.row(jid))?.status, 'awaiting_message')
      assert.deepEqual(await on.told(jid), [`The name ${folder} is not available. Choose another one.`])
      assert.equal((await written(on, folder)).group, undefined)
    }
    assert.equal(readFileSync(join(homeOf(on, 'files'), 'SECRET.md'), 'utf8'), 'secret')
    assert.equal(existsSync(homeOf(on, 'sealed')), false)
    assert.match((await on.write('telegram:1', 'ada')) ?? '', /is noted/)
    await on.admit()
    assert.deepEqual(await admitted(on), ['telegram:1'])
  })

  test('leaves a chat alone that an operator has routed meanwhile', async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.groups('main', 'team')
    await on.ask('telegram:42', 'ada')
    await on.cli.call(groupsResource.verbs.add, { folder: 'team', jid: 'telegram:42' })
    await on.gate('*', 5)
    await on.admit()
    const { status, folder, prepared } = (await on.row('telegram:42')) ?? {}
    assert.deepEqual([status, folder, prepared], ['approved', 'team', undefined])
    assert.deepEqual(await written(on, 'ada'), { group: undefined, routes: [], grants: [], count: [] })
    assert.equal(existsSync(homeOf(on, 'ada')), false)
  })

  test('grants nothing to anonymous senders and to names with wildcards', async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.groups('main')
    await on.gate('*', 5)
    const senders = ['anon:1', 'telegram:*', 'ada', 'discord:7']
    for (const [at, sender] of senders.entries()) await on.ask(`telegram:${at}`, `f${at}`, sender)
    await on.admit()
    assert.equal((await admitted(on)).length, senders.length)
    for (const at of senders.keys()) assert.deepEqual((await written(on, `f${at}`)).grants, [])
  })

  test('happens by itself', async (t) => {
    const on = await openOnboardingTest(t, engine)
    await on.groups('main')
    await on.gate('*', 5)
    const worker = new AdmissionWorker({ host: on.host, log: await openLog({ to: { write: () => {} } }) })
    t.after(() => worker.close())
    await on.ask('telegram:42', 'ada')
    on.host.signals.emit()
    await until(async () => (await on.row('telegram:42'))?.status === 'approved')
  })
})

/** Writes to the table fail. */
function failOn(tx: Tx, table: string): Tx {
  const isWrite = new RegExp(`^\\s*(?:insert into|update) ${table}\\b`)
  return new Proxy(tx, {
    get: (target, name) => {
      if (name === 'executeQuery')
        return (statement: { sql: string; parameters: readonly never[] }) => {
          // The files are claimed before the admission.
          if (isWrite.test(statement.sql) && !/set prepared = /.test(statement.sql))
            return Promise.reject(new Error(`${table} is broken`))
          return target.executeQuery(statement)
        }
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}
