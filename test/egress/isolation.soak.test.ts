// Many concurrent clients and servers that transfer, stall and abort at any moment, with reused buffers, pipes and
// descriptors: each of them reads exactly the bytes of its own conversation.
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
import { ALLOWED, connectRequest, IO_MODES, openLab, openTcpServer } from './lab.ts'

const LONG = { timeout: 15 * 60_000 }
const HOME = '127.0.0.1'
const CONVERSATIONS = 400
const CONCURRENCY = 48
/** The largest need several calls; many small ones are handled in one event loop turn. */
const SIZES = [0, 100, 5000, 70_000, 300_000, 3_000_000]
/** More than the kernel buffers for a peer that does not read. */
const STALL_BYTES = 14_000_000
const STALL_MS = 300
/** Size of the encrypted records after a hello. */
const RECORD_BYTES = 16_384

for (const io of IO_MODES) {
  test(
    `concurrent tunnels and requests with ${io} that abort and stall never read bytes of others`,
    LONG,
    async (t) => {
      const fixture: Fixture = { random: repeatableRandom(t), conversations: new Map(), faults: [], receivedBytes: 0 }
      const lab = await openLab(t, { io })
      const [tunnels, web] = [await openTunnelServer(t, fixture), await openWebServer(t, fixture)]
      const agent = new Agent({ keepAlive: true })
      t.after(() => agent.destroy())
      const idleFiles = openFileCount()
      const ends = { whole: 0, cut: 0 }
      const work = async (): Promise<void> => {
        while (fixture.conversations.size < CONVERSATIONS) {
          const conversation = startConversation(fixture)
          const isWeb = fixture.random.below(4) === 0
          const isWhole = isWeb
            ? await runRequest(fixture, conversation, { agent, proxy: lab.port, port: web })
            : await runTunnel(fixture, conversation, lab.port, tunnels)
          ends[isWhole ? 'whole' : 'cut']++
          // A request may use the connection of an aborted one.
          if (!isWhole && !isWeb && conversation.cutBy === undefined)
            fixture.faults.push(`${conversation.id} ended early without a cut`)
        }
      }
      await Promise.all(Array.from({ length: CONCURRENCY }, work))
      agent.destroy()
      t.diagnostic(`${JSON.stringify(ends)}, ${fixture.receivedBytes} bytes`)
      assert.deepEqual(fixture.faults, [])
      assert.ok(ends.whole > CONVERSATIONS / 4 && ends.cut > CONVERSATIONS / 10, JSON.stringify(ends))
      await until(async () => (await lab.proxy.snapshot()).connections === 0)
      // Pipes are kept for later tunnels.
      await until(() => openFileCount() <= idleFiles + 2 * 64)
    },
  )
}

interface Fixture {
  readonly random: RepeatableRandom
  readonly conversations: Map<string, Conversation>
  /** Bytes that arrived at the wrong place or changed. */
  readonly faults: string[]
  receivedBytes: number
}

interface Conversation {
  /** Sent first. */
  readonly id: string
  readonly up: Stream
  readonly down: Stream
  readonly cutBy: 'client' | 'server' | undefined
  readonly cutAt: number
  readonly stalls: boolean
}

/** Random bytes that are unique to one direction of a conversation. */
class Stream {
  readonly first: Buffer
  readonly length: number
  readonly #block: Buffer

  constructor(first: Buffer, length: number, block: Buffer = randomBytes(65_537)) {
    this.first = first
    this.length = first.length + length
    this.#block = block
  }

  /** At most `most` bytes from a position on. */
  slice(at: number, most: number): Buffer {
    if (at < this.first.length) return this.first.subarray(at, at + most)
    const from = (at - this.first.length) % this.#block.length
    return this.#block.subarray(from, from + Math.min(most, this.length - at))
  }

  /** Whether the stream has these bytes at this position. */
  matches(bytes: Buffer, start: number): boolean {
    for (let at = 0; at < bytes.length; ) {
      const part = this.slice(start + at, bytes.length - at)
      if (part.length === 0 || !part.equals(bytes.subarray(at, at + part.length))) return false
      at += part.length
    }
    return true
  }
}

