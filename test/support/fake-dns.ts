// A scripted DNS server on loopback that records the questions.
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

/** The answer for a name. It is empty if there are no addresses of the requested family. */
export interface DnsReply {
  /** Addresses of both families. */
  readonly addresses?: readonly string[]
  readonly cname?: string
  readonly rcode?: Rcode
  readonly ttl?: number
  readonly delayMs?: number
  /** Never answers. */
  readonly silent?: boolean
}

/** `nth` counts from 0 for each name and type. */
export type Script = DnsReply | ((type: QuestionType, nth: number) => DnsReply)

export interface ReceivedQuestion {
  readonly name: string
  readonly type: QuestionType
  readonly over: 'udp' | 'tcp'
}

const TTL = 30
const MOST_HOPS = 8

export class FakeDns {
  /** In the format of `dns.setServers`. */
  readonly server: string
  readonly asked: ReceivedQuestion[] = []
  readonly #scripts = new Map<string, Script>()

  constructor(port: number) {
    this.server = `127.0.0.1:${port}`
  }

  /** Names without an answer do not exist. */
  tell(name: string, script: Script): void {
    this.#scripts.set(name, script)
  }

  /** Number of questions about the name, of one type or all. */
  count(name: string, type?: QuestionType): number {
    return this.asked.filter((asked) => asked.name === name && (type === undefined || asked.type === type)).length
  }

  /** Answers with `send`: at once, later or never. */
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

  /** Finds the nearest wildcard, such as `*.example.test` or `*`. */
  #wild(name: string): Script | undefined {
    const dot = name.indexOf('.')
    if (dot < 0) return this.#scripts.get('*')
    return this.#scripts.get(`*${name.slice(dot)}`) ?? this.#wild(name.slice(dot + 1))
  }

  #answer(question: Question, first: DnsReply): Buffer {
    const { type } = question
    const records: DnsRecord[] = []
    let [name, told] = [question.name, first]
    // Like a recursive server: the whole chain in one answer.
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

/** Listens on UDP and, for long answers, on TCP with the same port. */
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

/** On TCP each message is preceded by its length. */
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
