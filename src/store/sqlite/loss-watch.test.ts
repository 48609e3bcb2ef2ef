import assert from 'node:assert/strict'
import { copyFileSync, existsSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { suite, type TestContext, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import type { Engine } from '../engine.ts'
import { entries, prepare } from '../things.contract.ts'
import { openSqlite } from './engine.ts'

const NOW = Date.UTC(2026, 0, 1)
const ROWS = 30

async function open(t: TestContext, path: string, sync?: () => Promise<void>) {
  const engine = await prepare(t, openSqlite({ path, create: true, sync }))
  return { engine, watch: engine.lossWatch ?? assert.fail('nothing watches it') }
}

async function add(engine: Engine, count: number): Promise<void> {
  for (let at = 0; at < count; at++) await engine.transaction((tx) => entries.append(tx, { name: `${at}` }))
}

const count = (engine: Engine): Promise<number> => engine.read((tx) => entries.count(tx))
const markOf = (path: string): string => (existsSync(`${path}-mark`) ? readFileSync(`${path}-mark`, 'utf8') : '')

/** The files of a store that was killed after 30 commits; the log has this part of its bytes left. */
async function leaveKilled(t: TestContext, part: number): Promise<string> {
  const [path, copy] = [join(tempDir(t), 'svc.db'), join(tempDir(t), 'svc.db')]
  const { engine, watch } = await open(t, path)
  const stop = await watch.start(NOW)
  await add(engine, ROWS)
  await until(() => markOf(path).includes(`"entries":${ROWS}`))
  for (const suffix of ['', '-wal', '-mark']) copyFileSync(path + suffix, copy + suffix)
  await stop()
  if (part === 0) rmSync(`${copy}-wal`)
  else truncateSync(`${copy}-wal`, Math.floor(statSync(`${copy}-wal`).size * part))
  return copy
}

suite('the watch for lost commits', () => {
  test('finds nothing after a kill, and writes nothing when it looks', async (t) => {
    const path = await leaveKilled(t, 1)
    const before = markOf(path)
    const { engine, watch } = await open(t, path)
    assert.equal(await count(engine), ROWS)
    assert.deepEqual(await watch.find(), [])
    assert.deepEqual([markOf(path), existsSync(`${path}-losses`)], [before, false])
    await (await watch.start(NOW))()
    assert.deepEqual(await watch.find(), [])
  })

  for (const [what, part] of [
    ['lost', 0],
    ['cut', 0.6],
  ] as const)
    test(`finds that the log was ${what}, at each start until the operator forgets it`, async (t) => {
      const path = await leaveKilled(t, part)
      const first = await open(t, path)
      const left = await count(first.engine)
      assert.ok(left < ROWS && (part === 0 || left > 0))
      const sentence = `entries ends at number ${left}, but had reached ${ROWS}`
      assert.deepEqual(await first.watch.find(), [sentence])
      const stop = await first.watch.start(NOW)
      await add(first.engine, ROWS)
      await stop()
      await first.engine.close()
      const { watch } = await open(t, path)
      assert.deepEqual(await watch.find(), [`2026-01-01T00:00:00.000Z: ${sentence}`])
      await (await watch.start(NOW))()
      assert.equal((await watch.find()).length, 1)
      await watch.forget()
      assert.deepEqual(await watch.find(), [])
    })

  test('finds nothing in a new store at the path of an old one, and without a whole mark', async (t) => {
    const path = await leaveKilled(t, 1)
    const mark = markOf(path)
    for (const suffix of ['', '-wal']) rmSync(path + suffix)
    const { engine, watch } = await open(t, path)
    assert.deepEqual(await watch.find(), [])
    for (const text of ['', '{}', 'x', mark.slice(0, 12), mark.replace(`${ROWS}`, `${ROWS + 1}`)]) {
      writeFileSync(`${path}-mark`, text)
      assert.deepEqual(await watch.find(), [], text)
    }
    writeFileSync(`${path}-mark`, mark)
    assert.equal((await watch.find()).length, 1)
    await engine.close()
  })

  test('notes only what is on the disk', async (t) => {
    const path = join(tempDir(t), 'svc.db')
    let released = Promise.resolve()
    const { engine, watch } = await open(t, path, () => released)
    const stop = await watch.start(NOW)
    const { promise, resolve } = Promise.withResolvers<void>()
    released = promise
    const adding = add(engine, 1)
    using reader = new DatabaseSync(path, { readOnly: true })
    await until(() => reader.prepare('select count(*) as n from entries').get()?.n === 1)
    const stopping = stop()
    for (let turns = 0; turns < 100; turns++) await setImmediate()
    assert.ok(markOf(path).includes('"entries":0'), markOf(path))
    resolve()
    await Promise.all([adding, stopping])
    assert.ok(markOf(path).includes('"entries":1'), markOf(path))
  })
})
