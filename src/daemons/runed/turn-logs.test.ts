import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { testHost } from '../../../test/support/host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import { groupDirs } from '../../core/layout.ts'
import { openLog } from '../../lib/log.ts'
import { KEPT_MAX, KEPT_MS, keepTurnLogs, pruneTurnLogs, turnLogFile } from './turn-logs.ts'

const NOW = Date.UTC(2026, 5, 15, 12)
const DAY_MS = 24 * 3_600_000

function workspace(t: TestContext) {
  const home = join(tempDir(t), 'main')
  const dirs = { home, logs: join(home, 'logs') }
  const folder = dirname(turnLogFile(dirs, 'x', NOW))
  mkdirSync(folder, { recursive: true })
  const write = (turnId: string, at: number): string => {
    const path = turnLogFile(dirs, turnId, at)
    writeFileSync(path, 'said')
    return path
  }
  return { dirs, folder, write }
}

test('the log of a turn is kept for thirty days', async (t) => {
  const { dirs, write } = workspace(t)
  const [old, kept, fresh] = [write('a', NOW - KEPT_MS - DAY_MS), write('b', NOW - KEPT_MS), write('c', NOW)]
  assert.equal(await pruneTurnLogs(dirs, NOW), 1)
  assert.deepEqual([old, kept, fresh].map(existsSync), [false, true, true])
})

test('of very many logs the newest are kept', async (t) => {
  const { dirs, folder, write } = workspace(t)
  for (let at = 0; at < KEPT_MAX + 3; at++) write(`${at}`.padStart(6, '0'), NOW - DAY_MS)
  const today = write('000000', NOW)
  assert.equal(await pruneTurnLogs(dirs, NOW), 4)
  assert.deepEqual([readdirSync(folder).length, existsSync(today)], [KEPT_MAX, true])
  assert.ok(!readdirSync(folder).some((name) => /-00000[0-3]\.log$/.test(name) && name < '2026-06-15'))
})

test('what is no log stays, and a folder of logs that the agent made a link is left alone', async (t) => {
  const { dirs, folder, write } = workspace(t)
  writeFileSync(join(folder, 'notes.md'), 'mine')
  const old = write('a', NOW - 2 * KEPT_MS)
  const logs = join(dirs.home, 'else', 'logs')
  mkdirSync(logs, { recursive: true })
  symlinkSync(folder, join(logs, 'turns'))
  assert.equal(await pruneTurnLogs({ home: dirs.home, logs }, NOW), 0)
  assert.ok(existsSync(old))
  assert.equal(await pruneTurnLogs(dirs, NOW), 1)
  assert.deepEqual(readdirSync(folder), ['notes.md'])
})

test('where no turn has run there is nothing to do', async (t) => {
  const home = tempDir(t)
  assert.equal(await pruneTurnLogs({ home, logs: join(home, 'logs') }, NOW), 0)
})

test('while agents run the logs of every folder are looked through', async (t) => {
  const { host, clock, groups } = await testHost(t)
  const layout = host.layout ?? assert.fail('it has files')
  await groups('main', 'team')
  const logs = ['main', 'team'].map((folder) => turnLogFile(groupDirs(layout, folder), 'a', clock.now() - 2 * KEPT_MS))
  for (const path of logs) {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, 'said')
  }
  const stop = keepTurnLogs({ host, layout, log: await openLog({ to: { write: () => true } }), firstMs: 0 })
  t.after(stop)
  await until(() => !logs.some((path) => existsSync(path)))
})
