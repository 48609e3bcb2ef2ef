// Behaviour that both transports must share: the same bytes in the same order, the end of each side, and each callback once.
import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { needs } from '../../../test/support/needs.ts'
import { leaveOpenFiles, openFileCount } from '../../../test/support/open-files.ts'
import {
  connectPeer,
  digestOf,
  echo,
  noise,
  openPeerServer,
  type Peer,
  untilStill,
  unusedPort,
} from '../../../test/support/raw-socket.ts'
import { repeatableRandom } from '../../../test/support/repeatable-random.ts'
import type { ScriptedConnection, ScriptedTransport } from '../../../test/support/scripted-transport.ts'
import { until } from '../../../test/support/until.ts'
import {
  type Kernel,
  MSG_DONTWAIT,
  MSG_NOSIGNAL,
  openKernel,
  SHUT_WR,
  SOCK_CLOEXEC,
  SOCK_NONBLOCK,
  SOCK_STREAM,
} from './kernel.ts'
import { ADDRESS_BYTES, readAddress, writeAddress } from './socket-address.ts'
import type { SocketAddress } from './transport.ts'

export type OpenTransport = (t: TestContext) => Promise<ScriptedTransport>

const HERE = '127.0.0.1'
/** More than the kernel buffers for two sockets and a pipe between them. */
const TOO_MUCH = 48 * 1024 * 1024

export function transportContract(open: OpenTransport): void {
  suite('one connection', () => connectionContract(open))
  suite('the end of a connection', () => endContract(open))
  suite('connecting and listening', () => listenContract(open))
  suite('a pump', () => pumpContract(open))
  suite('when no more files can be opened', () => starvedContract(open))
  suite('timers', () => timersContract(open))
}

/** An accepted connection and its peer. */
async function accept(
  t: TestContext,
  transport: ScriptedTransport,
): Promise<{ connection: ScriptedConnection; peer: Peer }> {
  const count = transport.accepted.length
  const { port } = await transport.listen(HERE)
  const peer = await connectPeer(t, port)
  return { connection: await transport.acceptedConnection(count + 1), peer }
}

/** An outgoing connection and its peer. */
async function connect(
  t: TestContext,
  transport: ScriptedTransport,
): Promise<{ connection: ScriptedConnection; peer: Peer }> {
  const server = await openPeerServer(t)
  const connection = await transport.connect({ address: HERE, port: server.port })
  const peer = await server.peer()
  await until(() => connection.isConnected)
  return { connection, peer }
}

const BOTH = [accept, connect] as const

