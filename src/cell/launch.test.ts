import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { agentDir } from '../../test/support/agent-files.ts'
import type { Cell } from './cell.ts'
import { launch } from './launch.ts'
import { UnconfinedCell } from './unconfined-cell.ts'

const LIMITS = { processes: 1, memoryBytes: 1, files: 1, cpuMs: 1 }

test('reads all output of a program, even if closing its descriptors takes long', async (t) => {
  const home = agentDir(t)
  const place = { folder: 'a', home, socket: '', openHome: async () => ({ fd: -1, close: async () => undefined }) }
  const plain = new UnconfinedCell(undefined, LIMITS)
  const slow: Cell = {
    kind: 'none',
    isNetworkOpen: true,
    limits: LIMITS,
    visiblePaths: (place) => plain.visiblePaths(place),
    pathInside: (path) => path,
    searchPath: (path) => path,
    close: () => undefined,
    prepareSpawn: async (...args) => ({
      ...(await plain.prepareSpawn(...args)),
      // Longer than the program runs.
      release: () => pause(500, undefined, { ref: false }),
    }),
  }
  const { child, ended } = await launch(slow, place, ['/bin/echo', 'hello'], { PATH: '/usr/bin:/bin' })
  let said = ''
  child.stdout?.on('data', (text) => {
    said += text
  })
  assert.deepEqual(await ended, { code: 0, signal: null, isCellReady: true })
  assert.equal(said, 'hello\n')
})

test('reports a missing program without throwing', async (t) => {
  const home = agentDir(t)
  const place = { folder: 'a', home, socket: '', openHome: async () => ({ fd: -1, close: async () => undefined }) }
  const { ended } = await launch(new UnconfinedCell(undefined, LIMITS), place, ['/no/such/program'], {})
  const { code, error, isCellReady } = await ended
  assert.deepEqual([code, error?.code, isCellReady], [null, 'ENOENT', true])
})
