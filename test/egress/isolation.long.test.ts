// A crowd of clients and servers that pour, stall and break off at any moment, through memory, pipes and descriptors that
// are used again and again: each of them reads what was said to it, byte for byte, and nothing else.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { Agent, createServer as createHttpServer, type IncomingMessage, request } from 'node:http'
import { connect, Socket } from 'node:net'
import type { Readable, Writable } from 'node:stream'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { clientHello, record } from '../support/client-hello.ts'
import { openFileCount } from '../support/open-files.ts'
import { portOf } from '../support/raw-socket.ts'
import { type RepeatableRandom, repeatableRandom } from '../support/repeatable-random.ts'
import { until } from '../support/until.ts'
import { ALLOWED, connectRequest, IOS, openLab, openTcpServer } from './lab.ts'

const LONG = { timeout: 15 * 60_000 }
const HOME = '127.0.0.1'
const LIVES = 1000
const AT_ONCE = 48
/** The largest are more than any one call moves; small ones share a turn with many others. */
const SIZES = [0, 100, 5000, 70_000, 300_000, 3_000_000]
/** More than the kernel keeps for whoever does not read for a while. */
const STALL_BYTES = 14_000_000
const STALL_MS = 300
/** What follows a hello is encrypted, in records of this size. */
const SECRET_BYTES = 16_384

for (const io of IOS) {
  test(
    `tunnels and requests with ${io} that abort, stall and pour at once never read a stranger’s bytes`,
    LONG,
    async (t) => {
      const world: World = { dice: repeatableRandom(t), lives: new Map(), faults: [], heard: 0 }
      const lab = await openLab(t, { io })
      const [tunnels, web] = [await openTunnelServer(t, world), await openWebServer(t, world)]
      const agent = new Agent({ keepAlive: true })
      t.after(() => agent.destroy())
      const quiet = openFileCount()
      const ends = { whole: 0, cut: 0 }
      const work = async (): Promise<void> => {
        while (world.lives.size < LIVES) {
          const life = beginLife(world)
          const isWeb = world.dice.below(4) === 0
          const isWhole = isWeb
            ? await liveByRequest(world, life, { agent, proxy: lab.port, port: web })
            : await liveByTunnel(world, life, lab.port, tunnels)
          ends[isWhole ? 'whole' : 'cut']++
          // The connection of a request may have been that of one that was cut.
          if (!isWhole && !isWeb && life.cutBy === undefined) world.faults.push(`${life.id} was cut by nobody`)
        }
      }
      await Promise.all(Array.from({ length: AT_ONCE }, work))
      agent.destroy()
      t.diagnostic(`${JSON.stringify(ends)}, ${world.heard} bytes`)
      assert.deepEqual(world.faults, [])
      assert.ok(ends.whole > LIVES / 4 && ends.cut > LIVES / 10, JSON.stringify(ends))
      await until(async () => (await lab.proxy.snapshot()).connections === 0)
      // Pipes that are kept for the next tunnels.
      await until(() => openFileCount() <= quiet + 2 * 64)
    },
  )
}

interface World {
  readonly dice: RepeatableRandom
  readonly lives: Map<string, Life>
  /** What nobody should ever have read. */
  readonly faults: string[]
  heard: number
}

/** One conversation. */
interface Life {
  /** The first thing that is said in it. */
  readonly id: string
  readonly up: Stream
  readonly down: Stream
  readonly cutBy: 'client' | 'server' | undefined
  readonly cutAt: number
  readonly stalls: boolean
}

/** Bytes that no other has. */
class Stream {
  readonly first: Buffer
  readonly length: number
  readonly #block: Buffer

  constructor(first: Buffer, length: number, block: Buffer = randomBytes(65_537)) {
    this.first = first
    this.length = first.length + length
    this.#block = block
  }

  /** At most so many, from a place on. */
  slice(at: number, most: number): Buffer {
    if (at < this.first.length) return this.first.subarray(at, at + most)
    const from = (at - this.first.length) % this.#block.length
    return this.#block.subarray(from, from + Math.min(most, this.length - at))
  }