function connectionContract(open: OpenTransport): void {
  for (const make of BOTH) {
    test(`passes bytes both ways and in order, by ${make.name}`, async (t) => {
      const { connection, peer } = await make(t, await open(t))
      const [up, down] = [noise(3_000_001), noise(2_000_003)]
      peer.send(up)
      const pieces = [down.subarray(0, 1), down.subarray(1, 70_000), down.subarray(70_000)]
      const room: boolean[] = []
      for (const piece of pieces) room.push(await connection.write(piece))
      assert.equal(room[0], true)
      await until(() => connection.pieces.reduce((sum, piece) => sum + piece.length, 0) >= up.length)
      await peer.has(down.length)
      assert.equal(digestOf(connection.bytes), digestOf(up))
      assert.equal(peer.digest(), digestOf(down))
      const { bytesIn, bytesOut, hasEnded } = await connection.readState()
      assert.deepEqual({ bytesIn, bytesOut, hasEnded }, { bytesIn: up.length, bytesOut: down.length, hasEnded: false })
    })
  }

  test('reads only a little from a client at once, however much it has sent', async (t) => {
    const transport = await open(t)
    const { port } = await transport.listen(HERE, 'pause')
    const peer = await connectPeer(t, port)
    const connection = await transport.acceptedConnection()
    const all = noise(1_000_000)
    peer.send(all)
    await untilStill(() => peer.socket.writableLength)
    await connection.perform('resume')
    await until(() => connection.pieces.reduce((sum, piece) => sum + piece.length, 0) >= all.length)
    assert.equal(digestOf(connection.bytes), digestOf(all))
    assert.ok(Math.max(...connection.pieces.map(({ length }) => length)) <= 65_536)
  })

  test('copies written bytes, so the caller may change them at once', async (t) => {
    const { connection, peer } = await accept(t, await open(t))
    peer.socket.pause()
    const block = Buffer.alloc(1_048_576, 'a')
    while (await connection.write(block)) block.fill('a')
    const held = Buffer.alloc(1_048_576, 'b')
    assert.equal(await connection.write(held), false)
    held.fill('c')
    peer.socket.resume()
    await until(() => peer.pieces.at(-1)?.at(-1) === 0x62)
    assert.doesNotMatch(peer.text.slice(-held.length), /c/)
  })

  test('delivers nothing while paused', async (t) => {
    const { connection, peer } = await accept(t, await open(t))
    await connection.perform('pause')
    peer.send('one ')
    await connection.readState()
    peer.send('two')
    await until(() => peer.socket.writableLength === 0)
    await connection.readState()
    assert.equal(connection.text, '')
    await connection.perform('resume')
    await until(() => connection.text === 'one two')
  })

  test('loses no bytes when paused before the first one', async (t) => {
    const transport = await open(t)
    const { port } = await transport.listen(HERE, 'pause')
    const peer = await connectPeer(t, port)
    peer.sendLast('early')
    const connection = await transport.acceptedConnection()
    await connection.readState()
    assert.equal(connection.text, '')
    await connection.perform('resume')
    await until(() => connection.endedTimes === 1)
    assert.equal(connection.text, 'early')
  })

  test('write returns false when the reader stops, and drained is called once', async (t) => {
    const { connection, peer } = await accept(t, await open(t))
    peer.socket.pause()
    const block = noise(1_048_576)
    let blocks = 1
    for (; await connection.write(block); blocks++) assert.ok(blocks < 64, 'nothing ever waits')
    assert.equal(connection.drainedTimes, 0)
    assert.ok((await connection.readState()).unsent > 0)
    peer.socket.resume()
    await until(() => connection.drainedTimes === 1)
    // What the kernel still buffers leaves less room.
    await peer.has(blocks * block.length)
    assert.equal(await connection.write(block), true)
    blocks++
    await peer.has(blocks * block.length)
    assert.equal(peer.digest(), digestOf(...Array.from({ length: blocks }, () => block)))
    assert.equal(connection.drainedTimes, 1)
    await until(async () => (await connection.readState()).unsent === 0)
  })

  test('sends what was written before the connection was established, and the end', async (t) => {
    const transport = await open(t)
    const server = await openPeerServer(t)
    const connection = await transport.connect(
      { address: HERE, port: server.port },
      { data: 'too early', isEnded: true },
    )
    const peer = await server.peer()
    assert.equal(await peer.over(), 'too early')
    peer.sendLast('late')
    await until(() => connection.isClosed)
    assert.equal(connection.text, 'late')
  })

  test('knows both addresses', async (t) => {
    const transport = await open(t)
    const { connection, peer } = await accept(t, transport)
    const { localPort = 0, remotePort = 0 } = peer.socket
    const { remote, local } = await connection.readState()
    assert.deepEqual([remote, local], [at(HERE, localPort), at(HERE, remotePort)])
    const other = await connect(t, transport)
    const facts = await other.connection.readState()
    assert.deepEqual(facts.local, at(HERE, other.peer.socket.remotePort ?? 0))
    assert.deepEqual(facts.remote, at(HERE, other.peer.socket.localPort ?? 0))
  })
}

function at(address: string, port: number): SocketAddress {
  return { address, port }
}

