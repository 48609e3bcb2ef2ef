import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { agentDir } from '../../test/support/agent-files.ts'
import type { Cell } from './cell.ts'
import { launch } from './launch.ts'
import { OpenCell } from './no-cell.ts'

const LIMITS = { processes: 1, memoryBytes: 1, files: 1, cpuMs: 1 }

test('all that a program prints is read, however long it takes to close what was opened for its start', async (t) => {
  const home = agentDir(t)
  const place = { folder: 'a', home, socket: '', openHome: async () => ({ fd: -1, close: async () => undefined }) }
  const plain = new OpenCell(undefined, LIMITS)
  const slow: Cell = {
    kind: 'none',
    isNetworkOpen: true,
    limits: LIMITS,
    seen: (place) => plain.seen(place),
    inner: (path) => path,
    searchPath: (path) => path,
    close: () => undefined,
    enter: async (...args) => ({
      ...(await plain.enter(...args)),
      // Longer than the program lives.
      release: () => pause(500, undefined, { ref: false }),
    }),
  }
  const { child, ended } = await launch(slow, place, ['/bin/echo', 'hello'], { PATH: '/usr/bin:/bin' })
  let said = ''
  child.stdout?.on('data', (text) => {
    said += text
  })
  assert.deepEqual(await ended, { code: 0, signal: null, isStanding: true })
  assert.equal(said, 'hello\n')
})

test('a program that is not there is told, and nothing is thrown', async (t) => {
  const home = agentDir(t)
  const place = { folder: 'a', home, socket: '', openHome: async () => ({ fd: -1, close: async () => undefined }) }
  const { ended } = await launch(new OpenCell(undefined, LIMITS), place, ['/no/such/program'], {})
  const { code, error, isStanding } = await ended
  assert.deepEqual([code, error?.code, isStanding], [null, 'ENOENT', true])
})
