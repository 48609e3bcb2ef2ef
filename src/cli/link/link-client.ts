// A chat link as a program uses it: post, poll, stream. What the server refuses is a refusal; what never got through, or
// came back as nonsense, is a transport fault. A link is as good as a password, so no sentence here holds its address.
import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import { SseDecoder, type SseEvent } from '../../lib/http/sse-reader.ts'
import { REFUSALS, Refusal, type RefusalCode } from '../../lib/refusal.ts'

export const LinkFrame = z.object({
  seq: z.int(),
  id: z.string(),
  kind: z.enum(['message', 'status']),
  content: z.string(),
  created_at: z.string(),
})
export type LinkFrame = z.output<typeof LinkFrame>

const Posted = z.object({ turn_id: z.string().min(1) })
const LinkRound = z.object({
  turn_id: z.string(),
  status: z.enum(['pending', 'success', 'failed']),
  frames: z.array(LinkFrame),
  last_seq: z.int(),
  error: z.string().optional(),
})
export type LinkRound = z.output<typeof LinkRound>

const Problem = z.object({
  detail: z.string().optional(),
  title: z.string().optional(),
  code: z.string().optional(),
  hint: z.string().optional(),
})

/** A server that is being restarted is back within these. */
const PAUSES_MS = [250, 500, 1000, 2000, 4000]
/** Before anything was sent, nobody wants to wait that long to hear that the server is down. */
const POST_PAUSES_MS = [250, 500]
const ANSWER_MS = 30_000
/** A stream has a comment every 15 seconds; after three that did not come, it is dead. */
const SILENCE_MS = 45_000

export class TransportError extends Error {}

export class LinkClient {
  readonly #origin: string
  readonly #chat: string
  readonly #signal: AbortSignal

  /** `link` is a raw token or a proof. What waits is given up when `signal` says so. */
  constructor(origin: string, link: string, signal: AbortSignal) {
    this.#origin = origin
    this.#chat = `${origin}/chat/${link}/`
    this.#signal = signal
  }

  /** The id of the round. Tried again with the same key, so that the message is recorded once. */
  async post(message: { content: string; topic: string }, key: string): Promise<string> {
    const headers = { 'Content-Type': 'application/json', Accept: 'application/json', 'Idempotency-Key': key }
    const init = { method: 'POST', headers, body: JSON.stringify(message) }
    const { turn_id } = await this.#tried(POST_PAUSES_MS, () => this.#json('', init, Posted))
    return turn_id
  }

  poll(turnId: string, after: number): Promise<LinkRound> {
    const path = `${encodeURIComponent(turnId)}?after=${after}`
    return this.#tried(PAUSES_MS, () => this.#json(path, { headers: { Accept: 'application/json' } }, LinkRound))
  }

  /** Events until `round_done`, which is the last; a connection that breaks is taken up again where it was. */
  async *events(turnId: string): AsyncGenerator<SseEvent> {
    let last = ''
    for (let failures = 0; ; ) {
      try {
        for await (const event of this.#stream(`${encodeURIComponent(turnId)}/sse`, last)) {
          failures = 0
          last = event.id
          yield event
          if (event.event === 'round_done') return
        }
        throw new TransportError(`the stream of ${this.#origin} ended before the round did`)
      } catch (error) {
        const ms = PAUSES_MS[failures++]
        if (!(error instanceof TransportError) || ms === undefined) throw error
        await pause(ms, undefined, { signal: this.#signal })
      }
    }
  }

  async *#stream(path: string, last: string): AsyncGenerator<SseEvent> {
    const silence = new AbortController()
    const timer = setTimeout(() => silence.abort(), SILENCE_MS)
    try {
      const headers = { Accept: 'text/event-stream', ...(last === '' ? {} : { 'Last-Event-Id': last }) }
      const response = await this.#fetch(path, { headers, signal: AbortSignal.any([this.#signal, silence.signal]) })
      const isStream = response.headers.get('content-type')?.startsWith('text/event-stream')
      if (!isStream || !response.body) throw this.#nonsense()
      const reader = new SseDecoder()
      for await (const piece of response.body) {
        timer.refresh()
        yield* reader.push(piece)
      }
    } catch (error) {
      throw this.#fault(error)
    } finally {
      clearTimeout(timer)
    }
  }

  async #tried<T>(pauses: readonly number[], work: () => Promise<T>): Promise<T> {
    for (const ms of pauses) {
      try {
        return await work()
      } catch (error) {
        if (!(error instanceof TransportError)) throw error
        await pause(ms, undefined, { signal: this.#signal })
      }
    }
    return work()
  }

  async #json<S extends z.ZodType>(path: string, init: RequestInit, schema: S): Promise<z.output<S>> {
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(ANSWER_MS)])
    try {
      const response = await this.#fetch(path, { ...init, signal })
      const read = schema.safeParse(jsonOf(await response.text()))
      if (!read.success) throw this.#nonsense()
      return read.data
    } catch (error) {
      throw this.#fault(error)
    }
  }

  async #fetch(path: string, init: RequestInit): Promise<Response> {
    // Not followed: elsewhere the link would be in other hands.
    const response = await fetch(this.#chat + path, { ...init, redirect: 'manual' })
    const { status, headers } = response
    if (status < 300) return response
    if (status < 400) {
      await response.body?.cancel()
      throw new TransportError(
        `${this.#origin} answers with a redirect (${status}): WEB_HOST must be where it leads to`,
      )
    }
    const { detail, title, code, hint } = Problem.safeParse(jsonOf(await response.text())).data ?? {}
    const sentence = detail ?? title ?? `status ${status}`
    if (status >= 500) throw new TransportError(`${this.#origin} answers ${status}: ${sentence}`)
    const wait = headers.get('retry-after')
    const again = status === 429 && wait !== null ? `it takes the next one in ${wait} s` : undefined
    throw new Refusal(isCode(code) ? code : 'invalid', `the server refuses it (${status}): ${sentence}`, hint ?? again)
  }

  #nonsense(): TransportError {
    return new TransportError(`what listens at ${this.#origin} does not answer as svc does`)
  }

  /** What fetch throws for everything that is no answer, in a sentence. */
  #fault(error: unknown): unknown {
    if (error instanceof Refusal || error instanceof TransportError || this.#signal.aborted) return error
    const { code, message } = causeOf(error)
    if (code === 'ECONNREFUSED') return new TransportError(`nothing listens at ${this.#origin}`)
    return new TransportError(`cannot reach ${this.#origin}: ${code ?? message}`)
  }
}

/** The code of the innermost error. What Node says beside it may hold the address, and so is not repeated. */
function causeOf(error: unknown): { code?: string; message: string } {
  if (!(error instanceof Error)) return { message: 'the connection broke' }
  if (error.cause instanceof Error) return causeOf(error.cause)
  if ('code' in error && typeof error.code === 'string') return { code: error.code, message: '' }
  const isTimeout = error.name === 'TimeoutError' || error.name === 'AbortError'
  return { message: isTimeout ? 'no answer in time' : 'the connection broke' }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function isCode(text: string | undefined): text is RefusalCode {
  return text !== undefined && Object.hasOwn(REFUSALS, text)
}
