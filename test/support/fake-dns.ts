// A DNS server on loopback that answers by a script and remembers what it was asked.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer, isIPv4, type Server, type Socket } from 'node:net'
import {
  type DnsRecord,
  type Question,
  type QuestionType,
  type Rcode,
  readQuestion,
  writeAnswer,
  writeTruncated,
} from './dns-message.ts'
import type { CleanupScope } from './temp.ts'

/** What is said of a name. Without addresses of the family asked for the answer is empty. */
export interface DnsReply {
  /** Of both families. */
  readonly addresses?: readonly string[]
  readonly cname?: string
  readonly rcode?: Rcode
  readonly ttl?: number
  readonly delayMs?: number
  /** Nothing is ever answered. */
  readonly silent?: boolean
}

/** `nth` counts from 0, for each name and type of its own. */
export type Script = DnsReply | ((type: QuestionType, nth: number) => DnsReply)

export interface ReceivedQuestion {
  readonly name: string
  readonly type: QuestionType
  readonly over: 'udp' | 'tcp'
}

const TTL = 30
const MOST_HOPS = 8

export class FakeDns {
  /** As `dns.setServers` takes it. */
  readonly server: string
  readonly asked: ReceivedQuestion[] = []
  readonly #scripts = new Map<string, Script>()

  constructor(port: number) {
    this.server = `127.0.0.1:${port}`
  }

  /** A name that is not told does not exist. */
  tell(name: string, script: Script): void {
    this.#scripts.set(name, script)
  }

  /** How many questions about the name came, of one type or of all. */
  count(name: string, type?: QuestionType): number {
    return this.asked.filter((asked) => asked.name === name && (type === undefined || asked.type === type)).length
  }

  /** Answers by `send`, at once or later or never. */
  take(message: Buffer, over: ReceivedQuestion['over'], send: (answer: Buffer) => void): void {
    const question = readQuestion(message)
    const { name, type } = question
    const told = this.#told(name, type, this.count(name, type))
    this.asked.push({ name, type, over })
    if (told.silent) return
    const answer = this.#answer(question, told)
    const fitting = over === 'udp' && answer.length > question.room ? writeTruncated(question) : answer
    if (told.delayMs === undefined) send(fitting)
    else setTimeout(send, told.delayMs, fitting).unref()
  }

  #told(name: string, type: QuestionType, nth: number): DnsReply {
    const script = this.#scripts.get(name) ?? this.#wild(name) ?? { rcode: 'NXDOMAIN' }
    return typeof script === 'function' ? script(type, nth) : script
  }

  /** By the nearest wildcard above it, such as `*.example.test`, or `*` alone. */
  #wild(name: string): Script | undefined {
    const dot = name.indexOf('.')
    if (dot < 0) return this.#scripts.get('*')
    return this.#scripts.get(`*${name.slice(dot)}`) ?? this.#wild(name.slice(dot + 1))
  }

  #answer(question: Question, first: DnsReply): Buffer {
    const { type } = question
    const records: DnsRecord[] = []
    let [name, told] = [question.name, first]
    // As a recursive server does: the whole chain in one answer.
    while (told.cname !== undefined && records.length < MOST_HOPS) {
      records.push({ name, ttl: told.ttl ?? TTL, cname: told.cname })
      name = told.cname
      told = this.#told(name, type, 0)
    }
    const addresses = (told.addresses ?? []).filter((address) => type === (isIPv4(address) ? 'A' : 'AAAA'))
    const own = told.cname === undefined ? addresses : []
    return writeAnswer(question, told.rcode ?? 'NOERROR', [
      ...records,
      ...own.map((address) => ({ name, ttl: told.ttl ?? TTL, address })),
    ])
  }
}

/** Listens by UDP and, for answers that are too long for it, by TCP on the same port. */
export async function openFakeDns(t: CleanupScope): Promise<FakeDns> {
  const { tcp, port } = await listenTcp()
  const udp = createSocket('udp4')
  const dns = new FakeDns(port)
  udp.on('message', (message, from) => dns.take(message, 'udp', (answer) => udp.send(answer, from.port, from.address)))
  udp.bind(port, '127.0.0.1')
  const sockets = new Set<Socket>()
  tcp.on('connection', (socket) => {
    sockets.add(socket.on('error', () => {}))
    serve(socket, dns)
  })
  t.after(() => {
    udp.close()
    tcp.close()
    for (const socket of sockets) socket.destroy()
  })
  await once(udp, 'listening')
  return dns
}

async function listenTcp(): Promise<{ tcp: Server; port: number }> {
  const tcp = createServer().listen(0, '127.0.0.1')
  await once(tcp, 'listening')
  const address = tcp.address()
  if (address === null || typeof address === 'string') throw new Error('a TCP server has no port')
  return { tcp, port: address.port }
}

/** By TCP each message has its length before it. */
function serve(socket: Socket, dns: FakeDns): void {
  let waiting = Buffer.alloc(0)
  socket.on('data', (bytes: Buffer) => {
    waiting = Buffer.concat([waiting, bytes])
    while (waiting.length >= 2 && waiting.length >= 2 + waiting.readUInt16BE(0)) {
      const end = 2 + waiting.readUInt16BE(0)
      dns.take(waiting.subarray(2, end), 'tcp', (answer) => {
        const length = Buffer.alloc(2)
        length.writeUInt16BE(answer.length)
        socket.write(Buffer.concat([length, answer]))
      })
      waiting = waiting.subarray(end)
    }
  })
}
