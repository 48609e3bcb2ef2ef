// What both makes of wires must do: the same bytes in the same order, the end of each side, and everything told once.
import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { chance } from '../../../test/support/chance.ts'
import { needs } from '../../../test/support/needs.ts'
import { leaveOpenFiles, openFileCount } from '../../../test/support/open-files.ts'
import type { Puppet, PuppetWire } from '../../../test/support/puppet.ts'
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
import { until } from '../../../test/support/until.ts'
import type { Endpoint } from '../wire.ts'
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

export type OpenPuppet = (t: TestContext) => Promise<Puppet>

const HERE = '127.0.0.1'
/** More than the kernel keeps for two sockets and a pipe between them, whatever it was told. */
const TOO_MUCH = 48 * 1024 * 1024

export function wiresContract(open: OpenPuppet): void {
  suite('one wire', () => wireContract(open))
  suite('the end of a wire', () => endContract(open))
  suite('connecting and listening', () => placesContract(open))
  suite('a pump', () => pumpContract(open))
  suite('when no more files can be opened', () => starvedContract(open))
  suite('timers', () => timersContract(open))
}

/** A wire that was accepted, and who connected. */
async function accept(t: TestContext, puppet: Puppet): Promise<{ wire: PuppetWire; peer: Peer }> {
  const count = puppet.accepted.length
  const { port } = await puppet.listen(HERE)
  const peer = await connectPeer(t, port)
  return { wire: await puppet.acceptedWire(count + 1), peer }
}

/** A wire that connected, and where to. */
async function connect(t: TestContext, puppet: Puppet): Promise<{ wire: PuppetWire; peer: Peer }> {
  const server = await openPeerServer(t)
  const wire = await puppet.connect({ address: HERE, port: server.port })
  const peer = await server.peer()
  await until(() => wire.isConnected)
  return { wire, peer }
}

const BOTH = [accept, connect] as const

