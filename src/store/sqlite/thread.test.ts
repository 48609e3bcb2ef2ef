import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import type { Work } from '../lane.ts'
import { prepare, refusedAs } from '../things.contract.ts'
import { openSqlite } from './engine.ts'

/** A work whose module is this text; here only its outside is used. */
function workOf(t: TestContext, text: string): Work<string, string> {
  const path = join(tempDir(t), 'work.mjs')
  writeFileSync(path, text)
  return {
    module: pathToFileURL(path).href,
    weigh: () => 1,
    source: () => '',
    isUrgent: () => false,
    pack: (items) => ({ values: [...items], bytes: new Uint8Array() }),
    unpack: () => assert.fail('on the other thread'),
    run: () => assert.fail('on the other thread'),
    tidy: () => assert.fail('on the other thread'),
  }
}

const rest = 'unpack: ({ values }) => values, isUrgent: () => false, tidy: async () => ({ isMore: false })'

test('a thread that cannot start, or that ends, refuses what it was given, and it is told as the end', async (t) => {
  const engine = await prepare(t, openSqlite({ path: join(tempDir(t), 'svc.db'), create: true }))
  const broken = {
    'cannot be loaded': 'throw new Error("no")',
    ends: `export const work = { run: async () => { process.exit(3) }, ${rest} }`,
    'throws outside': `export const work = { run: () => new Promise(() => setTimeout(() => { throw new Error('no') })), ${rest} }`,
  }
  for (const [what, text] of Object.entries(broken)) {
    const ends: unknown[] = []
    const lane = engine.openLane(workOf(t, text), { onFatal: (error) => ends.push(error) })
    await assert.rejects(lane.push('a'), refusedAs('unavailable', 'any more'), what)
    await until(() => ends.length > 0)
    await assert.rejects(lane.push('b'), refusedAs('unavailable', 'any more'), what)
    await lane.close()
    assert.equal(ends.length, 1, what)
  }
})

test('an error of the work crosses with its words, and the thread goes on', async (t) => {
  const engine = await prepare(t, openSqlite({ path: join(tempDir(t), 'svc.db'), create: true }))
  const text = `export const work = { run: async (tx, dialect, items) => {
    if (items.includes('bad')) throw new TypeError('what went wrong')
    return items.map((item) => item + dialect.name) }, ${rest} }`
  const ends: unknown[] = []
  const lane = engine.openLane(workOf(t, text), { onFatal: (error) => ends.push(error) })
  await assert.rejects(lane.push('bad'), /what went wrong/)
  assert.equal(await lane.push('good '), 'good sqlite')
  await lane.close()
  assert.deepEqual(ends, [])
})
