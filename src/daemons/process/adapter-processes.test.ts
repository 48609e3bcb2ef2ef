import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { getPriority } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { openFakeHost } from '../../../test/support/adapter-process.ts'
import { isRefusal, testHost } from '../../../test/support/host.ts'
import { runs } from '../../../test/support/part.ts'
import { openTelegramServer, TELEGRAM_TOKEN } from '../../../test/support/telegram-server.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { accountContext, channelAccounts } from '../../core/delivery/channel-accounts.ts'
import { layout } from '../../core/layout.ts'
import { openLog } from '../../lib/log/log.ts'
import { processIdentity } from '../../lib/process-identity.ts'
import { sourceOf } from '../../lib/settings.ts'
import { AdapterProcesses, runAdapters } from './adapter-processes.ts'

const IN_LONG_PART = { skip: runs(0, 1) === 0 && 'long part: waits for signs of life' }

interface LogLine {
  readonly msg: string
  readonly adapter?: string
  readonly pid?: number
  readonly reason?: string
  readonly pauseMs?: number
}

/** A host whose accounts this process runs, with servers in place of routd and of the platform. */
async function setUp(t: TestContext) {
  const at = await testHost(t)
  const [svc, telegram] = [await openFakeHost(t), await openTelegramServer(t)]
  const root = join(tempDir(t), 'data')
  mkdirSync(root)
  const host = { ...at.host, layout: layout(root) }
  const lines: LogLine[] = []
  const log = await openLog({ to: { write: (line: string) => void lines.push(JSON.parse(line)) } })
  const open = (silenceMs?: number): AdapterProcesses => {
    const adapters = new AdapterProcesses({ host, log, hostUrl: svc.url, apiUrlOf: () => telegram.url, silenceMs })
    t.after(() => adapters.close())
    return adapters
  }
  const write = (account: string, created_at = '2026-01-01T00:00:00.000Z') => {
    const sealed = JSON.stringify({ channel: svc.secret, platform: { token: TELEGRAM_TOKEN } })
    return at.host.engine.transaction((tx) =>
      channelAccounts.upsert(tx, {
        ...{ account, platform: 'telegram', settings: {}, created_at, created_by: 'cli', leased_until: 0 },
        secrets_sealed: at.host.keyring.seal(sealed, accountContext(account)),
      }),
    )
  }
  const starts = (): LogLine[] => lines.filter(({ msg }) => msg === 'an adapter has started')
  const isRunning = (pid: number | undefined): boolean => {
    try {
      return pid !== undefined && process.kill(pid, 0)
    } catch {
      return false
    }
  }
  /** As the process of these daemons does. */
  const run = (daemons: readonly string[], settings: Readonly<Record<string, string>> = {}) => {
    const entries = { TELEGRAM_API_URL: telegram.url, ...settings }
    const sources = [sourceOf('the test', new Map(Object.entries(entries)))]
    const adapters = runAdapters({ host, log, sources, daemons }, svc.url)
    t.after(() => adapters?.close())
    return adapters
  }
  return { at, svc, telegram, root, lines, open, run, write, starts, isRunning }
}

test('an account that is added is connected, and one that is removed is stopped', async (t) => {
  const { at, svc, telegram, open, write, starts, isRunning } = await setUp(t)
  const adapters = open()
  await adapters.check()
  assert.equal(starts().length, 0)
  await write('telegram')
  await adapters.check()
  telegram.say({ text: 'hello' })
  await until(() => svc.stored.length === 1)
  assert.equal(svc.stored[0]?.content, 'hello')
  const [{ pid } = { pid: undefined }] = starts()
  assert.ok(isRunning(pid))
  await at.host.engine.transaction((tx) => channelAccounts.remove(tx, { account: 'telegram' }))
  await adapters.check()
  assert.ok(!isRunning(pid))
})

test('adapters of a process without all daemons run only if it has a host name, and are registered at that', async (t) => {
  const { svc, telegram, run, write } = await setUp(t)
  await write('telegram')
  assert.equal(run(['routd']), undefined)
  assert.equal(run(['routd'], { ADAPTER_HOST: '' }), undefined)
  assert.ok(run(['routd', 'webd'], { ADAPTER_HOST: 'localhost.localdomain' }))
  await until(() => svc.adapterUrl !== undefined)
  assert.match(svc.adapterUrl ?? '', /^http:\/\/localhost\.localdomain:\d+$/)
  telegram.say({ text: 'hello' })
  await until(() => svc.stored.length === 1)
})

test('a host name of adapters is one name or address', async (t) => {
  const { run } = await setUp(t)
  for (const ADAPTER_HOST of ['http://routd', 'routd:80', 'a b', 'a/b', '-a', '[::1]', 'a@b'])
    assert.throws(() => run([], { ADAPTER_HOST }), isRefusal('invalid', 'ADAPTER_HOST'), ADAPTER_HOST)
  for (const ADAPTER_HOST of ['routd', 'svc-1.example', '10.0.0.7', 'fd00::7', 'my_host'])
    assert.ok(run([], { ADAPTER_HOST }), ADAPTER_HOST)
})

