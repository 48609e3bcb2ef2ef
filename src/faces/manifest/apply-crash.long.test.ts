// A process that dies during an apply leaves the old or the new store, and of two concurrent applies only one wins.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { suite, type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Orders } from '../../../test/support/apply-child.ts'
import { type EngineName, freshStore, onEveryEngine } from '../../../test/support/host.ts'
import { exportOfStore, openStore } from '../../../test/support/manifest.ts'
import { fillStore, type RandomStore } from '../../../test/support/random-store.ts'
import { tempDir } from '../../../test/support/temp.ts'
import type { StoreAddress } from '../../store/index.ts'

const CHILD = new URL('../../../test/support/apply-child.ts', import.meta.url).pathname
const THEN = '2025-05-05T05:05:05.000Z'

const group = (folder: string, name = folder) => ({ folder, name, product: 'p', open: true, added_at: THEN })
const gate = (spec: string, daily_limit: number) => ({ spec, daily_limit, enabled: true })
const site = (path_prefix: string, folder: string) => ({ path_prefix, access: 'public', folder, created_at: THEN })

const OLD: RandomStore = {
  groups: [group('main'), group('team')],
  routes: [{ seq: 1, match: '', target: 'main' }],
  web_routes: [site('/a', 'team'), site('/b', 'main')],
  onboarding_gates: [gate('team', 1)],
}
const NEW: RandomStore = {
  groups: [group('main', 'Main'), group('new')],
  routes: [{ seq: 2, match: 'room=1', target: 'new' }],
  web_routes: [site('/a', 'new')],
  onboarding_gates: [gate('team', 2), gate('new', 2)],
  acl_membership: [{ subject: 'github:1', role: 'role:operator', added_at: THEN }],
}
/** Enough rows to kill a process in the middle of the writes. */
const many = (mark: string): RandomStore => ({
  groups: [group('main', mark)],
  routes: Array.from({ length: 1500 }, (_, seq) => ({ seq, match: `room=${mark}`, target: 'main' })),
  onboarding_gates: [gate('team', mark.length)],
})

interface TestCase {
  store: StoreAddress
  /** Turns the store from `before` into `after`. */
  manifest: string
  before: string
  after: string
}

async function openCase(t: TestContext, engine: EngineName, [one, other] = [OLD, NEW]): Promise<TestCase> {
  const store = await freshStore(t, engine)
  const host = await openStore(store)
  await fillStore(host, other ?? {})
  const wanted = await exportOfStore(host)
  await fillStore(host, one ?? {})
  const before = await exportOfStore(host)
  await host.close()
  const manifest = join(tempDir(t), 'manifest.yaml')
  writeFileSync(manifest, wanted)
  return { store, manifest, before, after: wanted.replace('config_version: 1', 'config_version: 2') }
}

/** A copy of the store file, which no process has open. */
function copyStore(t: TestContext, { store }: TestCase): StoreAddress {
  if (!('path' in store)) throw new Error('only a file can be copied')
  const path = join(tempDir(t), 'svc.db')
  copyFileSync(store.path, path)
  return { path }
}

/** Starts a process that waits before its apply. */
async function startChild(orders: Orders) {
  const child = spawn(process.execPath, [CHILD, JSON.stringify(orders)], { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })
  // Output may arrive after the exit event.
  const outputEnd = once(lines, 'close')
  const exited = once(child, 'exit')
  const [line] = await once(lines, 'line')
  assert.equal(line, 'ready')
  const writing = once(lines, 'line')
  let lastLine = ''
  lines.on('line', (line) => {
    if (line !== 'writing') lastLine = line
  })
  child.stdin.on('error', () => {})
  return {
    go: () => child.stdin.write('go\n'),
    writing,
    kill: () => child.kill('SIGKILL'),
    /** Resolves with its last line; empty if it died before. */
    finished: async (): Promise<string> => {
      await Promise.all([exited, outputEnd])
      return lastLine
    },
  }
}

