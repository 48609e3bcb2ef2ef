import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { contentsOf, exchangeEntries } from '../../../test/support/entry-swapper.ts'
import { testHost } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { groupDirs, type Layout, layout } from '../../core/layout.ts'
import { turnLogFile } from '../../core/turns/turn-log-files.ts'
import { openLog } from '../../lib/log/log.ts'
import {
  pruneLegacyLogs,
  pruneTurnLogs,
  startTurnLogRetention,
  TURN_LOG_RETENTION_MS,
  TURN_LOGS_MAX,
} from './turn-logs.ts'

const NOW = Date.UTC(2026, 5, 15, 12)
const DAY_MS = 24 * 3_600_000

/** The current directory of logs, and that of earlier versions. */
const PLACES = {
  'the logs of a folder': (places: Layout) => groupDirs(places, 'main').logs,
  'logs in the workspace': (places: Layout) => join(places.groups, 'main/logs/turns'),
}

for (const [what, placeOf] of Object.entries(PLACES)) {
  const open = (t: TestContext) => {
    const places = layout(tempDir(t))
    const folder = placeOf(places)
    mkdirSync(folder, { recursive: true })
    const write = (turnId: string, at: number): string => {
      const path = turnLogFile({ logs: folder }, turnId, at)
      writeFileSync(path, 'said')
      return path
    }
    const prune = async () => (await pruneTurnLogs(places, NOW)) + (await pruneLegacyLogs(places, 'main', NOW))
    return { folder, write, prune }
  }

  test(`${what} are kept for thirty days`, async (t) => {
    const { write, prune } = open(t)
    const [old, kept, fresh] = [
      write('a', NOW - TURN_LOG_RETENTION_MS - DAY_MS),
      write('b', NOW - TURN_LOG_RETENTION_MS),
      write('c', NOW),
    ]
    assert.equal(await prune(), 1)
    assert.deepEqual([old, kept, fresh].map(existsSync), [false, true, true])
  })

  test(`the newest 1,000 of ${what} are kept`, async (t) => {
    const { folder, write, prune } = open(t)
    for (let at = 0; at < TURN_LOGS_MAX + 3; at++) write(`${at}`.padStart(6, '0'), NOW - DAY_MS)
    const today = write('000000', NOW)
    assert.equal(await prune(), 4)
    assert.deepEqual([readdirSync(folder).length, existsSync(today)], [TURN_LOGS_MAX, true])
    assert.ok(!readdirSync(folder).some((name) => /-00000[0-3]\.log$/.test(name) && name < '2026-06-15'))
  })

  test(`other files among ${what} are kept`, async (t) => {
    const { folder, write, prune } = open(t)
    writeFileSync(join(folder, 'notes.md'), 'mine')
    write('a', NOW - 2 * TURN_LOG_RETENTION_MS)
    assert.equal(await prune(), 1)
    assert.deepEqual(readdirSync(folder), ['notes.md'])
  })
}

test('pruning follows no link that replaces the logs', async (t) => {
  const places = layout(tempDir(t))
  const outside = join(places.root, 'outside')
  mkdirSync(join(outside, 'turns'), { recursive: true })
  const old = turnLogFile({ logs: join(outside, 'turns') }, 'a', NOW - 2 * TURN_LOG_RETENTION_MS)
  writeFileSync(old, 'said')
  mkdirSync(join(places.groups, 'main'), { recursive: true })
  symlinkSync(outside, join(places.groups, 'main/logs'))
  assert.equal(await pruneLegacyLogs(places, 'main', NOW), 0)
  symlinkSync(outside, join(places.groups, 'main/child'))
  assert.equal(await pruneLegacyLogs(places, 'main/child', NOW), 0)
  assert.ok(existsSync(old))
})

test('pruning removes nothing outside while the logs are replaced by a link', async (t) => {
  const places = layout(tempDir(t))
  const [outside, logs] = [join(places.root, 'outside'), join(places.groups, 'main/logs')]
  for (const dir of [join(outside, 'turns'), join(logs, 'turns')]) {
    mkdirSync(dir, { recursive: true })
    writeFileSync(turnLogFile({ logs: dir }, 'a', NOW - 2 * TURN_LOG_RETENTION_MS), 'said')
  }
  symlinkSync(outside, join(logs, '../trap'))
  const before = contentsOf(outside)
  let count = 0
  await using _exchanging = await exchangeEntries([logs, join(logs, '../trap')])
  for (let times = 0; times < 10_000; times++) count += await pruneLegacyLogs(places, 'main', NOW)
  assert.equal(count, 1)
  assert.deepEqual(contentsOf(outside), before)
})

test('without any logs there is nothing to prune', async (t) => {
  const places = layout(tempDir(t))
  assert.equal(await pruneTurnLogs(places, NOW), 0)
  assert.equal(await pruneLegacyLogs(places, 'main', NOW), 0)
})

test('runed prunes the logs of every folder, also of removed groups', async (t) => {
  const { host, clock, groups } = await testHost(t)
  const places = host.layout ?? assert.fail('it has files')
  await groups('main', 'team')
  const logs = [
    groupDirs(places, 'main').logs,
    join(places.groups, 'team/logs/turns'),
    groupDirs(places, 'removed').logs,
  ].map((logs) => turnLogFile({ logs }, 'a', clock.now() - 2 * TURN_LOG_RETENTION_MS))
  for (const path of logs) {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, 'said')
  }
  const stop = startTurnLogRetention({
    host,
    layout: places,
    log: await openLog({ to: { write: () => true } }),
    firstMs: 0,
  })
  t.after(stop)
  await until(() => !logs.some((path) => existsSync(path)))
})
