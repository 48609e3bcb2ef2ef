// The link as its page knows it: what is posted, what is asked, and the stream that goes on for as long as it is wanted.
import { EventReader } from '../text/events.ts'

/** One event of a link or one frame of a round. */
export interface Frame {
  readonly id: string
  readonly kind: 'message' | 'status'
  readonly content: string
  readonly created_at: string
  readonly role: 'user' | 'assistant'
  readonly turn_id: string
  /** Its place on the link; a round that is polled knows none. */
  readonly seq: number
}

export interface RoundEnd {
  readonly turn_id: string
  readonly status: string
  readonly error?: string
  readonly seq: number
}

export interface Posted {
  readonly id: string
  readonly content: string
  readonly created_at: string
}

/** A refusal of the server. What is thrown otherwise means that it was not reached. */
export class Refused extends Error {
  readonly status: number
  readonly hint: string | undefined
  /** In seconds. */
  readonly retryAfter: number

  constructor(status: number, detail: string, hint: string | undefined, retryAfter: number) {
    super(detail)
    this.status = status
    this.hint = hint
    this.retryAfter = retryAfter
  }

  /** What was sent may have been taken all the same. */
  get isUnsure(): boolean {
    return this.status >= 500 && this.status !== 503 && this.status !== 507
  }

  /** Nothing that is sent or asked later will be taken. */
  get isFinal(): boolean {
    return this.status === 401 || this.status === 403 || this.status === 404
  }
}

/** A server writes at least a comment every 15 s. */
const SILENCE_MS = 40_000
const POST_TIMEOUT_MS = 60_000
const WAITS_MS = [1_000, 2_000, 4_000, 8_000, 15_000]
const REPLAY = 200

export type Connection =
  | { readonly state: 'open' | 'connecting' }
  | { readonly state: 'waiting'; readonly why: unknown }

export interface StreamListener {
  frame(frame: Frame): void
  end(end: RoundEnd): void
  connection(connection: Connection): void
}

/** A wait that grows, with a share of chance so that a thousand pages do not come back at once. */
export function pause(attempt: number): number {
  const longest = WAITS_MS[Math.min(attempt, WAITS_MS.length - 1)] ?? 15_000
  return longest * (0.5 + Math.random() / 2)
}

export class Link {
  readonly #base: string
  readonly #credentials: RequestCredentials

  constructor(base: string, credentials: RequestCredentials) {
    this.#base = base
    this.#credentials = credentials
  }

  /** With the same key the same message is taken once, however often it is sent. */
  async post(content: string, topic: string, key: string): Promise<Posted> {
    const response = await this.#fetch('./', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Accept: 'application/json', 'Idempotency-Key': key },
      body: JSON.stringify({ content, topic }),
      signal: AbortSignal.timeout(POST_TIMEOUT_MS),
    })
    const { user } = await membersOf(response)
    return { id: text(user, 'id'), content: text(user, 'content') || content, created_at: text(user, 'created_at') }
  }

  /** The frames of a round after one of them, and its end when it has one. */
  async poll(turn: string, after: number): Promise<{ frames: Frame[]; after: number; end: RoundEnd | undefined }> {
    const response = await this.#fetch(`./${encodeURIComponent(turn)}?after=${after}`, {
      headers: { Accept: 'application/json' },
      signal: AbortSignal.timeout(POST_TIMEOUT_MS),
    })
    const round = await membersOf(response)
    const listed: readonly unknown[] = Array.isArray(round.frames) ? round.frames : []
    const frames = listed.map((frame) => ({
      ...readFrame(frame, 'message'),
      turn_id: turn,
      seq: Number.POSITIVE_INFINITY,
    }))
    const end = round.status === 'pending' ? undefined : readEnd(round, Number.POSITIVE_INFINITY)
    return { frames, after: number(round, 'last_seq', after), end }
  }

  stream(topic: string, listener: StreamListener): LinkStream {
    const query = `./events?topic=${encodeURIComponent(topic)}&last=${REPLAY}`
    return new LinkStream((init) => this.#fetch(query, init), listener)
  }

  async #fetch(path: string, init: RequestInit): Promise<Response> {
    const response = await fetch(new URL(path, this.#base), {
      cache: 'no-store',
      credentials: this.#credentials,
      referrerPolicy: 'no-referrer',
      redirect: 'error',
      ...init,
    })
    if (!response.ok) throw await refusalOf(response)
    return response
  }
}

/** Reconnects until it is stopped, and resumes behind the last event that it gave. */
export class LinkStream {
  readonly #open: (init: RequestInit) => Promise<Response>
  readonly #listener: StreamListener
  #last = ''
  #heard = 0
  /** Counts starts and stops, so that what was started before knows that it is over. */
  #run = 0
  #isRunning = false
  #attempt: AbortController | undefined
  #endPause: (() => void) | undefined