async function runChild(orders: Orders): Promise<string> {
  const child = await startChild(orders)
  child.go()
  return child.finished()
}

async function stateOf(store: StoreAddress): Promise<string> {
  if ('path' in store) {
    const db = new DatabaseSync(store.path)
    assert.deepEqual({ ...db.prepare('pragma integrity_check').get() }, { integrity_check: 'ok' })
    assert.deepEqual(db.prepare('pragma foreign_key_check').all(), [])
    db.close()
  }
  const host = await openStore(store)
  try {
    return await exportOfStore(host)
  } finally {
    await host.close()
  }
}

/** Runs three at a time. */
async function forEachParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const queue = [...items]
  const worker = async (): Promise<void> => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item)
  }
  await Promise.all([worker(), worker(), worker()])
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1)

async function countWrites(orders: Orders): Promise<number> {
  const [kind, writes] = (await runChild(orders)).split(' ')
  assert.equal(kind, 'applied')
  return Number(writes)
}

suite('a killed apply on sqlite', () => {
  test('leaves the old store before its commit and the new one after it, at whichever write it dies', async (t) => {
    const testCase = await openCase(t, 'sqlite')
    const { manifest, before, after } = testCase
    const total = await countWrites({ store: copyStore(t, testCase), manifest })
    assert.ok(total > 12, `only ${total} writes`)
    await forEachParallel(upTo(total), async (dieAt) => {
      const store = copyStore(t, testCase)
      assert.equal(await runChild({ store, manifest, dieAt }), '')
      // The last step comes after the commit.
      assert.equal(await stateOf(store), dieAt < total ? before : after, `killed at ${dieAt} of ${total}`)
    })
  })

  test('is detected if it uses several transactions', async (t) => {
    const testCase = await openCase(t, 'sqlite')
    const { manifest, before, after } = testCase
    const torn = true
    const total = await countWrites({ store: copyStore(t, testCase), manifest, torn })
    const store = copyStore(t, testCase)
    await runChild({ store, manifest, torn, dieAt: Math.floor(total / 2) })
    const state = (await stateOf(store)).replace(/^.*\n/, '')
    assert.ok(![before, after].map((text) => text.replace(/^.*\n/, '')).includes(state))
  })

  test('leaves the old or the new store, killed at any moment', async (t) => {
    const testCase = await openCase(t, 'sqlite', [many('old'), many('newer')])
    const { manifest, before, after } = testCase
    const seen = new Set<string>()
    await forEachParallel(upTo(15), async (attempt) => {
      const store = copyStore(t, testCase)
      const child = await startChild({ store, manifest })
      child.go()
      await child.writing
      // The moment of the kill.
      await pause(attempt * 8)
      child.kill()
      const lastLine = await child.finished()
      const state = await stateOf(store)
      assert.ok(state === before || state === after, 'torn')
      if (lastLine) assert.equal(state, after)
      seen.add(state === before ? 'old' : 'new')
    })
    t.diagnostic(`seen: ${[...seen].join(', ')}`)
  })
})

onEveryEngine('an apply in another process', (engine) => {
  test('leaves the old store if it dies before its commit, and the new one after it', async (t) => {
    const { store, manifest, before, after } = await openCase(t, engine)
    for (const dieAt of [1, 5, 9]) {
      assert.equal(await runChild({ store, manifest, dieAt }), '')
      assert.equal(await stateOf(store), before)
    }
    assert.match(await runChild({ store, manifest }), /^applied/)
    assert.equal(await stateOf(store), after)
  })

  test('changes nothing if a concurrent apply wins', async (t) => {
    const { store, manifest, after } = await openCase(t, engine)
    const children = await Promise.all([startChild({ store, manifest }), startChild({ store, manifest })])
    for (const { go } of children) go()
    const lines = await Promise.all(children.map(({ finished }) => finished()))
    assert.deepEqual(lines.map((line) => line.split(' ')[0]).sort(), ['applied', 'mismatch'])
    assert.equal(await stateOf(store), after)
  })
})