function endContract(open: OpenTransport): void {
  for (const make of BOTH) {
    test(`a peer that has ended may still be written to, by ${make.name}`, async (t) => {
      const { connection, peer } = await make(t, await open(t))
      peer.sendLast('question')
      await until(() => connection.endedTimes === 1)
      assert.equal(connection.text, 'question')
      assert.equal((await connection.readState()).hasEnded, true)
      assert.equal(connection.closedTimes, 0)
      await connection.write('answer')
      await connection.perform('end')
      assert.equal(await peer.over(), 'answer')
      await until(() => connection.isClosed)
      assert.deepEqual([connection.endedTimes, connection.closedTimes, connection.error], [1, 1, undefined])
    })

    test(`a connection that has ended still receives, by ${make.name}`, async (t) => {
      const { connection, peer } = await make(t, await open(t))
      await connection.write('last')
      await connection.perform('end')
      await connection.perform('end')
      assert.equal(await peer.over(), 'last')
      peer.send('and yet')
      await until(() => connection.text === 'and yet')
      assert.equal(connection.closedTimes, 0)
      peer.sendLast()
      await until(() => connection.isClosed)
      await peer.closed()
      assert.deepEqual([connection.endedTimes, connection.closedTimes, connection.error], [1, 1, undefined])
    })

    test(`a reset by the peer is reported once, by ${make.name}`, async (t) => {
      const { connection, peer } = await make(t, await open(t))
      peer.socket.resetAndDestroy()
      await until(() => connection.isClosed)
      assert.deepEqual([connection.endedTimes, connection.closedTimes, connection.error], [0, 1, 'ECONNRESET'])
    })

    test(`reset() resets the peer and is not reported to the owner, by ${make.name}`, async (t) => {
      const { connection, peer } = await make(t, await open(t))
      await connection.perform('reset')
      await peer.closed()
      assert.equal(peer.error, 'ECONNRESET')
      for (const kind of ['reset', 'close', 'end', 'resume'] as const) await connection.perform(kind)
      assert.equal(await connection.write('nobody reads this'), true)
      assert.equal(connection.closedTimes, 0)
    })

    test(`close() ends the peer and is not reported to the owner, by ${make.name}`, async (t) => {
      const { connection, peer } = await make(t, await open(t))
      await connection.perform('close')
      await peer.over()
      assert.deepEqual([peer.error, connection.closedTimes], [undefined, 0])
    })
  }

  test('sends all queued bytes before the end', async (t) => {
    const { connection, peer } = await accept(t, await open(t))
    peer.socket.pause()
    const all = noise(TOO_MUCH)
    assert.equal(await connection.write(all), false)
    await connection.perform('end')
    peer.keepsBytes = false
    peer.socket.resume()
    await peer.over()
    assert.equal(peer.digest(), digestOf(all))
    assert.equal(connection.drainedTimes, 0)
  })

  test('a reset reaches a connection with queued bytes and a paused one', async (t) => {
    const transport = await open(t)
    const blocked = await accept(t, transport)
    blocked.peer.socket.pause()
    await blocked.connection.write(noise(TOO_MUCH))
    const paused = await connect(t, transport)
    await paused.connection.perform('pause')
    for (const { peer } of [blocked, paused]) peer.socket.resetAndDestroy()
    await until(() => blocked.connection.isClosed)
    assert.match(blocked.connection.error ?? '', /^(ECONNRESET|EPIPE)$/)
    // A paused connection reports it now or after resume.
    await paused.connection.perform('resume')
    await until(() => paused.connection.isClosed)
    assert.equal(paused.connection.closedTimes, 1)
  })
}