function startConversation({ random, conversations }: Fixture): Conversation {
  const stalls = random.below(16) === 0
  const size = (): number => {
    const most = stalls ? STALL_BYTES : (SIZES[random.below(SIZES.length)] ?? 0)
    return most - random.below(Math.floor(most / 4) + 1)
  }
  const id = `conversation-${`${conversations.size}`.padStart(6, '0')}`
  const hello = clientHello({ sni: `${id}.${ALLOWED}`, sizeBytes: 600 + random.below(9000) })
  const isTls = random.below(3) === 0
  const up = isTls ? new Stream(hello, size(), randomRecords()) : new Stream(Buffer.from(`${id}\n`), size())
  const down = new Stream(Buffer.alloc(0), size())
  const cutBy = ([undefined, undefined, 'client', 'server'] as const)[random.below(4)]
  const conversation: Conversation = {
    id,
    up,
    down,
    cutBy,
    cutAt: random.below(stalls ? 2 * STALL_BYTES : 200_000),
    stalls,
  }
  conversations.set(id, conversation)
  return conversation
}

function randomRecords(): Buffer {
  return Buffer.concat(
    Array.from({ length: 4 }, () => record(randomBytes(RECORD_BYTES), { type: 23, version: 0x0303 })),
  )
}

function findConversation({ conversations }: Fixture, bytes: Buffer): Conversation | undefined {
  const [id] = /conversation-\d{6}/.exec(bytes.toString('latin1', 0, 20_000)) ?? []
  return id === undefined ? undefined : conversations.get(id)
}

/** Sends the stream in pieces and ends, or aborts at the cut. Returns whether all was sent. */
async function sendStream(
  fixture: Fixture,
  out: Writable,
  conversation: Conversation,
  side: 'client' | 'server',
  start = 0,
): Promise<boolean> {
  const stream = side === 'client' ? conversation.up : conversation.down
  const end = conversation.cutBy === side ? Math.min(conversation.cutAt, stream.length) : stream.length
  for (let at = start; at < end; ) {
    const piece = stream.slice(at, Math.min(end - at, 1 + fixture.random.below(200_000)))
    at += piece.length
    if (out.destroyed) return false
    if (!out.write(piece)) await waitForDrain(out)
  }
  if (conversation.cutBy === side) {
    if (out instanceof Socket && fixture.random.below(2) === 0) out.resetAndDestroy()
    else out.destroy()
    return false
  }
  out.end()
  return true
}

/** Resolves also when the stream closes. */
function waitForDrain(out: Writable): Promise<void> {
  return new Promise((done) => {
    const go = (): void => {
      out.off('drain', go).off('close', go)
      done()
    }
    if (out.destroyed) done()
    else out.on('drain', go).on('close', go)
  })
}

/** Reads, compares, and returns an object with the current position. */
function compare(fixture: Fixture, from: Readable, stream: Stream, who: string, start?: Buffer): { at: number } {
  const state = { at: 0 }
  const take = (bytes: Buffer): void => {
    fixture.receivedBytes += bytes.length
    if (!stream.matches(bytes, state.at)) fixture.faults.push(`${who} read wrong bytes from ${state.at} on`)
    state.at += bytes.length
  }
  if (start) take(start)
  from.on('data', take)
  from.resume()
  return state
}

async function openTunnelServer(t: TestContext, fixture: Fixture): Promise<number> {
  return openTcpServer(t, (socket) => {
    let start = Buffer.alloc(0)
    const find = (bytes: Buffer): void => {
      start = Buffer.concat([start, bytes])
      const conversation = findConversation(fixture, start)
      if (!conversation) {
        if (start.length > 20_000) fixture.faults.push(`unknown bytes ${start.toString('latin1', 0, 40)}`)
        return
      }
      socket.off('data', find)
      compare(fixture, socket, conversation.up, `the server of ${conversation.id}`, start)
      void stall(socket, conversation)
      void sendStream(fixture, socket, conversation, 'server')
    }
    socket.on('data', find)
    // Cut before it has sent its id.
    socket.on('end', () => findConversation(fixture, start) ?? socket.end())
  })
}

