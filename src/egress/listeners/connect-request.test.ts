import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EgressContext } from '../connection/egress-context.ts'
import { compileSource } from '../policy/policy.ts'
import { NO_OWNER } from '../transport/socket-defaults.ts'
import type { TcpConnection } from '../transport/transport.ts'
import { serveConnect } from './connect-request.ts'

class QuietClient {
  owner = NO_OWNER
  readonly remote = { address: '10.0.0.2', port: 1 }
  isPaused = false

  pause(): void {
    this.isPaused = true
  }

  // The test uses no other part of the client.
  get connection(): TcpConnection {
    return this as unknown as TcpConnection
  }
}

/** A client whose dial never ends. */
function dialFor(early: Uint8Array): QuietClient {
  const client = new QuietClient()
  const source = compileSource({ ip: '10.0.0.2', id: 'job', allowlist: ['a.example'] })
  // The test uses no other part of the context.
  const context = {
    transport: { now: () => 0 },
    findSource: () => source,
    dialer: { dial: () => ({ cancel: () => {} }) },
  } as unknown as EgressContext
  serveConnect(context, client.connection, { target: 'a.example:443', framing: { kind: 'none' } }, early, () => {})
  return client
}

test('a client that sends early bytes is paused until the tunnel is open', () => {
  assert.equal(dialFor(Buffer.from('x')).isPaused, true)
  const client = dialFor(new Uint8Array(0))
  assert.equal(client.isPaused, false)
  client.owner.received(Buffer.from('x'))
  assert.equal(client.isPaused, true)
})
