import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { test } from 'node:test'
import { needs } from '../../test/support/needs.ts'
import { tempDir } from '../../test/support/temp.ts'

const MODULE = JSON.stringify(new URL('./systemd-notify.ts', import.meta.url).href)
/** Node has no datagram sockets for files. */
const RECEIVER = `import os, socket, sys
own = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
own.bind(sys.argv[1].replace('@', '\\0', 1))
print('bound', flush=True)
print(own.recv(100).decode(), flush=True)`

async function notify(env: Record<string, string>): Promise<string> {
  const script = `const { notifySystemd, watchdogMs } = await import(${MODULE})
    notifySystemd('READY=1')
    process.stdout.write(String(watchdogMs()))`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', script], { env: { ...process.env, ...env } })
  let told = ''
  child.stdout.on('data', (chunk) => {
    told += chunk
  })
  const [code] = await once(child, 'close')
  assert.equal(code, 0)
  return told
}

test('a message reaches the socket that systemd names, as a path or an abstract name', needs('python'), async (t) => {
  for (const path of [join(tempDir(t), 'notify'), `@svc-test-${process.pid}`]) {
    const receiver = spawn('python3', ['-c', RECEIVER, path], { stdio: ['ignore', 'pipe', 'inherit'] })
    const [bound] = await once(receiver.stdout, 'data')
    assert.equal(String(bound), 'bound\n')
    const received = once(receiver.stdout, 'data')
    assert.equal(await notify({ NOTIFY_SOCKET: path, WATCHDOG_USEC: '30000000' }), '30000')
    assert.equal(String((await received)[0]), 'READY=1\n')
  }
})

test('nothing is sent outside of a unit, and a socket that is gone does not matter', async (t) => {
  assert.equal(await notify({}), 'undefined')
  assert.equal(await notify({ NOTIFY_SOCKET: join(tempDir(t), 'gone'), WATCHDOG_USEC: '0' }), 'undefined')
})