function wireContract(open: OpenPuppet): void {
  for (const make of BOTH) {
    test(`bytes pass both ways and in order, on a wire by ${make.name}`, async (t) => {
      const { wire, peer } = await make(t, await open(t))
      const [up, down] = [noise(3_000_001), noise(2_000_003)]
      peer.send(up)
      const pieces = [down.subarray(0, 1), down.subarray(1, 70_000), down.subarray(70_000)]
      const room: boolean[] = []
      for (const piece of pieces) room.push(await wire.write(piece))
      assert.equal(room[0], true)
      await until(() => wire.pieces.reduce((sum, piece) => sum + piece.length, 0) >= up.length)
      await peer.has(down.length)
      assert.equal(digestOf(wire.bytes), digestOf(up))
      assert.equal(peer.digest(), digestOf(down))
      const { bytesIn, bytesOut, hasEnded } = await wire.facts()
      assert.deepEqual({ bytesIn, bytesOut, hasEnded }, { bytesIn: up.length, bytesOut: down.length, hasEnded: false })
    })
  }

  test('of a client little is read at once, however much it has sent', async (t) => {
    const puppet = await open(t)
    const { port } = await puppet.listen(HERE, 'hold')
    const peer = await connectPeer(t, port)
    const wire = await puppet.acceptedWire()
    const all = noise(1_000_000)
    peer.send(all)
    await untilStill(() => peer.socket.writableLength)
    await wire.do('resume')
    await until(() => wire.pieces.reduce((sum, piece) => sum + piece.length, 0) >= all.length)
    assert.equal(digestOf(wire.bytes), digestOf(all))
    assert.ok(Math.max(...wire.pieces.map(({ length }) => length)) <= 65_536)
  })

  test('what is written is the caller’s to change at once', async (t) => {
    const { wire, peer } = await accept(t, await open(t))
    peer.socket.pause()
    const block = Buffer.alloc(1_048_576, 'a')
    while (await wire.write(block)) block.fill('a')
    const held = Buffer.alloc(1_048_576, 'b')
    assert.equal(await wire.write(held), false)
    held.fill('c')
    peer.socket.resume()
    await until(() => peer.pieces.at(-1)?.at(-1) === 0x62)
    assert.doesNotMatch(peer.text.slice(-held.length), /c/)
  })

  test('a paused wire tells nothing until it is resumed', async (t) => {
    const { wire, peer } = await accept(t, await open(t))
    await wire.do('pause')
    peer.send('one ')
    await wire.facts()
    peer.send('two')
    await until(() => peer.socket.writableLength === 0)
    await wire.facts()
    assert.equal(wire.text, '')
    await wire.do('resume')
    await until(() => wire.text === 'one two')
  })

  test('a wire that is paused before its first byte loses none', async (t) => {
    const puppet = await open(t)
    const { port } = await puppet.listen(HERE, 'hold')
    const peer = await connectPeer(t, port)
    peer.sendLast('early')
    const wire = await puppet.acceptedWire()
    await wire.facts()
    assert.equal(wire.text, '')
    await wire.do('resume')
    await until(() => wire.endedTimes === 1)
    assert.equal(wire.text, 'early')
  })

  test('a reader that stops makes write say so, and it is told once when there is room again', async (t) => {
    const { wire, peer } = await accept(t, await open(t))
    peer.socket.pause()
    const block = noise(1_048_576)
    let blocks = 1
    for (; await wire.write(block); blocks++) assert.ok(blocks < 64, 'nothing ever waits')
    assert.equal(wire.drainedTimes, 0)
    assert.ok((await wire.facts()).unsent > 0)
    peer.socket.resume()
    await until(() => wire.drainedTimes === 1)
    // What the kernel still holds of it leaves less room.
    await peer.has(blocks * block.length)
    assert.equal(await wire.write(block), true)
    blocks++
    await peer.has(blocks * block.length)
    assert.equal(peer.digest(), digestOf(...Array.from({ length: blocks }, () => block)))
    assert.equal(wire.drainedTimes, 1)
    await until(async () => (await wire.facts()).unsent === 0)
  })

  test('what is written before a connection is there goes when it is, its end too', async (t) => {
    const puppet = await open(t)
    const server = await openPeerServer(t)
    const wire = await puppet.connect({ address: HERE, port: server.port }, { first: 'too early', ends: true })
    const peer = await server.peer()
    assert.equal(await peer.over(), 'too early')
    peer.sendLast('late')
    await until(() => wire.isClosed)
    assert.equal(wire.text, 'late')
  })

  test('ends are known by their addresses', async (t) => {
    const puppet = await open(t)
    const { wire, peer } = await accept(t, puppet)
    const { localPort = 0, remotePort = 0 } = peer.socket
    const { remote, local } = await wire.facts()
    assert.deepEqual([remote, local], [at(HERE, localPort), at(HERE, remotePort)])
    const other = await connect(t, puppet)
    const facts = await other.wire.facts()
    assert.deepEqual(facts.local, at(HERE, other.peer.socket.remotePort ?? 0))
    assert.deepEqual(facts.remote, at(HERE, other.peer.socket.localPort ?? 0))
  })
}

function at(address: string, port: number): Endpoint {
  return { address, port }
}

