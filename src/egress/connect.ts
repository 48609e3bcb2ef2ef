// CONNECT: judged by its target, dialled, and then a tunnel to any port.
import { ANSWERS, type AnswerCode, answerBytes } from './answers.ts'
import { sendOff } from './farewell.ts'
import type { Gate, Held } from './gate.ts'
import { HeldBytes } from './held-bytes.ts'
import { parseAuthority } from './host-port.ts'
import { Passage } from './passage.ts'
import type { Wire, WireOwner } from './wire.ts'

const ESTABLISHED = { bytes: Buffer.from('HTTP/1.1 200 Connection Established\r\n\r\n'), status: 200 }

/** What of the head counts. */
export interface ConnectHead {
  readonly target: string
  readonly framing: { readonly kind: string; readonly length?: number }
}

/** Serves a client whose request was this; `early` came behind it. `over` is told when the client is gone. */
export function serveConnect(gate: Gate, client: Wire, head: ConnectHead, early: Uint8Array, over: () => void): Held {
  const passage = new Passage(gate, client, { mode: 'connect' }, over)
  new Connecting(gate, client, passage).begin(head, early)
  return passage
}

/** Owns the client until there is a tunnel. */
class Connecting implements WireOwner {
  readonly #gate: Gate
  readonly #client: Wire
  readonly #passage: Passage
  #early = new HeldBytes()

  constructor(gate: Gate, client: Wire, passage: Passage) {
    this.#gate = gate
    this.#client = client
    this.#passage = passage
    client.owner = this
  }

  begin({ target: text, framing }: ConnectHead, early: Uint8Array): void {
    if (framing.kind !== 'none' && framing.length !== 0) {
      this.#refuse('bad-request', 'a CONNECT has no body')
      return
    }
    // A text of its own: a part of the head would keep all of the head for as long as the tunnel is open.
    const target = parseAuthority(Buffer.from(text, 'latin1').toString('latin1'))
    if (!target) {
      this.#refuse('bad-request', 'the target of CONNECT must be host:port')
      return
    }
    const { reason } = this.#passage.judge(target)
    if (reason !== 'allowed') this.#refuse(reason)
    else if (this.#gate.isStopping) this.#refuse('shutting-down')
    else this.#open(early)
  }

  #open(early: Uint8Array): void {
    if (early.length > 0) this.bytes(early)
    this.#passage.open({
      greeting: ESTABLISHED,
      takeEarly: () => this.#early.take(),
      failed: ({ code, detail }) => this.#refuse(code, detail),
    })
  }

  /** What one read brought is kept; more waits in the kernel until there is a tunnel. */
  bytes(bytes: Uint8Array): void {
    this.#early.add(bytes)
    this.#client.pause()
  }

  ended(): void {}

  drained(): void {}

  closed(): void {
    this.#passage.leave()
  }

  #refuse(code: AnswerCode, detail?: string): void {
    const { status } = ANSWERS[code]
    const bytes = answerBytes(code, { ...this.#passage.about, detail }, { denyMessage: this.#gate.denyMessage })
    this.#passage.report({ verdict: status === 403 ? 'deny' : 'error', reason: code }, status)
    sendOff(this.#gate, this.#client, bytes)
  }
}