function listenContract(open: OpenTransport): void {
  test('a port without a listener refuses', async (t) => {
    const connection = await (await open(t)).connect(at(HERE, await unusedPort(t)))
    await until(() => connection.isClosed)
    assert.deepEqual([connection.isConnected, connection.closedTimes, connection.error], [false, 1, 'ECONNREFUSED'])
  })

  test('an unreachable address is reported after connect() has returned', async (t) => {
    const connection = await (await open(t)).connect(at('255.255.255.255', 80))
    await until(() => connection.isClosed)
    assert.match(connection.error ?? '', /^(ENETUNREACH|EACCES)$/)
    assert.equal(connection.closedTimes, 1)
  })

  test('an abandoned attempt calls nothing', async (t) => {
    const transport = await open(t)
    const server = await openPeerServer(t)
    for (const gives of ['reset', 'close'] as const) {
      const connections = [
        await transport.connect(at('255.255.255.255', 80), { abort: gives }),
        await transport.connect(at(HERE, server.port), { abort: gives }),
      ]
      await transport.after(50, gives)
      await until(() => transport.firedTimers.some(({ name }) => name === gives))
      for (const { isConnected, closedTimes } of connections) assert.deepEqual([isConnected, closedTimes], [false, 0])
    }
  })

  test('accepts IPv6, and IPv4 on a dual-stack listener as plain IPv4', async (t) => {
    const transport = await open(t)
    const six = await transport.listen('::1')
    assert.equal(six.address, '::1')
    await connectPeer(t, six.port, { host: '::1' })
    const first = await transport.acceptedConnection(1)
    const facts = await first.readState()
    assert.deepEqual([facts.remote.address, facts.local], ['::1', at('::1', six.port)])
    const both = await transport.listen('::')
    await connectPeer(t, both.port)
    const second = await (await transport.acceptedConnection(2)).readState()
    assert.deepEqual([second.remote.address, second.local], [HERE, at(HERE, both.port)])
    await connectPeer(t, both.port, { host: '::1' })
    assert.equal((await (await transport.acceptedConnection(3)).readState()).remote.address, '::1')
  })

  test('connects to IPv6, and to IPv4 in mapped form', async (t) => {
    const transport = await open(t)
    const six = await openPeerServer(t, { host: '::1', serve: echo })
    const four = await openPeerServer(t, { serve: echo })
    for (const to of [at('::1', six.port), at('::ffff:127.0.0.1', four.port)]) {
      const connection = await transport.connect(to, { data: 'hello' })
      await until(() => connection.text === 'hello')
    }
  })

  test('a closed listener accepts nothing and keeps accepted connections', async (t) => {
    const transport = await open(t)
    const bound = await transport.listen(HERE)
    const peer = await connectPeer(t, bound.port)
    const connection = await transport.acceptedConnection()
    await transport.unlisten(bound)
    await assert.rejects(connectPeer(t, bound.port), { code: 'ECONNREFUSED' })
    peer.send('still here')
    await until(() => connection.text === 'still here')
    await transport.unlisten(bound)
  })

  test('an address that is in use or not local is rejected with the error name', async (t) => {
    const transport = await open(t)
    await assert.rejects(transport.listen('192.0.2.1'), /EADDRNOTAVAIL/)
    await transport.listen(HERE)
  })

  test('two thousand short connections leave nothing open', { timeout: 120_000 }, async (t) => {
    const transport = await open(t)
    const origin = await openPeerServer(t, { serve: echo })
    const { port } = await transport.listen(HERE, at(HERE, origin.port))
    const before = openFileCount()
    const ask = async (number: number): Promise<void> => {
      const peer = await connectPeer(SOON, port)
      // Every third closes without sending.
      if (number % 3 === 0) peer.socket.resetAndDestroy()
      else peer.sendLast(`number ${number}`)
      await peer.over()
      if (number % 3 !== 0) assert.equal(peer.text, `number ${number}`)
    }
    let next = 0
    const worker = async (): Promise<void> => {
      while (next < 2000) await ask(++next)
    }
    await Promise.all(Array.from({ length: 32 }, worker))
    await until(() => openFileCount() <= before + 16)
    assert.deepEqual(transport.failures, [])
  })
}

/** For peers that close long before the test ends. */
const SOON = { after: (): void => {} }

/** Two connections and their peers. */
async function pair(t: TestContext, transport: ScriptedTransport) {
  const from = await accept(t, transport)
  const to = await connect(t, transport)
  return { from, to }
}