function endContract(open: OpenPuppet): void {
  for (const make of BOTH) {
    test(`who has ended may still be written to, on a wire by ${make.name}`, async (t) => {
      const { wire, peer } = await make(t, await open(t))
      peer.sendLast('question')
      await until(() => wire.endedTimes === 1)
      assert.equal(wire.text, 'question')
      assert.equal((await wire.facts()).hasEnded, true)
      assert.equal(wire.closedTimes, 0)
      await wire.write('answer')
      await wire.do('end')
      assert.equal(await peer.over(), 'answer')
      await until(() => wire.isClosed)
      assert.deepEqual([wire.endedTimes, wire.closedTimes, wire.error], [1, 1, undefined])
    })

    test(`whoever ends may still be told, on a wire by ${make.name}`, async (t) => {
      const { wire, peer } = await make(t, await open(t))
      await wire.write('last')
      await wire.do('end')
      await wire.do('end')
      assert.equal(await peer.over(), 'last')
      peer.send('and yet')
      await until(() => wire.text === 'and yet')
      assert.equal(wire.closedTimes, 0)
      peer.sendLast()
      await until(() => wire.isClosed)
      await peer.closed()
      assert.deepEqual([wire.endedTimes, wire.closedTimes, wire.error], [1, 1, undefined])
    })

    test(`a reset by the other side is told as one, once, on a wire by ${make.name}`, async (t) => {
      const { wire, peer } = await make(t, await open(t))
      peer.socket.resetAndDestroy()
      await until(() => wire.isClosed)
      assert.deepEqual([wire.endedTimes, wire.closedTimes, wire.error], [0, 1, 'ECONNRESET'])
    })

    test(`reset is a reset to the other side and not told, on a wire by ${make.name}`, async (t) => {
      const { wire, peer } = await make(t, await open(t))
      await wire.do('reset')
      await peer.closed()
      assert.equal(peer.error, 'ECONNRESET')
      for (const kind of ['reset', 'close', 'end', 'resume'] as const) await wire.do(kind)
      assert.equal(await wire.write('nobody reads this'), true)
      assert.equal(wire.closedTimes, 0)
    })

    test(`close is an end to the other side and not told, on a wire by ${make.name}`, async (t) => {
      const { wire, peer } = await make(t, await open(t))
      await wire.do('close')
      await peer.over()
      assert.deepEqual([peer.error, wire.closedTimes], [undefined, 0])
    })
  }

  test('all that waits is sent before the end', async (t) => {
    const { wire, peer } = await accept(t, await open(t))
    peer.socket.pause()
    const all = noise(TOO_MUCH)
    assert.equal(await wire.write(all), false)
    await wire.do('end')
    peer.keepsBytes = false
    peer.socket.resume()
    await peer.over()
    assert.equal(peer.digest(), digestOf(all))
    assert.equal(wire.drainedTimes, 0)
  })

  test('a reset reaches whoever waits to write, and whoever is paused', async (t) => {
    const puppet = await open(t)
    const blocked = await accept(t, puppet)
    blocked.peer.socket.pause()
    await blocked.wire.write(noise(TOO_MUCH))
    const paused = await connect(t, puppet)
    await paused.wire.do('pause')
    for (const { peer } of [blocked, paused]) peer.socket.resetAndDestroy()
    await until(() => blocked.wire.isClosed)
    assert.match(blocked.wire.error ?? '', /^(ECONNRESET|EPIPE)$/)
    // Who is paused hears of it now, or when he listens again.
    await paused.wire.do('resume')
    await until(() => paused.wire.isClosed)
    assert.equal(paused.wire.closedTimes, 1)
  })
}

