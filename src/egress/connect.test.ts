import assert from 'node:assert/strict'
import { test } from 'node:test'
import { serveConnect } from './connect.ts'
import type { Gate } from './gate.ts'
import { compileSource } from './match.ts'
import type { Wire } from './wire.ts'
import { NOBODY } from './wires/wiring.ts'

class QuietWire {
  owner = NOBODY
  readonly remote = { address: '10.0.0.2', port: 1 }
  isPaused = false

  pause(): void {
    this.isPaused = true
  }

  // A connection that is being dialled asks nothing else of its client.
  get wire(): Wire {
    return this as unknown as Wire
  }
}

/** A client whose host is dialled for ever. */
function dialFor(early: Uint8Array): QuietWire {
  const client = new QuietWire()
  const source = compileSource({ ip: '10.0.0.2', id: 'job', allowlist: ['a.example'] })
  // Nothing else is asked before there is a connection.
  const gate = {
    wires: { now: () => 0 },
    find: () => source,
    dialer: { dial: () => ({ cancel: () => {} }) },
  } as unknown as Gate
  serveConnect(gate, client.wire, { target: 'a.example:443', framing: { kind: 'none' } }, early, () => {})
  return client
}

test('a client is read no further once it has sent something before it is connected', () => {
  assert.equal(dialFor(Buffer.from('x')).isPaused, true)
  const client = dialFor(new Uint8Array(0))
  assert.equal(client.isPaused, false)
  client.owner.bytes(Buffer.from('x'))
  assert.equal(client.isPaused, true)
})
