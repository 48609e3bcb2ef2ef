// A thread that exchanges directory entries continuously, so that an entry may change between any two steps of the code under
// test.
import { once } from 'node:events'
import { lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'

const SWAPPER = `
  const { parentPort, workerData: { own, aside, alien } } = require('node:worker_threads')
  const { renameSync, symlinkSync, unlinkSync } = require('node:fs')
  parentPort.postMessage('ready')
  for (;;) {
    renameSync(own, aside)
    symlinkSync(alien, own)
    unlinkSync(own)
    renameSync(aside, own)
  }`

/** Uses RENAME_EXCHANGE, so that both names always exist; three renames if this Node cannot call the C library. */
const EXCHANGER = `
  const { parentPort, workerData: pairs } = require('node:worker_threads')
  const { renameSync } = require('node:fs')
  const [AT_FDCWD, RENAME_EXCHANGE] = [-100, 2]
  const open = () => {
    try {
      const signature = { arguments: ['int32', 'buffer', 'int32', 'buffer', 'uint32'], return: 'int32' }
      const { renameat2 } = process.getBuiltinModule('node:ffi').dlopen(null, { renameat2: signature }).functions
      return (a, b) => renameat2(AT_FDCWD, Buffer.from(a + '\\0'), AT_FDCWD, Buffer.from(b + '\\0'), RENAME_EXCHANGE)
    } catch {
      return (a, b) => {
        renameSync(a, a + '.aside')
        renameSync(b, a)
        renameSync(a + '.aside', b)
      }
    }
  }
  const exchange = open()
  parentPort.postMessage('ready')
  for (;;) for (const [a, b] of pairs) exchange(a, b)`

/** `dir/x` of the home contains `mine`, and sometimes leads outside, to a file with `theirs`; until disposed. */
export async function swapFolder(home: string, outside: string): Promise<AsyncDisposable> {
  const [own, alien] = [join(home, 'dir'), join(outside, 'alien')]
  mkdirSync(own)
  mkdirSync(alien)
  writeFileSync(join(own, 'x'), 'mine')
  writeFileSync(join(alien, 'x'), 'theirs')
  return startWorker(SWAPPER, { own, aside: join(home, 'aside'), alien })
}

/** Exchanges the two names of each pair until disposed. Both must exist. */
export async function exchangeEntries(...pairs: readonly (readonly [string, string])[]): Promise<AsyncDisposable> {
  return startWorker(EXCHANGER, pairs)
}

async function startWorker(script: string, workerData: unknown): Promise<AsyncDisposable> {
  const worker = new Worker(script, { eval: true, workerData, execArgv: ['--disable-warning=ExperimentalWarning'] })
  await once(worker, 'message')
  return {
    async [Symbol.asyncDispose]() {
      await worker.terminate()
    },
  }
}

/** Describes every entry below a directory, to compare before and after. */
export function contentsOf(directory: string): Record<string, string> {
  const entries = readdirSync(directory, { recursive: true, encoding: 'utf8' }).map((name) => {
    const { mode, uid, mtimeMs } = lstatSync(join(directory, name))
    const isFile = lstatSync(join(directory, name)).isFile()
    return [name, `${mode} ${uid} ${mtimeMs} ${isFile ? readFileSync(join(directory, name), 'utf8') : ''}`]
  })
  return Object.fromEntries(entries)
}