function placesContract(open: OpenPuppet): void {
  test('a port on which nobody listens refuses', async (t) => {
    const wire = await (await open(t)).connect(at(HERE, await unusedPort(t)))
    await until(() => wire.isClosed)
    assert.deepEqual([wire.isConnected, wire.closedTimes, wire.error], [false, 1, 'ECONNREFUSED'])
  })

  test('an address to which there is no way is unreachable, and is told later and not within the call', async (t) => {
    const wire = await (await open(t)).connect(at('255.255.255.255', 80))
    await until(() => wire.isClosed)
    assert.match(wire.error ?? '', /^(ENETUNREACH|EACCES)$/)
    assert.equal(wire.closedTimes, 1)
  })

  test('who gives up before it is connected is told nothing', async (t) => {
    const puppet = await open(t)
    const server = await openPeerServer(t)
    for (const gives of ['reset', 'close'] as const) {
      const wires = [
        await puppet.connect(at('255.255.255.255', 80), { gives }),
        await puppet.connect(at(HERE, server.port), { gives }),
      ]
      await puppet.after(50, gives)
      await until(() => puppet.rung.some(({ name }) => name === gives))
      for (const { isConnected, closedTimes } of wires) assert.deepEqual([isConnected, closedTimes], [false, 0])
    }
  })

  test('IPv6 is served, and IPv4 on a listener for both families is plain IPv4', async (t) => {
    const puppet = await open(t)
    const six = await puppet.listen('::1')
    assert.equal(six.address, '::1')
    await connectPeer(t, six.port, { host: '::1' })
    const first = await puppet.acceptedWire(1)
    const facts = await first.facts()
    assert.deepEqual([facts.remote.address, facts.local], ['::1', at('::1', six.port)])
    const both = await puppet.listen('::')
    await connectPeer(t, both.port)
    const second = await (await puppet.acceptedWire(2)).facts()
    assert.deepEqual([second.remote.address, second.local], [HERE, at(HERE, both.port)])
    await connectPeer(t, both.port, { host: '::1' })
    assert.equal((await (await puppet.acceptedWire(3)).facts()).remote.address, '::1')
  })

  test('IPv6 is reached, and IPv4 by its mapped spelling', async (t) => {
    const puppet = await open(t)
    const six = await openPeerServer(t, { host: '::1', serve: echo })
    const four = await openPeerServer(t, { serve: echo })
    for (const to of [at('::1', six.port), at('::ffff:127.0.0.1', four.port)]) {
      const wire = await puppet.connect(to, { first: 'hello' })
      await until(() => wire.text === 'hello')
    }
  })

  test('a listener that is closed accepts nobody, and lets those live who came', async (t) => {
    const puppet = await open(t)
    const bound = await puppet.listen(HERE)
    const peer = await connectPeer(t, bound.port)
    const wire = await puppet.acceptedWire()
    await puppet.unlisten(bound)
    await assert.rejects(connectPeer(t, bound.port), { code: 'ECONNREFUSED' })
    peer.send('still here')
    await until(() => wire.text === 'still here')
    await puppet.unlisten(bound)
  })

  test('an address that is not ours, or taken, is refused with the name of the error', async (t) => {
    const puppet = await open(t)
    await assert.rejects(puppet.listen('192.0.2.1'), /EADDRNOTAVAIL/)
    await puppet.listen(HERE)
  })

  test('two thousand short connections leave nothing open', { timeout: 120_000 }, async (t) => {
    const puppet = await open(t)
    const origin = await openPeerServer(t, { serve: echo })
    const { port } = await puppet.listen(HERE, at(HERE, origin.port))
    const before = openFileCount()
    const ask = async (number: number): Promise<void> => {
      const peer = await connectPeer(SOON, port)
      // Each third leaves without a word.
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
    assert.deepEqual(puppet.faults, [])
  })
}

/** For what closes by itself long before the test ends. */
const SOON = { after: (): void => {} }

/** Two wires with somebody at each end. */
async function pair(t: TestContext, puppet: Puppet) {
  const from = await accept(t, puppet)
  const to = await connect(t, puppet)
  return { from, to }
}

function pumpContract(open: OpenPuppet): void {
  test('bursts of every size pass whole, through a copy and through a pipe in turn', {
    timeout: 120_000,
  }, async (t) => {
    const puppet = await open(t)
    const { from, to } = await pair(t, puppet)
    await from.wire.pumpTo(to.wire)
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
    const [one, other] = [await from.wire.facts(), await to.wire.facts()]
    assert.deepEqual([one.bytesIn, other.bytesOut], [sent, sent])
    assert.deepEqual([from.wire.pieces.length, from.wire.endedTimes, to.wire.drainedTimes], [0, 0, 0])
  })

  test('a slow reader holds the sender back, and gets every byte', { timeout: 120_000 }, async (t) => {
    const puppet = await open(t)
    const { from, to } = await pair(t, puppet)
    await from.wire.pumpTo(to.wire)
    to.peer.keepsBytes = false
    to.peer.socket.pause()
    const all = noise(TOO_MUCH)
    from.peer.sendLast(all)
    const moved = await untilStill(async () => (await from.wire.facts()).bytesIn)
    assert.ok(moved < TOO_MUCH / 2, `${moved} bytes were taken that nobody reads`)
    const slowly = setInterval(() => (to.peer.socket.isPaused() ? to.peer.socket.resume() : to.peer.socket.pause()), 2)
    t.after(() => clearInterval(slowly))
    await to.peer.over()
    assert.equal(to.peer.digest(), digestOf(all))
  })

  test('a slow reader holds back who sends in small pieces, too', { timeout: 120_000 }, async (t) => {
    const puppet = await open(t)
    const { from, to } = await pair(t, puppet)
    to.peer.socket.pause()
    to.peer.keepsBytes = false
    const first = noise(TOO_MUCH)
    assert.equal(await to.wire.write(first), false)
    await from.wire.pumpTo(to.wire)
    from.peer.socket.setNoDelay(true)
    const pieces = Array.from({ length: 200 }, () => noise(10_000))
    for (const piece of pieces) {
      from.peer.send(piece)
      // So that the next piece finds the one before taken, if anybody takes it.
      await from.wire.facts()
    }
    const { bytesIn } = await from.wire.facts()
    assert.ok(bytesIn < 500_000, `${bytesIn} bytes were taken that nobody reads`)
    from.peer.sendLast()
    to.peer.socket.resume()
    await to.peer.over()
    assert.equal(to.peer.digest(), digestOf(first, ...pieces))
  })

  test('both ways at once', { timeout: 120_000 }, async (t) => {
    const puppet = await open(t)
    const { from, to } = await pair(t, puppet)
    await from.wire.pumpTo(to.wire)
    await to.wire.pumpTo(from.wire)
    const [up, down] = [noise(20_000_001), noise(15_000_001)]
    for (const { peer } of [from, to]) peer.keepsBytes = false
    from.peer.sendLast(up)
    to.peer.sendLast(down)
    await Promise.all([from.peer.over(), to.peer.over()])
    assert.deepEqual([to.peer.digest(), from.peer.digest()], [digestOf(up), digestOf(down)])
    await until(() => from.wire.isClosed && to.wire.isClosed)
    assert.deepEqual([from.wire.closedTimes, to.wire.closedTimes], [1, 1])
    assert.deepEqual([from.wire.error, to.wire.error], [undefined, undefined])
  })

  test('what waits for the other side goes first', { timeout: 120_000 }, async (t) => {
    const puppet = await open(t)
    const { from, to } = await pair(t, puppet)
    to.peer.socket.pause()
    to.peer.keepsBytes = false
    const [first, second] = [noise(TOO_MUCH), noise(3_000_000)]
    assert.equal(await to.wire.write(first), false)
    await from.wire.do('pause')
    from.peer.sendLast(second)
    await from.wire.pumpTo(to.wire)
    to.peer.socket.resume()
    await to.peer.over()
    assert.equal(to.peer.digest(), digestOf(first, second))
    assert.equal(to.wire.drainedTimes, 0)
  })

  test('what has come before, and waits in a paused wire, goes too', async (t) => {
    const puppet = await open(t)
    const { from, to } = await pair(t, puppet)
    await from.wire.do('pause')
    from.peer.send('before ')
    await until(() => from.peer.socket.writableLength === 0)
    await from.wire.facts()
    await from.wire.pumpTo(to.wire)
    from.peer.sendLast('behind')
    assert.equal(await to.peer.over(), 'before behind')
  })

  test('urgent data stays behind, and what was sent after it does not', needs('kernel'), async (t) => {
    const puppet = await open(t)
    const to = await connect(t, puppet)
    for (const count of [1, 2]) {
      const { port } = await puppet.listen(HERE, 'hold')
      const speaker = openSpeaker(t, port)
      await speaker.send(Buffer.from('before '))
      await speaker.send(Buffer.from('!'), MSG_OOB)
      await speaker.send(Buffer.from('behind'))
      const wire = await puppet.acceptedWire(count)
      if (count === 1) {
        await wire.do('resume')
        await until(() => wire.text === 'before behind')
      } else {
        await wire.pumpTo(to.wire)
        assert.equal(await to.peer.says('behind'), 'before behind')
      }
    }
  })

  test('urgent data within bulk costs none of the other bytes, in either direction', needs('kernel'), async (t) => {
    const puppet = await open(t)
    const all = noise(1_200_000)
    const dice = chance(t)
    const run = async (isUp: boolean): Promise<void> => {
      const { speaker, listener } = await (isUp ? speakAsClient(t, puppet) : speakAsServer(t, puppet))
      listener.keepsBytes = false
      const first = all.subarray(0, dice.between(100_000, 900_000))
      const last = all.subarray(0, dice.between(1_000, 300_000))
      await speaker.send(first)
      await speaker.send(Buffer.from('!'), MSG_OOB)
      await speaker.send(last)
      speaker.end()
      await listener.over()
      assert.equal(listener.received, first.length + last.length)
      assert.equal(listener.digest(), digestOf(first, last))
      listener.sendLast()
    }
    for (let round = 0; round < URGENT_RUNS / 20; round++)
      await Promise.all(Array.from({ length: 20 }, (_, at) => run(at % 2 === 0)))
  })

  test('of a wire that has ended it is the end', async (t) => {
    const puppet = await open(t)
    const { from, to } = await pair(t, puppet)
    from.peer.sendLast('all I have to say')
    await until(() => from.wire.endedTimes === 1)
    await to.wire.write(from.wire.text)
    await from.wire.pumpTo(to.wire)
    assert.equal(await to.peer.over(), 'all I have to say')
    to.peer.send('the other way is open')
    await until(() => to.wire.text === 'the other way is open')
  })

  test('the end of one side passes while the other side goes on', async (t) => {
    const puppet = await open(t)
    const { from, to } = await pair(t, puppet)
    await from.wire.pumpTo(to.wire)
    await to.wire.pumpTo(from.wire)
    from.peer.sendLast('question')
    assert.equal(await to.peer.over(), 'question')
    for (const part of ['an ', 'answer ', 'in parts']) {
      to.peer.send(part)
      await from.peer.says(part)
    }
    to.peer.sendLast()
    assert.equal(await from.peer.over(), 'an answer in parts')
    await until(() => from.wire.isClosed && to.wire.isClosed)
  })

  test('a reset is told to the owner, whatever is on its way', async (t) => {
    const puppet = await open(t)
    const { from, to } = await pair(t, puppet)
    await from.wire.pumpTo(to.wire)
    await to.wire.pumpTo(from.wire)
    to.peer.socket.pause()
    from.peer.send(noise(TOO_MUCH))
    await untilStill(async () => (await from.wire.facts()).bytesIn)
    to.peer.socket.resetAndDestroy()
    await until(() => to.wire.isClosed)
    assert.match(to.wire.error ?? '', /^(ECONNRESET|EPIPE)$/)
    await from.wire.do('reset')
    await from.peer.closed()
    assert.deepEqual([from.wire.closedTimes, to.wire.closedTimes], [0, 1])
  })
}

const MSG_OOB = 1
const URGENT_RUNS = 200

/** A socket of the kernel's own calls, for Node has none to say that something is urgent. */
class Speaker {
  readonly #kernel: Kernel
  readonly #fd: number

  constructor(t: TestContext, kernel: Kernel, fd: number) {
    assert.ok(fd >= 0)
    this.#kernel = kernel
    this.#fd = fd
    t.after(() => void kernel.close(fd))
  }

  /** Never blocks: whoever reads may live in this thread. */
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

function openSpeaker(t: TestContext, port: number): Speaker {
  const kernel = callKernel()
  const address = Buffer.alloc(ADDRESS_BYTES)
  const { family, length } = writeAddress(address, { address: HERE, port })
  const fd = kernel.socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)
  const speaker = new Speaker(t, kernel, fd)
  assert.equal(kernel.connect(fd, kernel.pointerTo(address), length), 0)
  return speaker
}

interface Spoken {
  readonly speaker: Speaker
  readonly listener: Peer
}

/** Through a relay, to the server. */
async function speakAsClient(t: TestContext, puppet: Puppet): Promise<Spoken> {
  const server = await openPeerServer(t)
  const { port } = await puppet.listen(HERE, at(HERE, server.port))
  const speaker = openSpeaker(t, port)
  return { speaker, listener: await server.peer() }
}

/** Through a relay, to the client. */
async function speakAsServer(t: TestContext, puppet: Puppet): Promise<Spoken> {
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
  const { port } = await puppet.listen(HERE, at(HERE, readAddress(address).port))
  const listener = await connectPeer(t, port)
  let taken = -1
  await until(() => {
    taken = kernel.accept4(fd, addressAt, sizeAt, SOCK_CLOEXEC)
    return taken >= 0
  })
  return { speaker: new Speaker(t, kernel, taken), listener }
}

function starvedContract(open: OpenPuppet): void {
  test('a connection cannot be tried, and the next one can', async (t) => {
    const puppet = await open(t)
    const server = await openPeerServer(t, { serve: echo })
    const restore = leaveOpenFiles(0)
    t.after(restore)
    const wire = await puppet.connect(at(HERE, server.port))
    await until(() => wire.isClosed)
    restore()
    assert.equal(wire.error, 'EMFILE')
    const next = await puppet.connect(at(HERE, server.port), { first: 'hello' })
    await until(() => next.text === 'hello')
  })

  test('nobody is accepted, and when there are files again everybody is', async (t) => {
    const puppet = await open(t)
    const origin = await openPeerServer(t, { serve: echo })
    const { port } = await puppet.listen(HERE, at(HERE, origin.port))
    const restore = leaveOpenFiles(1)
    t.after(restore)
    const starved = await connectPeer(t, port)
    // One make lets it wait, the other turns it away: it must not hang for ever, and nothing else may suffer.
    await until(() => puppet.starvedTimes > 0 || starved.isClosed || starved.hasEnded)
    restore()
    const later = await connectPeer(t, port)
    later.send('hello')
    await later.has(5)
    assert.equal(later.text, 'hello')
    assert.ok(puppet.starvedTimes <= 1)
    if (puppet.starvedTimes > 0) {
      starved.send('me too')
      assert.equal(await starved.says('me too'), 'me too')
    }
  })

  test('bytes are copied where there is no pipe for them', { timeout: 120_000 }, async (t) => {
    const puppet = await open(t)
    const { from, to } = await pair(t, puppet)
    to.peer.keepsBytes = false
    await from.wire.pumpTo(to.wire)
    const restore = leaveOpenFiles(0)
    t.after(restore)
    const all = noise(10_000_000)
    from.peer.sendLast(all)
    await to.peer.over()
    restore()
    assert.equal(to.peer.digest(), digestOf(all))
  })
}

function timersContract(open: OpenPuppet): void {
  test('each timer rings once and not too early, and a cancelled one does not', async (t) => {
    const puppet = await open(t)
    const asked = [120, 40, 80, 1, 0]
    await puppet.after(30_000, 'cancelled')
    for (const ms of asked) await puppet.after(ms, `${ms}`)
    await puppet.cancel('cancelled')
    await until(() => puppet.rung.length >= asked.length)
    await puppet.cancel('40')
    assert.deepEqual(puppet.rung.map(({ name }) => Number(name)).sort(), asked.sort())
    for (const { name, ms } of puppet.rung) assert.ok(ms >= Number(name) - 1, `${name} rang after ${ms} ms`)
  })
}
