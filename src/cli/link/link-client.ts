// HTTP client of a chat link: post, poll, stream. A 4xx response becomes a Refusal; no response or an unexpected one becomes
// a TransportError. A link is as secret as a password, so no error message contains its URL.
import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import { readPieces } from '../../lib/files/atomic-file.ts'
import { SseDecoder, type SseEvent } from '../../lib/http/sse-reader.ts'
import { REFUSALS, Refusal, type RefusalCode } from '../../lib/refusal.ts'
import { tryParseJson } from '../../lib/text/json.ts'

const LinkFile = z.object({
  id: z.string(),
  name: z.string(),
  type: z.string(),
  size: z.int(),
  transcript: z.string().optional(),
})

export const LinkFrame = z.object({
  seq: z.int(),
  id: z.string(),
  kind: z.enum(['message', 'status']),
  content: z.string(),
  created_at: z.string(),
  /** The start of an answer that was stopped. */
  partial: z.literal(true).optional(),
  files: z.array(LinkFile).optional(),
})
export type LinkFrame = z.output<typeof LinkFrame>

const PostResponse = z.object({ turn_id: z.string().min(1) })
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

/** Long enough for a server to restart. */
const RETRY_DELAYS_MS = [250, 500, 1000, 2000, 4000]
/** Shorter: a user should learn quickly that the server is down. */
const POST_RETRY_DELAYS_MS = [250, 500]
const RESPONSE_TIMEOUT_MS = 30_000
/** The server takes a form with files for as long as it makes progress. */
const UPLOAD_STALL_MS = 60_000
/** The server sends a comment every 15 seconds; after three missing ones, the stream is dead. */
const STREAM_TIMEOUT_MS = 45_000

export interface SentFile {
  readonly name: string
  readonly path: string
}

interface SentContent {
  readonly content: string
  readonly topic: string
  readonly files?: readonly SentFile[]
}

export class TransportError extends Error {}

export class LinkClient {
  readonly #origin: string
  readonly #chat: string
  readonly #signal: AbortSignal
  readonly #visitor: string | undefined

  /** `link` is a raw token or a proof. `signal` aborts requests and retries. `visitor` is the key at links that keep visitors apart. */
  constructor(origin: string, link: string, signal: AbortSignal, visitor?: string) {
    this.#origin = origin
    this.#chat = `${origin}/chat/${link}/`
    this.#signal = signal
    this.#visitor = visitor
  }

  /** Returns the id of the round. Retries use the same idempotency key, so that the message is recorded once. */
  async post({ files = [], ...message }: SentContent, key: string): Promise<string> {
    const headers = { Accept: 'application/json', 'Idempotency-Key': key }
    const json = { ...headers, 'Content-Type': 'application/json' }
    const init = (): RequestInit =>
      files.length > 0
        ? { method: 'POST', ...toForm(message, files, headers) }
        : { method: 'POST', headers: json, body: JSON.stringify(message) }
    const { turn_id } = await this.#retry(POST_RETRY_DELAYS_MS, () => this.#fetchJson('', init(), PostResponse))
    return turn_id
  }

  poll(turnId: string, after: number): Promise<LinkRound> {
    const path = `${encodeURIComponent(turnId)}?after=${after}`
    const init = { headers: { Accept: 'application/json' } }
    return this.#retry(RETRY_DELAYS_MS, () => this.#fetchJson(path, init, LinkRound))
  }