  /** Whether these are what stands there. */
  holds(bytes: Buffer, start: number): boolean {
    for (let at = 0; at < bytes.length; ) {
      const part = this.slice(start + at, bytes.length - at)
      if (part.length === 0 || !part.equals(bytes.subarray(at, at + part.length))) return false
      at += part.length
    }
    return true
  }
}

function beginLife({ dice, lives }: World): Life {
  const stalls = dice.below(16) === 0
  const size = (): number => {
    const most = stalls ? STALL_BYTES : (SIZES[dice.below(SIZES.length)] ?? 0)
    return most - dice.below(Math.floor(most / 4) + 1)
  }
  const id = `life-${`${lives.size}`.padStart(6, '0')}`
  const hello = clientHello({ sni: `${id}.${ALLOWED}`, sizeBytes: 600 + dice.below(9000) })
  const isTls = dice.below(3) === 0
  const up = isTls ? new Stream(hello, size(), secretRecords()) : new Stream(Buffer.from(`${id}\n`), size())
  const down = new Stream(Buffer.alloc(0), size())
  const cutBy = ([undefined, undefined, 'client', 'server'] as const)[dice.below(4)]
  const life: Life = { id, up, down, cutBy, cutAt: dice.below(stalls ? 2 * STALL_BYTES : 200_000), stalls }
  lives.set(id, life)
  return life
}

function secretRecords(): Buffer {
  return Buffer.concat(
    Array.from({ length: 4 }, () => record(randomBytes(SECRET_BYTES), { type: 23, version: 0x0303 })),
  )
}

function findLife({ lives }: World, bytes: Buffer): Life | undefined {
  const [id] = /life-\d{6}/.exec(bytes.toString('latin1', 0, 20_000)) ?? []
  return id === undefined ? undefined : lives.get(id)
}

/** Says all of it, in pieces, and then the end; or breaks off somewhere. Whether it was all. */
async function pour(world: World, out: Writable, life: Life, side: 'client' | 'server', start = 0): Promise<boolean> {
  const stream = side === 'client' ? life.up : life.down
  const end = life.cutBy === side ? Math.min(life.cutAt, stream.length) : stream.length
  for (let at = start; at < end; ) {
    const piece = stream.slice(at, Math.min(end - at, 1 + world.dice.below(200_000)))
    at += piece.length
    if (out.destroyed) return false
    if (!out.write(piece)) await hasRoom(out)
  }
  if (life.cutBy === side) {
    if (out instanceof Socket && world.dice.below(2) === 0) out.resetAndDestroy()
    else out.destroy()
    return false
  }
  out.end()
  return true
}

/** Or is gone. */
function hasRoom(out: Writable): Promise<void> {
  return new Promise((done) => {
    const go = (): void => {
      out.off('drain', go).off('close', go)
      done()
    }
    if (out.destroyed) done()
    else out.on('drain', go).on('close', go)
  })
}

/** Reads and compares; told where it has come to. */
function compare(world: World, from: Readable, stream: Stream, who: string, start?: Buffer): { at: number } {
  const state = { at: 0 }
  const take = (bytes: Buffer): void => {
    world.heard += bytes.length
    if (!stream.holds(bytes, state.at)) world.faults.push(`${who} read something else from ${state.at} on`)
    state.at += bytes.length
  }
  if (start) take(start)
  from.on('data', take)
  from.resume()
  return state
}

async function openTunnelServer(t: TestContext, world: World): Promise<number> {
  return openTcpServer(t, (socket) => {
    let start = Buffer.alloc(0)
    const find = (bytes: Buffer): void => {
      start = Buffer.concat([start, bytes])
      const life = findLife(world, start)
      if (!life) {
        if (start.length > 20_000) world.faults.push(`nobody says ${start.toString('latin1', 0, 40)}`)
        return
      }
      socket.off('data', find)
      compare(world, socket, life.up, `the server of ${life.id}`, start)
      void stall(socket, life)
      void pour(world, socket, life, 'server')
    }
    socket.on('data', find)
    // Cut before it has said who it is.
    socket.on('end', () => findLife(world, start) ?? socket.end())
  })
}

async function stall(stream: Readable, { stalls }: Life): Promise<void> {
  if (!stalls) return
  stream.pause()
  await pause(STALL_MS)
  stream.resume()
}

