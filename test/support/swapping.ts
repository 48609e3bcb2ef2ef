// A file that is exchanged for another all the time, by a thread that does nothing else: between any two steps of whoever
// reads it something may have been swapped.
import { once } from 'node:events'
import { mkdirSync, writeFileSync } from 'node:fs'
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

/** `dir/x` of the home says `mine`, and at times leads outside, to one that says `theirs`; until it is disposed of. */
export async function swapFolder(home: string, outside: string): Promise<AsyncDisposable> {
  const [own, alien] = [join(home, 'dir'), join(outside, 'alien')]
  mkdirSync(own)
  mkdirSync(alien)
  writeFileSync(join(own, 'x'), 'mine')
  writeFileSync(join(alien, 'x'), 'theirs')
  const worker = new Worker(SWAPPER, { eval: true, workerData: { own, aside: join(home, 'aside'), alien } })
  await once(worker, 'message')
  return {
    async [Symbol.asyncDispose]() {
      await worker.terminate()
    },
  }
}