function pumpContract(open: OpenTransport): void {
  test('passes bursts of every size, copied and spliced', {
    timeout: 120_000,
  }, async (t) => {
    const transport = await open(t)
    const { from, to } = await pair(t, transport)
    await from.connection.pumpTo(to.connection)
    to.peer.keepsBytes = false
    const MB = 1_048_576
    const bursts = [1, 65_536, 10 * MB, 1, 1, 65_535, 65_537, 3 * MB, 100, 16_383, 10 * MB + 7, 5].map(noise)
    let sent = 0
    for (const burst of bursts) {
      from.peer.send(burst)
      sent += burst.length
      await to.peer.has(sent)
      assert.equal(to.peer.received, sent)
    }
    from.peer.sendLast()
    await to.peer.over()
    assert.equal(to.peer.digest(), digestOf(...bursts))
    const [one, other] = [await from.connection.readState(), await to.connection.readState()]
    assert.deepEqual([one.bytesIn, other.bytesOut], [sent, sent])
    assert.deepEqual([from.connection.pieces.length, from.connection.endedTimes, to.connection.drainedTimes], [0, 0, 0])
  })

  test('a slow reader slows the sender down and gets every byte', { timeout: 120_000 }, async (t) => {
    const transport = await open(t)
    const { from, to } = await pair(t, transport)
    await from.connection.pumpTo(to.connection)
    to.peer.keepsBytes = false
    to.peer.socket.pause()
    const all = noise(TOO_MUCH)
    from.peer.sendLast(all)
    const moved = await untilStill(async () => (await from.connection.readState()).bytesIn)
    assert.ok(moved < TOO_MUCH / 2, `${moved} bytes were read that no one consumes`)
    const slowly = setInterval(() => (to.peer.socket.isPaused() ? to.peer.socket.resume() : to.peer.socket.pause()), 2)
    t.after(() => clearInterval(slowly))
    await to.peer.over()
    assert.equal(to.peer.digest(), digestOf(all))
  })

  test('a slow reader also slows down a sender of small pieces', { timeout: 120_000 }, async (t) => {
    const transport = await open(t)
    const { from, to } = await pair(t, transport)
    to.peer.socket.pause()
    to.peer.keepsBytes = false
    const first = noise(TOO_MUCH)
    assert.equal(await to.connection.write(first), false)
    await from.connection.pumpTo(to.connection)
    from.peer.socket.setNoDelay(true)
    const pieces = Array.from({ length: 200 }, () => noise(10_000))
    for (const piece of pieces) {
      from.peer.send(piece)
      // So that the previous piece is read first, if it is read at all.
      await from.connection.readState()
    }
    const { bytesIn } = await from.connection.readState()
    assert.ok(bytesIn < 500_000, `${bytesIn} bytes were read that no one consumes`)
    from.peer.sendLast()
    to.peer.socket.resume()
    await to.peer.over()
    assert.equal(to.peer.digest(), digestOf(first, ...pieces))
  })

  test('works both ways at once', { timeout: 120_000 }, async (t) => {
    const transport = await open(t)
    const { from, to } = await pair(t, transport)
    await from.connection.pumpTo(to.connection)
    await to.connection.pumpTo(from.connection)
    const [up, down] = [noise(20_000_001), noise(15_000_001)]
    for (const { peer } of [from, to]) peer.keepsBytes = false
    from.peer.sendLast(up)
    to.peer.sendLast(down)
    await Promise.all([from.peer.over(), to.peer.over()])
    assert.deepEqual([to.peer.digest(), from.peer.digest()], [digestOf(up), digestOf(down)])
    await until(() => from.connection.isClosed && to.connection.isClosed)
    assert.deepEqual([from.connection.closedTimes, to.connection.closedTimes], [1, 1])
    assert.deepEqual([from.connection.error, to.connection.error], [undefined, undefined])
  })

  test('sends queued bytes of the other side first', { timeout: 120_000 }, async (t) => {
    const transport = await open(t)
    const { from, to } = await pair(t, transport)
    to.peer.socket.pause()
    to.peer.keepsBytes = false
    const [first, second] = [noise(TOO_MUCH), noise(3_000_000)]
    assert.equal(await to.connection.write(first), false)
    await from.connection.perform('pause')
    from.peer.sendLast(second)
    await from.connection.pumpTo(to.connection)
    to.peer.socket.resume()
    await to.peer.over()
    assert.equal(to.peer.digest(), digestOf(first, second))
    assert.equal(to.connection.drainedTimes, 0)
  })

  test('sends bytes that arrived earlier on a paused connection', async (t) => {
    const transport = await open(t)
    const { from, to } = await pair(t, transport)
    await from.connection.perform('pause')
    from.peer.send('before ')
    await until(() => from.peer.socket.writableLength === 0)
    await from.connection.readState()
    await from.connection.pumpTo(to.connection)
    from.peer.sendLast('behind')
    assert.equal(await to.peer.over(), 'before behind')
  })

  test('drops urgent data and passes what was sent after it', needs('kernel'), async (t) => {
    const transport = await open(t)
    const to = await connect(t, transport)
    for (const count of [1, 2]) {
      const { port } = await transport.listen(HERE, 'pause')
      const sender = openUrgentSender(t, port)
      await sender.send(Buffer.from('before '))
      await sender.send(Buffer.from('!'), MSG_OOB)
      await sender.send(Buffer.from('behind'))
      const connection = await transport.acceptedConnection(count)
      if (count === 1) {
        await connection.perform('resume')
        await until(() => connection.text === 'before behind')
      } else {
        await connection.pumpTo(to.connection)
        assert.equal(await to.peer.says('behind'), 'before behind')
      }
    }
  })

  test('loses no other bytes when urgent data is within bulk, in either direction', needs('kernel'), async (t) => {
    const transport = await open(t)
    const all = noise(1_200_000)
    const dice = repeatableRandom(t)
    const run = async (isUp: boolean): Promise<void> => {
      const { sender, receiver } = await (isUp
        ? sendThroughRelayAsClient(t, transport)
        : sendThroughRelayAsServer(t, transport))
      receiver.keepsBytes = false
      const first = all.subarray(0, dice.between(100_000, 900_000))
      const last = all.subarray(0, dice.between(1_000, 300_000))
      await sender.send(first)
      await sender.send(Buffer.from('!'), MSG_OOB)
      await sender.send(last)
      sender.end()
      await receiver.over()
      assert.equal(receiver.received, first.length + last.length)
      assert.equal(receiver.digest(), digestOf(first, last))
      receiver.sendLast()
    }
    for (let round = 0; round < URGENT_RUNS / 20; round++)
      await Promise.all(Array.from({ length: 20 }, (_, at) => run(at % 2 === 0)))
  })

  test('ends at once if the connection has already ended', async (t) => {
    const transport = await open(t)
    const { from, to } = await pair(t, transport)
    from.peer.sendLast('all I have to say')
    await until(() => from.connection.endedTimes === 1)
    await to.connection.write(from.connection.text)
    await from.connection.pumpTo(to.connection)
    assert.equal(await to.peer.over(), 'all I have to say')
    to.peer.send('the other way is open')
    await until(() => to.connection.text === 'the other way is open')
  })

  test('passes the end of one side while the other goes on', async (t) => {
    const transport = await open(t)
    const { from, to } = await pair(t, transport)
    await from.connection.pumpTo(to.connection)
    await to.connection.pumpTo(from.connection)
    from.peer.sendLast('question')
    assert.equal(await to.peer.over(), 'question')
    for (const part of ['an ', 'answer ', 'in parts']) {
      to.peer.send(part)
      await from.peer.says(part)
    }
    to.peer.sendLast()
    assert.equal(await from.peer.over(), 'an answer in parts')
    await until(() => from.connection.isClosed && to.connection.isClosed)
  })

  test('reports a reset to the owner at any time', async (t) => {
    const transport = await open(t)
    const { from, to } = await pair(t, transport)
    await from.connection.pumpTo(to.connection)
    await to.connection.pumpTo(from.connection)
    to.peer.socket.pause()
    from.peer.send(noise(TOO_MUCH))
    await untilStill(async () => (await from.connection.readState()).bytesIn)
    to.peer.socket.resetAndDestroy()
    await until(() => to.connection.isClosed)
    assert.match(to.connection.error ?? '', /^(ECONNRESET|EPIPE)$/)
    await from.connection.perform('reset')
    await from.peer.closed()
    assert.deepEqual([from.connection.closedTimes, to.connection.closedTimes], [0, 1])
  })
}

