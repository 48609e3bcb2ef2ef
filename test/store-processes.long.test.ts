// Several real processes on one store.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface, type Interface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { suite, type TestContext, test } from 'node:test'
import { groups } from '../src/core/groups/groups.ts'
import { routeTokens } from '../src/core/links/route-tokens.ts'
import { openHost } from '../src/daemons/process/host.ts'
import { audit } from '../src/registry/audit.ts'
import { callVerb } from '../src/registry/call.ts'
import { groupsResource } from '../src/resources/groups.ts'
import type { StoreAddress } from '../src/store/index.ts'
import { emptyStore, isRefusal, onEveryEngineQuickly } from './support/host.ts'
import { tempDir } from './support/temp.ts'

const CHILD = join(import.meta.dirname, 'store-child.ts')
const MUTATIONS = 2000

interface StoreProcess {
  go(): void
  /** Reads the next line of its output. */
  read(): Promise<unknown>
}

async function start(t: TestContext, mode: string, address: StoreAddress, ...rest: string[]): Promise<StoreProcess> {
  const child: ChildProcess = spawn(process.execPath, [CHILD, mode, JSON.stringify(address), ...rest], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  t.after(() => child.kill('SIGKILL'))
  const lines: Interface = createInterface({ input: child.stdout ?? assert.fail() })
  const iterator = lines[Symbol.asyncIterator]()
  const read = async (): Promise<unknown> => {
    const { value, done } = await iterator.next()
    if (done) throw new Error(`the ${mode} process exited`)
    return JSON.parse(value)
  }
  assert.equal(await read(), 'ready')
  return { go: () => child.stdin?.write('go\n'), read }
}

/** Starts all processes, lets them run at the same moment, and returns their results. */
async function race(
  t: TestContext,
  all: readonly [mode: string, address: StoreAddress, ...rest: string[]][],
): Promise<unknown[]> {
  const processes = await Promise.all(all.map((one) => start(t, ...one)))
  for (const { go } of processes) go()
  return Promise.all(processes.map(({ read }) => read()))
}

const open = (store: StoreAddress) => openHost({ instance: 'test', store, webBase: 'http://localhost' })

onEveryEngineQuickly('several processes', (engine) => {
  test('lose no writes and get no lock errors', async (t) => {
    const address = await emptyStore(t, engine)
    await (await open(address)).close()
    const folders = ['one', 'two']
    const answers = await race(
      t,
      folders.map((folder) => ['mint', address, folder, String(MUTATIONS)]),
    )
    assert.deepEqual(answers, [MUTATIONS, MUTATIONS])
    const host = await open(address)
    try {
      const [tokens, rows] = await host.engine.read(async (tx) => [await routeTokens.list(tx), await audit.list(tx)])
      for (const folder of folders) {
        const jids = new Set(tokens.filter(({ owner_folder }) => owner_folder === folder).map(({ jid }) => jid))
        assert.equal(jids.size, MUTATIONS)
      }
      const mints = rows.filter(({ action }) => action === 'route_tokens.issue_hook')
      assert.equal(mints.length, 2 * MUTATIONS)
      assert.equal(new Set(rows.map(({ id }) => id)).size, rows.length)
    } finally {
      await host.close()
    }
    if ('path' in address) assertIntact(address.path)
  })

  test('create one store when they start at the same time', async (t) => {
    const address = await emptyStore(t, engine)
    const answers = await race(
      t,
      Array.from({ length: 8 }, () => ['open', address]),
    )
    assert.deepEqual(answers, Array(8).fill('opened'))
    const host = await open(address)
    try {
      await callVerb({ host, caller: { kind: 'host', sub: 'cli' }, face: 'cli' }, groupsResource.verbs.add, {
        folder: 'a',
      })
      assert.equal(await host.engine.read((tx) => groups.count(tx)), 1)
    } finally {
      await host.close()
    }
    if ('path' in address) {
      assertIntact(address.path)
      assert.deepEqual(readdirSync(dirname(address.path)), ['svc.db'])
    }
  })
})

suite('a long writer in another process', () => {
  const add = (folder: string) => ({ verb: groupsResource.verbs.add, input: { folder } })

  test('delays a call, which is refused with a hint after the timeout', async (t) => {
    const path = join(tempDir(t), 'svc.db')
    const openContext = async (busyMs?: number) => {
      const store = { path, create: true, ...(busyMs === undefined ? {} : { busyMs }) }
      const host = await openHost({ instance: 'test', store, webBase: 'http://localhost' })
      t.after(() => host.close())
      return { host, caller: { kind: 'host', sub: 'cli' }, face: 'cli' } as const
    }
    const [impatient, patient] = [await openContext(300), await openContext()]
    const owner = await start(t, 'lock', { path })
    owner.go()
    assert.equal(await owner.read(), 'locked')
    const { verb, input } = add('a')
    await assert.rejects(callVerb(impatient, verb, input), (error) => {
      assert.ok(isRefusal('unavailable', 'the store is busy')(error))
      return error instanceof Error && 'hint' in error && /try again/.test(String(error.hint))
    })
    // Reads still work.
    assert.deepEqual(await callVerb(impatient, groupsResource.verbs.list, {}), { groups: [] })
    const waiting = callVerb(patient, verb, input)
    owner.go()
    assert.equal(await owner.read(), 'released')
    assert.deepEqual(await waiting, { added: true, routed: 0 })
  })
})

function assertIntact(path: string): void {
  const db = new DatabaseSync(path)
  try {
    assert.equal(Object.values(db.prepare('pragma integrity_check').get() ?? {})[0], 'ok')
  } finally {
    db.close()
  }
}
