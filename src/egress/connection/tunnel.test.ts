import assert from 'node:assert/strict'
import { test } from 'node:test'
import { NO_OWNER } from '../transport/socket-defaults.ts'
import type { TcpConnection } from '../transport/transport.ts'
import type { EgressContext } from './egress-context.ts'
import { DEFAULT_PROXY_LIMITS, type ProxyLimits } from './limits.ts'
import { Tunnel, type TunnelOutcome } from './tunnel.ts'

class StillWire {
  owner = NO_OWNER
  bytesIn = 0
  bytesOut = 0
  unsent = 0
  hasEnded = false
  wasReset = false

  reset(): void {
    this.wasReset = true
  }

  // The test uses no other part of the transport.
  get connection(): TcpConnection {
    return this as unknown as TcpConnection
  }
}

/** A tunnel with a controllable clock. */
function openTunnel(client: StillWire, server: StillWire, limits: Partial<ProxyLimits> = { idleMs: 60_000 }) {
  let [now, dueAt, look] = [0, 0, () => {}]
  const after = (ms: number, run: () => void) => {
    dueAt = now + ms
    look = run
    return { cancel: () => {} }
  }
  const ends: TunnelOutcome[] = []
  const transport = { after, now: () => now }
  // The tunnel uses only the clock and the limits.
  const context = { transport, limits: { ...DEFAULT_PROXY_LIMITS, ...limits } } as unknown as EgressContext
  new Tunnel(context, client.connection, server.connection, (end) => ends.push(end))
  const pass = (): void => {
    now = dueAt
    look()
  }
  return { ends, pass, passed: () => now }
}

test('bytes that a slow reader takes from the kernel count as progress long after the server has ended', () => {
  const [client, server] = [new StillWire(), new StillWire()]
  const { ends, pass } = openTunnel(client, server)
  server.bytesIn = client.bytesOut = client.unsent = 4_000_000
  server.hasEnded = true
  for (; client.unsent > 0; client.unsent -= 1_000_000) {
    pass()
    assert.deepEqual(ends, [])
  }
  pass()
  assert.deepEqual(ends, [])
  pass()
  assert.deepEqual(ends, [{ verdict: 'allow', reason: 'idle' }])
  assert.deepEqual([client.wasReset, server.wasReset], [true, true])
})

test('received bytes count as progress even if as many are queued for the other side', () => {
  const [client, server] = [new StillWire(), new StillWire()]
  const { ends, pass } = openTunnel(client, server)
  client.hasEnded = true
  for (let count = 0; count < 5; count++) {
    server.bytesIn = client.bytesOut = client.unsent += 1000
    pass()
    assert.deepEqual(ends, [])
  }
  pass()
  assert.equal(ends[0]?.reason, 'idle')
})

for (const ended of ['client', 'server', 'neither'] as const) {
  test(`a silent tunnel whose ${ended} has ended is closed after the idle limit`, () => {
    const transport = { client: new StillWire(), server: new StillWire(), neither: new StillWire() }
    transport[ended].hasEnded = true
    const { ends, pass, passed } = openTunnel(transport.client, transport.server, {})
    while (ends.length === 0 && passed() <= DEFAULT_PROXY_LIMITS.idleMs) {
      assert.ok(passed() < DEFAULT_PROXY_LIMITS.idleMs)
      pass()
    }
    assert.deepEqual(ends, [{ verdict: 'allow', reason: 'idle' }])
    assert.equal(passed(), 3_600_000)
  })
}