test('an adapter that ends is started again after a pause that grows', async (t) => {
  const { lines, open, write, starts } = await setUp(t)
  const adapters = open()
  await write('telegram')
  for (const pauseMs of [1000, 2000]) {
    await until(async () => {
      await adapters.check()
      return starts().length === Math.log2(pauseMs / 1000) + 1
    })
    process.kill(starts().at(-1)?.pid ?? assert.fail(), 'SIGKILL')
    await until(() => lines.some((line) => line.pauseMs === pauseMs && line.reason === 'SIGKILL'))
    await adapters.check()
    assert.equal(starts().length, Math.log2(pauseMs / 1000) + 1, 'it is not started before the pause is over')
  }
})

test('an account that was replaced gets a new process', async (t) => {
  const { open, write, starts, isRunning } = await setUp(t)
  const adapters = open()
  await write('telegram')
  await adapters.check()
  await write('telegram', '2026-01-02T00:00:00.000Z')
  await adapters.check()
  await adapters.check()
  assert.deepEqual(
    starts().map(({ pid }) => isRunning(pid)),
    [false, true],
  )
})

test('only one process of an instance runs an adapter, and the next takes over when it stops', async (t) => {
  const { at, open, write, starts } = await setUp(t)
  await write('telegram')
  // A process of another machine.
  await at.host.engine.transaction((tx) =>
    channelAccounts.update(
      tx,
      { account: 'telegram' },
      { leased_by: 'elsewhere:1', leased_until: at.host.clock.now() + 5000 },
    ),
  )
  const adapters = open()
  await adapters.check()
  assert.equal(starts().length, 0)
  await at.host.engine.transaction((tx) =>
    channelAccounts.update(tx, { account: 'telegram' }, { leased_until: at.host.clock.now() }),
  )
  await adapters.check()
  assert.equal(starts().length, 1)
  await adapters.close()
  const row = await at.host.engine.read((tx) => channelAccounts.find(tx, { account: 'telegram' }))
  assert.equal(row?.leased_by, undefined)
})

test('an account whose secrets cannot be opened is reported and holds up no other', async (t) => {
  const { at, lines, open, write, starts } = await setUp(t)
  await write('telegram')
  await write('telegram-work')
  await at.host.engine.transaction((tx) =>
    channelAccounts.update(tx, { account: 'telegram' }, { secrets_sealed: Buffer.from('not sealed') }),
  )
  const adapters = open()
  await adapters.check()
  assert.deepEqual(
    starts().map(({ adapter }) => adapter),
    ['telegram-work'],
  )
  assert.ok(lines.some(({ msg, adapter }) => msg === 'the adapter cannot be started' && adapter === 'telegram'))
  assert.doesNotMatch(JSON.stringify(lines), /stand-in-token/)
})

test('an adapter is taken over at once from a process that has ended, and from a clock that was ahead', async (t) => {
  const { at, open, write, starts } = await setUp(t)
  const ended = JSON.stringify({ ...processIdentity(), start: 'another' })
  const now = at.host.clock.now()
  for (const [leased_by, leased_until] of [
    [ended, now + 10_000],
    ['a process that is written in another way', now + 30_001],
  ] as const) {
    await write('telegram', `2026-01-0${starts().length + 1}T00:00:00.000Z`)
    await at.host.engine.transaction((tx) =>
      channelAccounts.update(tx, { account: 'telegram' }, { leased_by, leased_until }),
    )
    const before = starts().length
    const adapters = open()
    await adapters.check()
    assert.equal(starts().length, before + 1, leased_by)
    await adapters.close()
  }
  await write('telegram', '2026-01-09T00:00:00.000Z')
  await at.host.engine.transaction((tx) =>
    channelAccounts.update(tx, { account: 'telegram' }, { leased_by: 'elsewhere', leased_until: now + 30_000 }),
  )
  await open().check()
  assert.equal(starts().length, 2, 'a lease that can be right is kept')
})

test(
  'an adapter that gives no sign of life is killed and started again, and one that does runs on at a lower priority',
  IN_LONG_PART,
  async (t) => {
    const { svc, lines, open, write, starts } = await setUp(t)
    await write('telegram')
    // A busy machine delays signs, but not as long.
    const adapters = open(12_000)
    const begun = performance.now()
    await adapters.check()
    await until(() => svc.adapterUrl !== undefined)
    const pid = starts()[0]?.pid ?? assert.fail()
    assert.equal(getPriority(pid), Math.max(getPriority(), 5))
    await until(() => performance.now() - begun > 12_500)
    await adapters.check()
    assert.deepEqual([starts().length, lines.filter(({ reason }) => reason !== undefined).length], [1, 0])
    process.kill(pid, 'SIGSTOP')
    await until(() => lines.some(({ reason }) => reason === 'SIGKILL'))
    await until(() => starts().length === 2)
  },
)
