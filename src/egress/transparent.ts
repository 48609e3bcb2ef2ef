// The transparent listener: clients that know of no proxy, whose packets were turned around. The name they ask for is in
// what they say; where the packets were going gives the port and nothing else, or a client could name one host and reach
// another.
import { type AnswerCode, TLS_DENIED } from './answers.ts'
import { HelloReader } from './client-hello.ts'
import { sendOff } from './farewell.ts'
import type { Gate } from './gate.ts'
import { HeldBytes } from './held-bytes.ts'
import { parseHost } from './host.ts'
import { serveHttp } from './http/relay.ts'
import { type TargetOf, transparentTarget } from './http/target.ts'
import { Passage } from './passage.ts'
import type { Timer, Wire, WireOwner } from './wire.ts'

const HTTP_PORT = 80
const TLS_PORT = 443

export function acceptTransparent(gate: Gate, client: Wire): void {
  const to = client.originalDestination()
  // Who connects to the listener itself was not redirected, and would be sent in a circle.
  const isDirect = to === undefined || (to.port === client.local.port && to.address === client.local.address)
  if (isDirect) turnAway(gate, client, 'not-redirected')
  else if (to.port === TLS_PORT) new Hidden(gate, client)
  else if (to.port === HTTP_PORT) servePlain(gate, client)
  else turnAway(gate, client, 'port-not-allowed', to.port)
}

/** Closed before a byte is read. */
function turnAway(gate: Gate, client: Wire, reason: string, port?: number): void {
  const source = client.remote.address
  const id = gate.find(source)?.id
  const mode = 'transparent-tls'
  gate.done({ mode, source, id, port, verdict: 'deny', reason, bytesUp: 0, bytesDown: 0, ms: 0 })
  client.reset()
}

/** A client of plain HTTP: the Host header of each request names the host. */
function servePlain(gate: Gate, client: Wire): void {
  const { address } = client.remote
  let isWelcome = true
  const targetOf: TargetOf = (head) => (isWelcome ? transparentTarget(head) : { code: 'limit-reached' })
  const manner = { mode: 'transparent-http', targetOf } as const
  const served = serveHttp(gate, client, Buffer.alloc(0), manner, () => gate.leave(address, served))
  // It is told why, as soon as it has asked for something.
  isWelcome = gate.enter(address, served)
}

/** A TLS client: its hello names the host. Owns it until there is a tunnel. */
class Hidden implements WireOwner {
  readonly #gate: Gate
  readonly #client: Wire
  readonly #passage: Passage
  readonly #hello = new HelloReader()
  readonly #held = new HeldBytes()
  readonly #timer: Timer

  constructor(gate: Gate, client: Wire) {
    this.#gate = gate
    this.#client = client
    client.owner = this
    const { address } = client.remote
    this.#passage = new Passage(gate, client, { mode: 'transparent-tls', port: TLS_PORT }, () => {
      this.#timer.cancel()
      gate.leave(address, this.#passage)
    })
    const isWelcome = gate.enter(address, this.#passage)
    this.#timer = gate.wires.after(gate.limits.headMs, () => this.#cut('head-timeout'))
    if (!isWelcome) this.#refuse('limit-reached')
  }

  bytes(bytes: Buffer): void {
    this.#held.add(bytes)
    // While it is dialled: what comes behind the hello waits.
    if (this.#passage.isDialling) {
      this.#client.pause()
      return
    }
    const hello = this.#hello.push(bytes)
    if (hello.kind === 'hello') this.#judge(hello.sni)
    else if (hello.kind === 'not-tls') this.#cut('not-tls')
    else if (hello.kind === 'unreadable') this.#refuse('sni-unreadable')
  }

  ended(): void {
    if (!this.#passage.isDialling) this.#passage.abort({ verdict: 'error', reason: 'client-gone' })
  }

  drained(): void {}

  closed(): void {
    this.#passage.leave()
  }

  #judge(sni: string | undefined): void {
    const host = sni === undefined ? undefined : parseHost(sni)
    if (!host) {
      this.#refuse(sni === undefined ? 'sni-missing' : 'sni-unreadable')
      return
    }
    const { allow, reason } = this.#passage.judge({ host, port: TLS_PORT })
    if (!allow) {
      this.#refuse(reason)
      return
    }
    this.#timer.cancel()
    // The hello has been judged, but not what comes behind it: the tunnel looks at all of it.
    this.#passage.open({ takeEarly: () => this.#held.take(), failed: ({ code }) => this.#fail(code) })
  }

  #fail(code: AnswerCode): void {
    if (code === 'destination-ip-prohibited') this.#refuse(code)
    else this.#passage.abort({ verdict: 'error', reason: code })
  }

  /** The client's user reads "access denied", not of a broken line. */
  #refuse(reason: string): void {
    this.#passage.report({ verdict: 'deny', reason })
    sendOff(this.#gate, this.#client, TLS_DENIED)
  }

  /** What speaks no TLS would not understand it. */
  #cut(reason: string): void {
    this.#passage.abort({ verdict: 'deny', reason })
  }
}