const MSG_OOB = 1
const URGENT_RUNS = 200

/** A socket on system calls, because Node cannot send urgent data. */
class UrgentSender {
  readonly #kernel: Kernel
  readonly #fd: number

  constructor(t: TestContext, kernel: Kernel, fd: number) {
    assert.ok(fd >= 0)
    this.#kernel = kernel
    this.#fd = fd
    t.after(() => void kernel.close(fd))
  }

  /** Never blocks, because the reader may be in this thread. */
  async send(bytes: Uint8Array, flags = 0): Promise<void> {
    const kernel = this.#kernel
    for (let sent = 0; sent < bytes.length; ) {
      const rest = bytes.subarray(sent)
      const count = kernel.send(this.#fd, kernel.pointerTo(rest), rest.length, flags | MSG_DONTWAIT | MSG_NOSIGNAL)
      if (count > 0) sent += count
      else await new Promise((go) => setImmediate(go))
    }
  }

  end(): void {
    this.#kernel.shutdown(this.#fd, SHUT_WR)
  }
}

function callKernel(): Kernel {
  return openKernel() ?? assert.fail('this Node cannot call the kernel')
}

function openUrgentSender(t: TestContext, port: number): UrgentSender {
  const kernel = callKernel()
  const address = Buffer.alloc(ADDRESS_BYTES)
  const { family, length } = writeAddress(address, { address: HERE, port })
  const fd = kernel.socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)
  const sender = new UrgentSender(t, kernel, fd)
  assert.equal(kernel.connect(fd, kernel.pointerTo(address), length), 0)
  return sender
}