  /** Yields events up to and including `round_done`, and deltas of the text that is being written. Reconnects and resumes after the last event. */
  async *events(turnId: string): AsyncGenerator<SseEvent> {
    let last = ''
    for (let failures = 0; ; ) {
      try {
        for await (const event of this.#stream(`${encodeURIComponent(turnId)}/sse?deltas=1`, last)) {
          failures = 0
          if (event.id !== '') last = event.id
          yield event
          if (event.event === 'round_done') return
        }
        throw new TransportError(`the stream from ${this.#origin} ended before the round did`)
      } catch (error) {
        const ms = RETRY_DELAYS_MS[failures++]
        if (!(error instanceof TransportError) || ms === undefined) throw error
        await pause(ms, undefined, { signal: this.#signal })
      }
    }
  }

  async *#stream(path: string, last: string): AsyncGenerator<SseEvent> {
    const timeout = new AbortController()
    const timer = setTimeout(() => timeout.abort(), STREAM_TIMEOUT_MS)
    try {
      const headers = { Accept: 'text/event-stream', ...(last === '' ? {} : { 'Last-Event-Id': last }) }
      const response = await this.#fetch(path, { headers, signal: AbortSignal.any([this.#signal, timeout.signal]) })
      const isStream = response.headers.get('content-type')?.startsWith('text/event-stream')
      if (!isStream || !response.body) throw this.#unexpectedResponse()
      const decoder = new SseDecoder()
      for await (const chunk of response.body) {
        timer.refresh()
        yield* decoder.push(chunk)
      }
    } catch (error) {
      throw this.#toTransportError(error)
    } finally {
      clearTimeout(timer)
    }
  }

  async #retry<T>(delaysMs: readonly number[], work: () => Promise<T>): Promise<T> {
    for (const ms of delaysMs) {
      try {
        return await work()
      } catch (error) {
        if (!(error instanceof TransportError)) throw error
        await pause(ms, undefined, { signal: this.#signal })
      }
    }
    return work()
  }

  async #fetchJson<S extends z.ZodType>(path: string, init: RequestInit, schema: S): Promise<z.output<S>> {
    const timeout = init.signal ?? AbortSignal.timeout(RESPONSE_TIMEOUT_MS)
    const signal = AbortSignal.any([this.#signal, timeout])
    try {
      const response = await this.#fetch(path, { ...init, signal })
      const parsed = schema.safeParse(tryParseJson(await response.text()))
      if (!parsed.success) throw this.#unexpectedResponse()
      return parsed.data
    } catch (error) {
      throw this.#toTransportError(error)
    }
  }

  async #fetch(path: string, init: RequestInit): Promise<Response> {
    // Redirects are not followed, because they would reveal the link to another server.
    const requestHeaders = new Headers(init.headers)
    if (this.#visitor !== undefined) requestHeaders.set('X-Visitor', this.#visitor)
    const response = await fetch(this.#chat + path, { ...init, headers: requestHeaders, redirect: 'manual' })
    const { status, headers } = response
    if (status < 300) return response
    if (status < 400) {
      await response.body?.cancel()
      throw new TransportError(`${this.#origin} responded with a redirect (${status}): set WEB_HOST to where it leads`)
    }
    const { detail, title, code, hint } = Problem.safeParse(tryParseJson(await response.text())).data ?? {}
    const message = detail ?? title ?? `status ${status}`
    // A retry would get 507 or 501 again.
    if (status >= 500 && code !== 'storage_full' && code !== 'unsupported')
      throw new TransportError(`${this.#origin} responded with ${status}: ${message}`)
    const retryAfter = headers.get('retry-after')
    const retryHint = status === 429 && retryAfter !== null ? `try again in ${retryAfter} s` : undefined
    throw new Refusal(
      isRefusalCode(code) ? code : 'invalid',
      `the server refused the request (${status}): ${message}`,
      hint ?? retryHint,
    )
  }

  #unexpectedResponse(): TransportError {
    return new TransportError(`the server at ${this.#origin} does not respond like svc`)
  }

  /** Describes errors of fetch in a sentence. */
  #toTransportError(error: unknown): unknown {
    if (error instanceof Refusal || error instanceof TransportError || this.#signal.aborted) return error
    if (error instanceof Error && error.cause instanceof Refusal) return error.cause
    const { code, message } = rootFault(error)
    if (code === 'ECONNREFUSED') return new TransportError(`no server listens at ${this.#origin}`)
    return new TransportError(`cannot reach ${this.#origin}: ${code ?? message}`)
  }
}

/** Not FormData: a file that cannot be read then ends the process. */
function toForm(message: SentContent, files: readonly SentFile[], headers: Record<string, string>): RequestInit {
  const boundary = randomBytes(16).toString('hex')
  const stall = new AbortController()
  const timer = setTimeout(() => stall.abort(), UPLOAD_STALL_MS).unref()
  return {
    signal: stall.signal,
    headers: { ...headers, 'Content-Type': `multipart/form-data; boundary=${boundary}` },
    body: ReadableStream.from(formBytes(boundary, message, files, () => timer.refresh())),
    duplex: 'half',
  }
}

/** Reads the files while they are sent. */
async function* formBytes(
  boundary: string,
  { content, topic }: SentContent,
  files: readonly SentFile[],
  onProgress: () => void,
): AsyncGenerator<Uint8Array> {
  const head = (parameters: string): string => `--${boundary}\r\nContent-Disposition: form-data; ${parameters}\r\n\r\n`
  yield Buffer.from(`${head('name="content"')}${content}\r\n${head('name="topic"')}${topic}\r\n`)
  for (const { name, path } of files) {
    const quoted = name.replace(/["\r\n]/g, encodeURIComponent)
    yield Buffer.from(head(`name="file"; filename="${quoted}"`))
    for await (const piece of readPieces(path)) {
      onProgress()
      yield piece
    }
    yield Buffer.from('\r\n')
  }
  yield Buffer.from(`--${boundary}--\r\n`)
}

/** The code of the innermost error. Messages of Node are not repeated, because they may contain the URL. */
function rootFault(error: unknown): { code?: string; message: string } {
  if (!(error instanceof Error)) return { message: 'the connection broke' }
  if (error.cause instanceof Error) return rootFault(error.cause)
  if ('code' in error && typeof error.code === 'string') return { code: error.code, message: '' }
  const isTimeout = error.name === 'TimeoutError' || error.name === 'AbortError'
  return { message: isTimeout ? 'no answer in time' : 'the connection broke' }
}

function isRefusalCode(text: string | undefined): text is RefusalCode {
  return text !== undefined && Object.hasOwn(REFUSALS, text)
}
