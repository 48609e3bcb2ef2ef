import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { tempDir } from '../../../test/support/temp.ts'
import { layout } from '../../core/layout.ts'
import { throwUncaught } from '../../lib/fault-boundary.ts'
import { announceProcess, servingProcesses, urlOfProcess } from './presence.ts'

const URLS = { routd: 'http://127.0.0.1:2', proxyd: 'http://127.0.0.1:1' }

/** A process that is killed while it listens, so that its socket stays. */
async function killedAt(path: string): Promise<void> {
  const script = `require('node:net').createServer().listen(${JSON.stringify(path)}, () => console.log('ready'))`
  const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  child.kill('SIGKILL')
  await once(child, 'exit')
}

function place(t: TestContext) {
  return layout(tempDir(t))
}

test('a process is listed with its URLs from its announcement to its close', async (t) => {
  const at = place(t)
  assert.deepEqual(await servingProcesses(at), [])
  const presence = await announceProcess(at, () => ({ pid: 7, urls: URLS }), throwUncaught)
  const [seen, ...others] = (await servingProcesses(at)) ?? []
  assert.deepEqual([seen, others], [{ pid: 7, urls: URLS }, []])
  assert.equal(seen && urlOfProcess(seen), URLS.proxyd)
  const [name = ''] = readdirSync(at.ipc)
  assert.equal(statSync(join(at.ipc, name)).mode & 0o777, 0o600)
  const second = await announceProcess(at, () => ({ pid: 8, urls: {} }), throwUncaught)
  assert.equal((await servingProcesses(at))?.length, 2)
  presence.close()
  second.close()
  assert.deepEqual(await servingProcesses(at), [])
})

test('a socket left by a killed process does not count, and the next process removes it', async (t) => {
  const at = place(t)
  mkdirSync(at.ipc)
  await killedAt(join(at.ipc, '.s00000000000'))
  writeFileSync(join(at.ipc, '.s00000000001'), '')
  assert.deepEqual(await servingProcesses(at), [])
  const presence = await announceProcess(at, () => ({ pid: 7, urls: URLS }), throwUncaught)
  t.after(() => presence.close())
  assert.equal(readdirSync(at.ipc).length, 1)
})

test('a process that accepts the connection without responding counts as running', async (t) => {
  const at = place(t)
  mkdirSync(at.ipc)
  const silent = createServer(() => {}).listen(join(at.ipc, '.s00000000000'))
  t.after(() => void silent.close())
  await once(silent, 'listening')
  assert.deepEqual(await servingProcesses(at), [{ urls: {} }])
})

test('returns nothing if this user may not read the directory', {
  skip: process.getuid?.() === 0 && 'root may look everywhere',
}, async (t) => {
  const at = place(t)
  mkdirSync(at.ipc)
  chmodSync(at.ipc, 0)
  t.after(() => chmodSync(at.ipc, 0o700))
  assert.equal(await servingProcesses(at), undefined)
})
