import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { Namespace } from '../../../test/support/namespace.ts'
import { needs } from '../../../test/support/needs.ts'
import { setUserTimeout } from './socket-timeout.ts'

const TIMEOUT_MS = 500

test(
  'a connection whose other end has vanished ends when nothing is acknowledged in time',
  needs('ip', 'iptables', 'kernel'),
  async (t) => {
    const network = await Namespace.open(t)
    const server = await network.listen('127.0.0.1', 4000)
    t.after(() => server.close())
    assert.ok(setUserTimeout(server, TIMEOUT_MS))
    const accepting = once(server, 'connection')
    const client = await network.connect('127.0.0.1', 4000)
    t.after(() => void client.destroy())
    client.on('error', () => {}).resume()
    const [accepted]: Socket[] = await accepting
    assert.ok(accepted)
    t.after(() => void accepted.destroy())
    const failed = new Promise<NodeJS.ErrnoException>((resolve) => accepted.on('error', resolve))
    accepted.write('heard')
    await pause(2 * TIMEOUT_MS)
    assert.ok(!accepted.destroyed, 'a client that is there is kept')
    await network.run('iptables', '-A', 'INPUT', '-i', 'lo', '-j', 'DROP')
    accepted.write('unheard')
    assert.equal((await failed).code, 'ETIMEDOUT')
  },
)
