import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { agentDir } from '../../test/support/agent-files.ts'
import { spawnProcess } from './launch.ts'
import { UnconfinedCell } from './unconfined-cell.ts'

const LIMITS = { processes: 1, memoryBytes: 1, files: 1, cpuMs: 1 }

test('reads all output of a program, even if closing its descriptors takes long', async (t) => {
  const home = agentDir(t)
  const place = { folder: 'a', home, socket: '', openHome: async () => ({ fd: -1, close: async () => undefined }) }
  const plain = new UnconfinedCell(undefined, LIMITS)
  const spec = await plain.prepareSpawn(place, ['/bin/echo', 'hello'], { PATH: '/usr/bin:/bin' })
  // Longer than the program runs.
  const release = (): Promise<void> => pause(500, undefined, { ref: false })
  const { stdout, ended } = spawnProcess({ ...spec, release }, LIMITS)
  let said = ''
  stdout.on('data', (text) => {
    said += text
  })
  assert.deepEqual(await ended, { code: 0, signal: null, isCellReady: true })
  assert.equal(said, 'hello\n')
})

test('reports a missing program without throwing', async (t) => {
  const home = agentDir(t)
  const place = { folder: 'a', home, socket: '', openHome: async () => ({ fd: -1, close: async () => undefined }) }
  const { ended } = await new UnconfinedCell(undefined, LIMITS).start(place, ['/no/such/program'], {})
  const { code, error, isCellReady } = await ended
  assert.deepEqual([code, error?.code, isCellReady], [null, 'ENOENT', true])
})
