// A request on its way to another server: bytes go through as they come, both ways, with back-pressure; only heads are
// touched.
import {
  Agent,
  type ClientRequest,
  type IncomingMessage,
  request as requestPlain,
  type ServerResponse,
} from 'node:http'
import { request as requestSecure, Agent as SecureAgent } from 'node:https'
import { pipeline } from 'node:stream/promises'
import { diskCode } from '../lib/atomic-file.ts'
import { withoutHops } from '../lib/hop-headers.ts'
import { Refusal, refuse } from '../lib/refusal.ts'

export interface Onward {
  /** Who answers, for the sentence when nobody does. */
  readonly name: string
  readonly url: URL
  readonly method: string
  /** Path and query as they stand, never resolved against the address: "//evil/" would be a host. */
  readonly target: string
  /** Names and values in turn, without those of one connection. */
  readonly headers: readonly string[]
}

export interface Forwarder {
  /** The status of the answer, when its head has been passed on. A refusal before that: then nothing was sent. */
  forward(incoming: IncomingMessage, outgoing: ServerResponse, onward: Onward): Promise<number>
  close(): void
}

const CONNECT_MS = 5000
/** Until the head of the answer; a stream may then go on as long as it likes. */
const HEAD_MS = 60_000

export function openForwarder(): Forwarder {
  const plain = new Agent({ keepAlive: true })
  const secure = new SecureAgent({ keepAlive: true })
  return {
    forward: (incoming, outgoing, onward) => {
      const options = {
        method: onward.method,
        path: `${onward.url.pathname.replace(/\/$/, '')}${onward.target}`,
        headers: framed(onward, incoming),
      }
      const sent =
        onward.url.protocol === 'https:'
          ? requestSecure(onward.url, { ...options, agent: secure })
          : requestPlain(onward.url, { ...options, agent: plain })
      return relay(incoming, outgoing, sent, onward.name)
    },
    close: () => {
      plain.destroy()
      secure.destroy()
    },
  }
}

async function relay(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  sent: ClientRequest,
  name: string,
): Promise<number> {
  const answered = headOf(sent, name)
  outgoing.once('close', () => {
    if (!outgoing.writableFinished) sent.destroy()
  })
  // Gone before we got here: nobody would tell us any more.
  if (outgoing.destroyed) sent.destroy(new Error('nobody waits for the answer'))
  if (hasBody(incoming)) incoming.pipe(sent)
  else sent.end()
  const answer = await answered
  const status = answer.statusCode ?? 0
  if (status < 200 || status > 599) {
    sent.destroy()
    refuse('unavailable', `${name} does not speak HTTP`)
  }
  outgoing.writeHead(status, withoutHops(answer.rawHeaders)).flushHeaders()
  // Whichever side breaks off takes the other one along: half an answer must not look like a whole one.
  pipeline(answer, outgoing).catch(() => {})
  answer.once('end', () => dropRest(incoming, sent))
  return status
}

/** An answer may come before the body is over. Node then sends no more of it, and the next request would wait behind it. */
function dropRest(incoming: IncomingMessage, sent: ClientRequest): void {
  if (sent.writableEnded) return
  incoming.unpipe(sent).resume()
  sent.destroy()
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined
}

/** Framed as it came. Left to itself, Node would send the body of a DELETE without saying where it ends. */
function framed({ url, headers }: Onward, { headers: came }: IncomingMessage): string[] {
  const kept = headers.filter((_, at) => headers[at - (at % 2)]?.toLowerCase() !== 'host')
  const framing = came['transfer-encoding'] === undefined ? [] : ['Transfer-Encoding', 'chunked']
  return ['Host', url.host, ...kept, ...framing]
}

function headOf(sent: ClientRequest, name: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => sent.destroy(new Error('late')), HEAD_MS)
    let connecting: NodeJS.Timeout | undefined
    sent.once('socket', (socket) => {
      if (!socket.connecting) return
      connecting = setTimeout(() => sent.destroy(new Error('late')), CONNECT_MS)
      socket.once('connect', () => clearTimeout(connecting))
    })
    const settle = (): void => {
      clearTimeout(late)
      clearTimeout(connecting)
    }
    sent.once('response', (answer) => {
      settle()
      resolve(answer)
    })
    // Stays: after the head an error has its way through the answer, and here nobody waits for it any more.
    sent.on('error', (error) => {
      settle()
      reject(new Refusal('unavailable', `${name} cannot be reached (${diskCode(error) ?? 'no answer in time'})`))
    })
  })
}
