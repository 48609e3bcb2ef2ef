// The state file when the process dies in the middle of a write, at any system call.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { suite, test } from 'node:test'
import { needs } from '../../../test/support/needs.ts'
import type { SourcesOrders } from '../../../test/support/sources-child.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { SourceRegistry } from './source-registry.ts'

const CHILD = join(import.meta.dirname, '../../../test/support/sources-child.ts')

interface Child {
  readonly process: ChildProcess
  readonly lines: readonly string[]
  readonly errors: readonly string[]
  /** Lets it begin. */
  go(): void
  /** Resolves when it is dead and all its output has been read. */
  readonly gone: Promise<void>
}

/** One thread for files: its calls come in one order, and each count belongs to one of them. */
const ENVIRONMENT = { ...process.env, UV_THREADPOOL_SIZE: '1', UV_USE_IO_URING: '0' }

async function startChild(orders: SourcesOrders): Promise<Child> {
  const child = spawn(process.execPath, [CHILD, JSON.stringify(orders)], { env: ENVIRONMENT })
  const lines: string[] = []
  const errors: string[] = []
  const { promise: ready, resolve, reject } = Promise.withResolvers<void>()
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (line === 'ready') resolve()
    else lines.push(line)
  })
  createInterface({ input: child.stderr }).on('line', (line) => errors.push(line))
  child.stdin.on('error', () => {})
  const gone = once(child, 'close').then(() => reject(new Error(`it died at the start: ${errors.join()}`)))
  await ready
  return { process: child, lines, errors, go: () => void child.stdin.write('\n'), gone: gone.then(() => {}) }
}

/** Has strace inject a fault into one call of the process; resolves when it is attached. */
async function inject(child: Child, what: string): Promise<{ over: Promise<unknown> }> {
  const strace = spawn('strace', [
    '-f',
    '-q',
    '-p',
    String(child.process.pid),
    '-e',
    `inject=${what}`,
    '-o',
    '/dev/null',
  ])
  const over = once(strace, 'close')
  const tasks = `/proc/${child.process.pid}/task`
  const isWatched = (task: string): boolean =>
    !/^TracerPid:\t0$/m.test(readFileSync(join(tasks, task, 'status'), 'utf8'))
  const isReady = (): boolean => {
    try {
      return readdirSync(tasks).every(isWatched)
    } catch {
      // Tasks come and go, and the runtime may make the fatal call before it is told to begin.
      return false
    }
  }
  // A strace that could not attach ends too; then nothing is killed, and the test reports that.
  while (!isReady() && strace.exitCode === null && strace.signalCode === null) await new Promise(setImmediate)
  return { over }
}

const OLD = { ip: '10.9.9.9', id: 'old', allowlist: ['old.example'] }
/** Large enough to be written in three parts. */
const HOSTS = 10_000

/** The file after a kill at the `count`th `call`; undefined if the change finished before. */
async function killAt(path: string, call: string, count: number, inPlace: boolean): Promise<string | undefined> {
  writeFileSync(path, `${JSON.stringify([OLD])}\n`)
  const child = await startChild({ path, count: 1, hosts: HOSTS, inPlace })
  const { over } = await inject(child, `${call}:signal=SIGKILL:when=${count}`)
  child.go()
  await Promise.all([child.gone, over])
  if (child.lines.includes('over')) return undefined
  const text = readFileSync(path, 'utf8')
  try {
    const list: unknown = JSON.parse(text)
    return Array.isArray(list) ? `${list.length} entries` : 'torn'
  } catch {
    return 'torn'
  }
}

const CALLS = ['write', 'fsync', 'rename']

