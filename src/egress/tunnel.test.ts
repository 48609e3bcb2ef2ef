import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Gate } from './gate.ts'
import { LIMITS, type Limits } from './limits.ts'
import { Tunnel, type TunnelEnd } from './tunnel.ts'
import type { Wire } from './wire.ts'
import { NOBODY } from './wires/wiring.ts'

class StillWire {
  owner = NOBODY
  bytesIn = 0
  bytesOut = 0
  unsent = 0
  hasEnded = false
  wasReset = false

  reset(): void {
    this.wasReset = true
  }

  // A tunnel that was not started asks nothing else of its wires.
  get wire(): Wire {
    return this as unknown as Wire
  }
}

/** A tunnel whose time passes when it is told to, from one look to the next. */
function openTunnel(client: StillWire, server: StillWire, limits: Partial<Limits> = { idleMs: 60_000 }) {
  let [now, dueAt, look] = [0, 0, () => {}]
  const after = (ms: number, run: () => void) => {
    dueAt = now + ms
    look = run
    return { cancel: () => {} }
  }
  const ends: TunnelEnd[] = []
  const wires = { after, now: () => now }
  // It asks for the time and for its limits, and for nothing else.
  const gate = { wires, limits: { ...LIMITS, ...limits } } as unknown as Gate
  new Tunnel(gate, client.wire, server.wire, (end) => ends.push(end))
  const pass = (): void => {
    now = dueAt
    look()
  }
  return { ends, pass, passed: () => now }
}

test('what a slow reader takes from the kernel moves, long after the server has ended', () => {
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

test('what comes in moves, also where as much waits for the other side', () => {
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
  test(`a silent tunnel of which ${ended} has ended is kept for the idle limit, and no longer`, () => {
    const wires = { client: new StillWire(), server: new StillWire(), neither: new StillWire() }
    wires[ended].hasEnded = true
    const { ends, pass, passed } = openTunnel(wires.client, wires.server, {})
    while (ends.length === 0 && passed() <= LIMITS.idleMs) {
      assert.ok(passed() < LIMITS.idleMs)
      pass()
    }
    assert.deepEqual(ends, [{ verdict: 'allow', reason: 'idle' }])
    assert.equal(passed(), 3_600_000)
  })
}