  constructor(open: (init: RequestInit) => Promise<Response>, listener: StreamListener) {
    this.#open = open
    this.#listener = listener
  }

  start(): void {
    if (this.#isRunning) return
    this.#isRunning = true
    void this.#keepOpen(++this.#run)
  }

  stop(): void {
    this.#run++
    this.#isRunning = false
    this.#attempt?.abort()
    this.#endPause?.()
  }

  /** The machine woke up or the network came back: whatever waits need not wait, and what is silent may be dead. */
  wake(): void {
    this.#endPause?.()
    if (Date.now() - this.#heard > SILENCE_MS / 2) this.#attempt?.abort()
  }

  async #keepOpen(run: number): Promise<void> {
    for (let failures = 0; run === this.#run; failures++) {
      const attempt = new AbortController()
      this.#attempt = attempt
      let why: unknown
      try {
        this.#listener.connection({ state: 'connecting' })
        await this.#once(attempt, () => {
          failures = 0
        })
      } catch (error) {
        why = error
      }
      if (run !== this.#run) return
      this.#listener.connection({ state: 'waiting', why })
      if (why instanceof Refused && why.isFinal) this.stop()
      const told = why instanceof Refused ? why.retryAfter * 1_000 : 0
      if (run === this.#run) await this.#pause(Math.max(told, pause(failures)))
    }
  }

  async #once(attempt: AbortController, opened: () => void): Promise<void> {
    let silence = setTimeout(() => attempt.abort(), SILENCE_MS)
    try {
      const headers = { Accept: 'text/event-stream', ...(this.#last ? { 'Last-Event-ID': this.#last } : {}) }
      const { body } = await this.#open({ headers, signal: attempt.signal })
      const reader = body?.pipeThrough(new TextDecoderStream()).getReader()
      this.#heard = Date.now()
      opened()
      this.#listener.connection({ state: 'open' })
      const events = new EventReader()
      for (;;) {
        const { done = true, value = '' } = (await reader?.read()) ?? {}
        if (done || attempt.signal.aborted) return
        clearTimeout(silence)
        silence = setTimeout(() => attempt.abort(), SILENCE_MS)
        this.#heard = Date.now()
        for (const { id, event, data } of events.read(value)) this.#take(id, event, data)
      }
    } finally {
      clearTimeout(silence)
    }
  }

  #take(id: string, event: string, data: string): void {
    // The ids of a link are one sequence: what is not behind the last one has been shown.
    if (this.#last !== '' && Number(id) <= Number(this.#last)) return
    this.#last = id
    const value: unknown = JSON.parse(data)
    const seq = Number(id)
    if (event === 'round_done') this.#listener.end(readEnd(value, seq))
    else if (event === 'message' || event === 'status') this.#listener.frame({ ...readFrame(value, event), seq })
  }

  #pause(milliseconds: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds)
      this.#endPause = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }
}

async function refusalOf(response: Response): Promise<Refused> {
  let problem: unknown
  try {
    problem = await response.json()
  } catch {
    // What stands between the server and here has pages of its own.
  }
  const after = Number(response.headers.get('Retry-After'))
  const detail = text(problem, 'detail') || `The server answered ${response.status}`
  return new Refused(
    response.status,
    detail,
    text(problem, 'hint') || undefined,
    after > 0 ? Math.min(after, 3_600) : 0,
  )
}

async function membersOf(response: Response): Promise<Record<string, unknown>> {
  const value: unknown = await response.json()
  return typeof value === 'object' && value !== null ? Object.fromEntries(Object.entries(value)) : {}
}

function readFrame(value: unknown, event: 'message' | 'status'): Omit<Frame, 'seq'> {
  return {
    id: text(value, 'id'),
    kind: text(value, 'kind') === 'status' ? 'status' : event,
    content: text(value, 'content'),
    created_at: text(value, 'created_at'),
    role: text(value, 'role') === 'user' ? 'user' : 'assistant',
    turn_id: text(value, 'turn_id'),
  }
}

function readEnd(value: unknown, seq: number): RoundEnd {
  const error = text(value, 'error')
  return { turn_id: text(value, 'turn_id'), status: text(value, 'status'), ...(error ? { error } : {}), seq }
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}

function text(value: unknown, name: string): string {
  const found = member(value, name)
  return typeof found === 'string' ? found : ''
}

function number(value: unknown, name: string, otherwise: number): number {
  const found = member(value, name)
  return typeof found === 'number' ? found : otherwise
}
