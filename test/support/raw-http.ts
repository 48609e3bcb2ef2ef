// Both ends of a proxy as bare sockets: a client that sends exactly these bytes, and origins that answer exactly those.
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import type { TestContext } from 'node:test'
import { until } from './until.ts'

/** One end of a connection, and all that has come. */
export class RawEnd {
  readonly socket: Socket
  text = ''
  bytes = 0
  hasEnded = false
  isClosed = false
  error: string | undefined
  /** Told after each piece. */
  heard: () => void = () => {}

  constructor(socket: Socket) {
    this.socket = socket
    socket.on('data', (piece: Buffer) => {
      this.bytes += piece.length
      // Only the start of what is huge is of interest.
      if (this.text.length < 1_048_576) this.text += piece.toString('latin1')
      this.heard()
    })
    socket.on('end', () => {
      this.hasEnded = true
    })
    socket.on('error', (error: NodeJS.ErrnoException) => {
      this.error = error.code
    })
    socket.on('close', () => {
      this.isClosed = true
    })
  }

  send(text: string | Buffer): void {
    this.socket.write(typeof text === 'string' ? Buffer.from(text, 'latin1') : text)
  }

  async has(part: string): Promise<string> {
    await until(() => this.text.includes(part) || this.isClosed)
    return this.text
  }

  /** The text, once the other side has ended or broken it. */
  async over(): Promise<string> {
    await until(() => this.hasEnded || this.isClosed)
    return this.text
  }
}

/** `from` is which of this machine's own addresses it comes from. */
export async function rawClient(t: TestContext, port: number, from?: string): Promise<RawEnd> {
  const local = from === undefined ? {} : { localAddress: from }
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true, ...local })
  t.after(() => socket.destroy())
  await once(socket, 'connect')
  return new RawEnd(socket)
}

export interface RawOrigin {
  readonly port: number
  readonly ends: RawEnd[]
}

/** `answer` is told of every connection. */
export async function rawOrigin(t: TestContext, answer: (end: RawEnd, count: number) => void): Promise<RawOrigin> {
  const ends: RawEnd[] = []
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    const end = new RawEnd(socket)
    answer(end, ends.push(end))
  })
  t.after(() => {
    for (const end of ends) end.socket.destroy()
    server.close()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const at = server.address()
  if (at === null || typeof at === 'string') throw new Error('a listener without a port')
  return { port: at.port, ends }
}

/** Answers every head that comes, and takes no body. */
export function answerEach(end: RawEnd, answer: (request: string, count: number) => string): void {
  let from = 0
  let count = 0
  end.heard = () => {
    for (let at = end.text.indexOf('\r\n\r\n', from); at >= 0; at = end.text.indexOf('\r\n\r\n', from)) {
      const request = end.text.slice(from, at + 4)
      from = at + 4
      end.send(answer(request, ++count))
    }
  }
}
