// Whatever happens to a process in the middle of an apply, the store is the old one or the new one, and two never both win.
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
/** Enough rows that a process can be met in the middle of it. */
const many = (mark: string): RandomStore => ({
  groups: [group('main', mark)],
  routes: Array.from({ length: 1500 }, (_, seq) => ({ seq, match: `room=${mark}`, target: 'main' })),
  onboarding_gates: [gate('team', mark.length)],
})

interface Scene {
  store: StoreAddress
  /** A manifest for the store as it is, which makes it `after`. */
  manifest: string
  before: string
  after: string
}

async function scene(t: TestContext, engine: EngineName, [one, other] = [OLD, NEW]): Promise<Scene> {
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

/** A copy of the scene's store, which is a file that nobody has open. */
function copyOf(t: TestContext, { store }: Scene): StoreAddress {
  if (!('path' in store)) throw new Error('only a file can be copied')
  const path = join(tempDir(t), 'svc.db')
  copyFileSync(store.path, path)
  return { path }
}

/** A process that stands just before its apply. */
async function ready(orders: Orders) {
  const child = spawn(process.execPath, [CHILD, JSON.stringify(orders)], { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })
  // Not the process's own end: what it has said may still be on its way then.
  const silent = once(lines, 'close')
  const exited = once(child, 'exit')
  const [line] = await once(lines, 'line')
  assert.equal(line, 'ready')
  const writing = once(lines, 'line')
  let said = ''
  lines.on('line', (line) => {
    if (line !== 'writing') said = line
  })
  child.stdin.on('error', () => {})
  return {
    go: () => child.stdin.write('go\n'),
    writing,
    kill: () => child.kill('SIGKILL'),
    /** What it said at last, or nothing when it died before. */
    over: async (): Promise<string> => {
      await Promise.all([exited, silent])
      return said
    },
  }
}

async function played(orders: Orders): Promise<string> {
  const child = await ready(orders)
  child.go()
  return child.over()
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

/** So many at a time as there is room for. */
async function eachOf<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const queue = [...items]
  const worker = async (): Promise<void> => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item)
  }
  await Promise.all([worker(), worker(), worker()])
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1)

async function writesOf(orders: Orders): Promise<number> {
  const [kind, writes] = (await played(orders)).split(' ')
  assert.equal(kind, 'applied')
  return Number(writes)
}

suite('a killed apply on sqlite', () => {
  test('leaves the old store before its commit and the new one after, whichever write it died at', async (t) => {
    const setting = await scene(t, 'sqlite')
    const { manifest, before, after } = setting
    const total = await writesOf({ store: copyOf(t, setting), manifest })
    assert.ok(total > 12, `only ${total} writes`)
    await eachOf(upTo(total), async (dieAt) => {
      const store = copyOf(t, setting)
      assert.equal(await played({ store, manifest, dieAt }), '')
      // The last step is the answer: there the commit is done.
      assert.equal(await stateOf(store), dieAt < total ? before : after, `killed at ${dieAt} of ${total}`)
    })
  })

  test('would be caught if it were several transactions', async (t) => {
    const setting = await scene(t, 'sqlite')
    const { manifest, before, after } = setting
    const torn = true
    const total = await writesOf({ store: copyOf(t, setting), manifest, torn })
    const store = copyOf(t, setting)
    await played({ store, manifest, torn, dieAt: Math.floor(total / 2) })
    const state = (await stateOf(store)).replace(/^.*\n/, '')
    assert.ok(![before, after].map((text) => text.replace(/^.*\n/, '')).includes(state))
  })

  test('leaves the old or the new store, killed at any moment', async (t) => {
    const setting = await scene(t, 'sqlite', [many('old'), many('newer')])
    const { manifest, before, after } = setting
    const seen = new Set<string>()
    await eachOf(upTo(15), async (attempt) => {
      const store = copyOf(t, setting)
      const child = await ready({ store, manifest })
      child.go()
      await child.writing
      // Not a wait for something: these are the moments.
      await pause(attempt * 8)
      child.kill()
      const said = await child.over()
      const state = await stateOf(store)
      assert.ok(state === before || state === after, 'torn')
      if (said) assert.equal(state, after)
      seen.add(state === before ? 'old' : 'new')
    })
    t.diagnostic(`seen: ${[...seen].join(', ')}`)
  })
})

onEveryEngine('an apply in another process', (engine) => {
  test('that dies leaves the old store before its commit and the new one after', async (t) => {
    const { store, manifest, before, after } = await scene(t, engine)
    for (const dieAt of [1, 5, 9]) {
      assert.equal(await played({ store, manifest, dieAt }), '')
      assert.equal(await stateOf(store), before)
    }
    assert.match(await played({ store, manifest }), /^applied/)
    assert.equal(await stateOf(store), after)
  })

  test('of two at once exactly one wins, and the other changes nothing', async (t) => {
    const { store, manifest, after } = await scene(t, engine)
    const children = await Promise.all([ready({ store, manifest }), ready({ store, manifest })])
    for (const { go } of children) go()
    const said = await Promise.all(children.map(({ over }) => over()))
    assert.deepEqual(said.map((line) => line.split(' ')[0]).sort(), ['applied', 'mismatch'])
    assert.equal(await stateOf(store), after)
  })
})