/** Whether it was whole: everything that was said down was heard. */
async function liveByTunnel(world: World, life: Life, proxy: number, port: number): Promise<boolean> {
  const { dice } = world
  const socket = connect({ port: proxy, host: HOME, allowHalfOpen: true, noDelay: true }).on('error', () => {})
  const closed = new Promise((done) => socket.on('close', done))
  const early = dice.below(2) === 0 ? life.up.slice(0, 1 + dice.below(400)) : Buffer.alloc(0)
  const head = Buffer.concat([Buffer.from(connectRequest(port)), early])
  // In pieces, between which others are served.
  for (let at = 0; at < head.length; ) {
    const end = at + 1 + dice.below(head.length)
    socket.write(head.subarray(at, end))
    at = end
    await new Promise((go) => setImmediate(go))
  }
  const answer = await readAnswer(socket)
  if (!answer) {
    world.faults.push(`${life.id} was not answered`)
    socket.destroy()
    return false
  }
  const state = compare(world, socket, life.down, `the client of ${life.id}`, answer)
  void stall(socket, life)
  const isSaid = await pour(world, socket, life, 'client', early.length)
  await closed
  return isSaid && state.at === life.down.length
}

/** What came behind the head, once it is there; nothing for another answer than yes. */
function readAnswer(socket: Socket): Promise<Buffer | undefined> {
  let bytes = Buffer.alloc(0)
  return new Promise((done) => {
    const take = (piece: Buffer): void => {
      bytes = Buffer.concat([bytes, piece])
      const end = bytes.indexOf('\r\n\r\n') + 4
      if (end < 4) return
      socket.off('data', take)
      socket.pause()
      done(bytes.toString('latin1', 0, 13) === 'HTTP/1.1 200 ' ? bytes.subarray(end) : undefined)
    }
    socket.on('data', take)
    socket.on('close', () => done(undefined))
  })
}

async function openWebServer(t: TestContext, world: World): Promise<number> {
  const server = createHttpServer(async (asked, answer) => {
    answer.on('error', () => {})
    const life = world.lives.get(asked.url?.slice(1) ?? '')
    if (!life || asked.headers['x-life'] !== life.id) {
      world.faults.push(`nobody asks for ${asked.url}`)
      return void answer.destroy()
    }
    compare(world, asked, life.up, `the server of ${life.id}`)
    void stall(asked, life)
    await Promise.race([once(asked, 'end'), once(asked, 'close')]).catch(() => {})
    if (world.dice.below(2) === 0) answer.setHeader('Content-Length', life.down.length)
    answer.setHeader('X-Life', life.id)
    if (!answer.destroyed) await pour(world, answer, life, 'server')
  })
  server.on('clientError', (_, socket) => socket.destroy())
  server.listen(0, HOME)
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return portOf(server)
}

interface Way {
  readonly agent: Agent
  readonly proxy: number
  readonly port: number
}

/** By a request of its own, on a connection that others have used. */
async function liveByRequest(world: World, life: Life, { agent, proxy, port }: Way): Promise<boolean> {
  const path = `http://${ALLOWED}:${port}/${life.id}`
  const headers = { Host: `${ALLOWED}:${port}`, 'X-Life': life.id }
  const asked = request({ host: HOME, port: proxy, agent, method: 'POST', path, headers })
  const answered = new Promise<IncomingMessage | undefined>((done) => {
    asked.on('response', done)
    asked.on('error', () => done(undefined))
    asked.on('close', () => done(undefined))
  })
  const isSaid = await pour(world, asked, life, 'client')
  const answer = await answered
  if (!answer) return false
  if (answer.statusCode === 200 && answer.headers['x-life'] !== life.id)
    world.faults.push(`${life.id} was answered in the name of ${answer.headers['x-life']}`)
  const stream = answer.statusCode === 200 ? life.down : undefined
  const state = stream ? compare(world, answer, stream, `the client of ${life.id}`) : { at: -1 }
  answer.on('error', () => {})
  void stall(answer, life)
  if (!stream) answer.resume()
  await new Promise((done) => answer.on('close', done))
  return isSaid && answer.complete && state.at === life.down.length
}