interface RelayedPair {
  readonly sender: UrgentSender
  readonly receiver: Peer
}

/** Through a relay, to the server. */
async function sendThroughRelayAsClient(t: TestContext, transport: ScriptedTransport): Promise<RelayedPair> {
  const server = await openPeerServer(t)
  const { port } = await transport.listen(HERE, at(HERE, server.port))
  const sender = openUrgentSender(t, port)
  return { sender, receiver: await server.peer() }
}

/** Through a relay, to the client. */
async function sendThroughRelayAsServer(t: TestContext, transport: ScriptedTransport): Promise<RelayedPair> {
  const kernel = callKernel()
  const address = Buffer.alloc(ADDRESS_BYTES)
  const { family, length } = writeAddress(address, at(HERE, 0))
  const fd = kernel.socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)
  t.after(() => void kernel.close(fd))
  const size = Buffer.alloc(4)
  size.writeInt32LE(ADDRESS_BYTES)
  const [addressAt, sizeAt] = [kernel.pointerTo(address), kernel.pointerTo(size)]
  assert.equal(kernel.bind(fd, addressAt, length), 0)
  assert.equal(kernel.listen(fd, 1), 0)
  assert.equal(kernel.getsockname(fd, addressAt, sizeAt), 0)
  const { port } = await transport.listen(HERE, at(HERE, readAddress(address).port))
  const receiver = await connectPeer(t, port)
  let taken = -1
  await until(() => {
    taken = kernel.accept4(fd, addressAt, sizeAt, SOCK_CLOEXEC)
    return taken >= 0
  })
  return { sender: new UrgentSender(t, kernel, taken), receiver }
}

function starvedContract(open: OpenTransport): void {
  test('an attempt to connect fails, and the next one succeeds later', async (t) => {
    const transport = await open(t)
    const server = await openPeerServer(t, { serve: echo })
    const restore = leaveOpenFiles(0)
    t.after(restore)
    const connection = await transport.connect(at(HERE, server.port))
    await until(() => connection.isClosed)
    restore()
    assert.equal(connection.error, 'EMFILE')
    const next = await transport.connect(at(HERE, server.port), { data: 'hello' })
    await until(() => next.text === 'hello')
  })

  test('nothing is accepted until files are available again', async (t) => {
    const transport = await open(t)
    const origin = await openPeerServer(t, { serve: echo })
    const { port } = await transport.listen(HERE, at(HERE, origin.port))
    const restore = leaveOpenFiles(1)
    t.after(restore)
    const starved = await connectPeer(t, port)
    // epoll lets it wait, Node closes it: it must not hang, and nothing else may suffer.
    await until(() => transport.starvedTimes > 0 || starved.isClosed || starved.hasEnded)
    restore()
    const later = await connectPeer(t, port)
    later.send('hello')
    await later.has(5)
    assert.equal(later.text, 'hello')
    assert.ok(transport.starvedTimes <= 1)
    if (transport.starvedTimes > 0) {
      starved.send('me too')
      assert.equal(await starved.says('me too'), 'me too')
    }
  })

  test('bytes are copied if no pipe can be opened', { timeout: 120_000 }, async (t) => {
    const transport = await open(t)
    const { from, to } = await pair(t, transport)
    to.peer.keepsBytes = false
    await from.connection.pumpTo(to.connection)
    const restore = leaveOpenFiles(0)
    t.after(restore)
    const all = noise(10_000_000)
    from.peer.sendLast(all)
    await to.peer.over()
    restore()
    assert.equal(to.peer.digest(), digestOf(all))
  })
}

function timersContract(open: OpenTransport): void {
  test('each fires once and not early, and a cancelled one never', async (t) => {
    const transport = await open(t)
    const asked = [120, 40, 80, 1, 0]
    await transport.after(30_000, 'cancelled')
    for (const ms of asked) await transport.after(ms, `${ms}`)
    await transport.cancel('cancelled')
    await until(() => transport.firedTimers.length >= asked.length)
    await transport.cancel('40')
    assert.deepEqual(transport.firedTimers.map(({ name }) => Number(name)).sort(), asked.sort())
    for (const { name, ms } of transport.firedTimers) assert.ok(ms >= Number(name) - 1, `${name} rang after ${ms} ms`)
  })
}
