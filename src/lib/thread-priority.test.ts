import assert from 'node:assert/strict'
import { once } from 'node:events'
import { constants, getPriority } from 'node:os'
import { test } from 'node:test'
import { Worker } from 'node:worker_threads'

const only = process.platform === 'linux' ? {} : { skip: 'only Linux names its threads' }

test('lowers the priority of a thread but not of its process', only, async () => {
  const before = getPriority()
  const text = `
    const { parentPort } = require('node:worker_threads')
    const { readlinkSync } = require('node:fs')
    const { getPriority } = require('node:os')
    import(${JSON.stringify(new URL('./thread-priority.ts', import.meta.url).href)}).then(({ lowerPriority }) => {
      lowerPriority()
      parentPort.postMessage(getPriority(Number(readlinkSync('/proc/thread-self').split('/').at(-1))))
    })`
  const worker = new Worker(text, { eval: true })
  const [priority] = await once(worker, 'message')
  await worker.terminate()
  assert.equal(priority, Math.max(before, constants.priority.PRIORITY_BELOW_NORMAL))
  assert.equal(getPriority(), before)
})