async function stall(stream: Readable, { stalls }: Conversation): Promise<void> {
  if (!stalls) return
  stream.pause()
  await pause(STALL_MS)
  stream.resume()
}

/** Returns whether the client received everything. */
async function runTunnel(fixture: Fixture, conversation: Conversation, proxy: number, port: number): Promise<boolean> {
  const { random } = fixture
  const socket = connect({ port: proxy, host: HOME, allowHalfOpen: true, noDelay: true }).on('error', () => {})
  const closed = new Promise((done) => socket.on('close', done))
  const early = random.below(2) === 0 ? conversation.up.slice(0, 1 + random.below(400)) : Buffer.alloc(0)
  const head = Buffer.concat([Buffer.from(connectRequest(port)), early])
  // In pieces, between which the proxy serves others.
  for (let at = 0; at < head.length; ) {
    const end = at + 1 + random.below(head.length)
    socket.write(head.subarray(at, end))
    at = end
    await new Promise((go) => setImmediate(go))
  }
  const answer = await readAnswer(socket)
  if (!answer) {
    fixture.faults.push(`${conversation.id} got no response`)
    socket.destroy()
    return false
  }
  const state = compare(fixture, socket, conversation.down, `the client of ${conversation.id}`, answer)
  void stall(socket, conversation)
  const isSent = await sendStream(fixture, socket, conversation, 'client', early.length)
  await closed
  return isSent && state.at === conversation.down.length
}

/** Waits for the head of a 200 response and returns the bytes after it; undefined for any other response. */
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

async function openWebServer(t: TestContext, fixture: Fixture): Promise<number> {
  const server = createHttpServer(async (incoming, response) => {
    response.on('error', () => {})
    const conversation = fixture.conversations.get(incoming.url?.slice(1) ?? '')
    if (!conversation || incoming.headers['x-conversation'] !== conversation.id) {
      fixture.faults.push(`unknown request for ${incoming.url}`)
      return void response.destroy()
    }
    compare(fixture, incoming, conversation.up, `the server of ${conversation.id}`)
    void stall(incoming, conversation)
    await Promise.race([once(incoming, 'end'), once(incoming, 'close')]).catch(() => {})
    if (fixture.random.below(2) === 0) response.setHeader('Content-Length', conversation.down.length)
    response.setHeader('X-Conversation', conversation.id)
    if (!response.destroyed) await sendStream(fixture, response, conversation, 'server')
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

interface RequestRoute {
  readonly agent: Agent
  readonly proxy: number
  readonly port: number
}

/** Sends a request, possibly on a connection that others have used. */
async function runRequest(
  fixture: Fixture,
  conversation: Conversation,
  { agent, proxy, port }: RequestRoute,
): Promise<boolean> {
  const path = `http://${ALLOWED}:${port}/${conversation.id}`
  const headers = { Host: `${ALLOWED}:${port}`, 'X-Conversation': conversation.id }
  const outgoing = request({ host: HOME, port: proxy, agent, method: 'POST', path, headers })
  const answered = new Promise<IncomingMessage | undefined>((done) => {
    outgoing.on('response', done)
    outgoing.on('error', () => done(undefined))
    outgoing.on('close', () => done(undefined))
  })
  const isSent = await sendStream(fixture, outgoing, conversation, 'client')
  const answer = await answered
  if (!answer) return false
  if (answer.statusCode === 200 && answer.headers['x-conversation'] !== conversation.id)
    fixture.faults.push(`${conversation.id} got the response for ${answer.headers['x-conversation']}`)
  const stream = answer.statusCode === 200 ? conversation.down : undefined
  const state = stream ? compare(fixture, answer, stream, `the client of ${conversation.id}`) : { at: -1 }
  answer.on('error', () => {})
  void stall(answer, conversation)
  if (!stream) answer.resume()
  await new Promise((done) => answer.on('close', done))
  return isSent && answer.complete && state.at === conversation.down.length
}