suite('killed at each system call of a rewrite', needs('strace'), () => {
  for (const call of CALLS)
    test(`${call}: leaves the old file or the new one, never a part`, async (t) => {
      const path = join(tempDir(t), 'state.json')
      const seen: string[] = []
      for (let count = 1; count < 60; count++) {
        const found = await killAt(path, call, count, false)
        if (found === undefined) break
        seen.push(found)
        const { size } = await SourceRegistry.open(path, (sentence) => assert.fail(sentence))
        assert.ok(size === 1 || size === 2)
      }
      t.diagnostic(`${call}: ${seen.join(', ')}`)
      assert.ok(seen.length > 0, 'nothing was killed')
      assert.ok(
        seen.every((found) => found === '1 entries' || found === '2 entries'),
        seen.join(),
      )
    })

  test('control: catches a write into the file itself', async (t) => {
    const path = join(tempDir(t), 'state.json')
    const seen: (string | undefined)[] = []
    for (let count = 1; count < 60 && !seen.includes(undefined) && !seen.includes('torn'); count++)
      seen.push(await killAt(path, 'write', count, true))
    assert.ok(seen.includes('torn'), seen.join())
  })
})

suite('a disk error', needs('strace'), () => {
  const failAt = async (path: string, count: number): Promise<string | undefined> => {
    writeFileSync(path, `${JSON.stringify([OLD])}\n`)
    const child = await startChild({ path, count: 1, hosts: 1 })
    const { over } = await inject(child, `fsync:error=EIO:when=${count}`)
    child.go()
    await Promise.all([child.gone, over])
    assert.match(child.errors.join(), /the disk reports an error/)
    return child.lines[0]
  }

  test('changes nothing, in memory and on disk, before the file is replaced', async (t) => {
    const dir = tempDir(t)
    const path = join(dir, 'state.json')
    assert.equal(await failAt(path, 1), 'refused: the registry could not be stored, so nothing has changed (1)')
    assert.deepEqual(JSON.parse(readFileSync(path, 'utf8')), [OLD])
    assert.deepEqual(readdirSync(dir), ['state.json'])
  })

  test('changes both after the file is replaced, and warns that it may not last', async (t) => {
    const path = join(tempDir(t), 'state.json')
    assert.equal(await failAt(path, 2), 'refused: the change is in effect, but may not outlive a power cut (2)')
    assert.equal(JSON.parse(readFileSync(path, 'utf8')).length, 2)
  })
})

const REGISTRIES = join(import.meta.dirname, '../../../test/support/registries-child.ts')
const ROUNDS = 4
const AT_ONCE = 8
/** In memory, where a sync takes no time, so that kills hit all other steps too. */
const IN_MEMORY = '/dev/shm'

/** The last answer of each registry when a process with all of them is killed after `enough` answers. */
async function killAll(paths: readonly string[], enough: number): Promise<string[][]> {
  const child = spawn(process.execPath, [REGISTRIES, ...paths], { stdio: ['ignore', 'pipe', 'inherit'] })
  const answered = paths.map((): string[] => [])
  let count = 0
  createInterface({ input: child.stdout }).on('line', (line) => {
    const [place = '', ...said] = line.split(' ')
    answered[Number(place)]?.push(said.join(' '))
    if (++count === enough) child.kill('SIGKILL')
  })
  await once(child, 'close')
  assert.equal(child.signalCode, 'SIGKILL')
  return answered
}

test(`keeps a whole file with the last answered change after ${ROUNDS * AT_ONCE} kills in a loop of registers`, async (t) => {
  const folder = tempDir(t, existsSync(IN_MEMORY) ? IN_MEMORY : undefined)
  const paths = Array.from({ length: AT_ONCE }, (_, at) => join(folder, `${at}.json`))
  for (let round = 0; round < ROUNDS; round++) {
    for (const path of paths) writeFileSync(path, '[]')
    const answered = await killAll(paths, 1 + Math.floor(Math.random() * 6 * AT_ONCE))
    for (const [at, path] of paths.entries()) {
      const ips = answered[at] ?? []
      const sources = await SourceRegistry.open(path, (sentence) => assert.fail(sentence))
      // The last one may be written but not answered yet.
      assert.ok(sources.size === ips.length || sources.size === ips.length + 1, `${sources.size} of ${ips.length}`)
      for (const ip of ips) assert.ok(sources.find(ip), `round ${round}: ${ip} is lost`)
    }
  }
})
