// The link as its page knows it: what is posted, what is asked, and the stream that goes on for as long as it is wanted.
import { SseDecoder } from '../../lib/http/sse-reader.ts'

/** One event of a link or one frame of a round. */
export interface ChatFrame {
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

export interface PostedChatMessage {
  readonly id: string
  readonly content: string
  readonly created_at: string
}

/** A refusal of the server. What is thrown otherwise means that it was not reached. */
export class ServerRefusal extends Error {
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
  get mayHaveBeenAccepted(): boolean {
    return this.status >= 500 && this.status !== 503 && this.status !== 507
  }

  /** Nothing that is sent or asked later will be taken. */
  get isPermanent(): boolean {
    return this.status === 401 || this.status === 403 || this.status === 404
  }
}

/** A server writes at least a comment every 15 s. */
const SILENCE_MS = 40_000
const POST_TIMEOUT_MS = 60_000
const WAITS_MS = [1_000, 2_000, 4_000, 8_000, 15_000]
const REPLAY = 200

export type StreamConnectionState =
  | { readonly state: 'open' | 'connecting' }
  | { readonly state: 'waiting'; readonly why: unknown }

export interface StreamListener {
  onFrame(frame: ChatFrame): void
  onRoundEnd(end: RoundEnd): void
  onConnection(connection: StreamConnectionState): void
}

/** A wait that grows, with a share of chance so that a thousand pages do not come back at once. */
export function backoffMs(attempt: number): number {
  const longest = WAITS_MS[Math.min(attempt, WAITS_MS.length - 1)] ?? 15_000
  return longest * (0.5 + Math.random() / 2)
}

export class BrowserLinkClient {
  readonly #base: string
  readonly #credentials: RequestCredentials

  constructor(base: string, credentials: RequestCredentials) {
    this.#base = base
    this.#credentials = credentials
  }

  /** With the same key the same message is taken once, however often it is sent. */
  async post(content: string, topic: string, key: string): Promise<PostedChatMessage> {
    const response = await this.#fetch('./', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Accept: 'application/json', 'Idempotency-Key': key },
      body: JSON.stringify({ content, topic }),
      signal: AbortSignal.timeout(POST_TIMEOUT_MS),
    })
    const { user } = await membersOf(response)
    return {
      id: stringMember(user, 'id'),
      content: stringMember(user, 'content') || content,
      created_at: stringMember(user, 'created_at'),
    }
  }

  /** The frames of a round after one of them, and its end when it has one. */
  async poll(turn: string, after: number): Promise<{ frames: ChatFrame[]; after: number; end: RoundEnd | undefined }> {
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
    return { frames, after: numberMember(round, 'last_seq', after), end }
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
        this.#listener.onConnection({ state: 'connecting' })
        await this.#once(attempt, () => {
          failures = 0
        })
      } catch (error) {
        why = error
      }
      if (run !== this.#run) return
      this.#listener.onConnection({ state: 'waiting', why })
      if (why instanceof ServerRefusal && why.isPermanent) this.stop()
      const told = why instanceof ServerRefusal ? why.retryAfter * 1_000 : 0
      if (run === this.#run) await this.#pause(Math.max(told, backoffMs(failures)))
    }
  }

  async #once(attempt: AbortController, opened: () => void): Promise<void> {
    let silence = setTimeout(() => attempt.abort(), SILENCE_MS)
    try {
      const headers = { Accept: 'text/event-stream', ...(this.#last ? { 'Last-Event-ID': this.#last } : {}) }
      const { body } = await this.#open({ headers, signal: attempt.signal })
      const reader = body?.getReader()
      this.#heard = Date.now()
      opened()
      this.#listener.onConnection({ state: 'open' })
      const events = new SseDecoder()
      for (;;) {
        const { value } = (await reader?.read()) ?? {}
        if (!value || attempt.signal.aborted) return
        clearTimeout(silence)
        silence = setTimeout(() => attempt.abort(), SILENCE_MS)
        this.#heard = Date.now()
        for (const { id, event, data } of events.push(value)) this.#take(id, event, data)
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
    if (event === 'round_done') this.#listener.onRoundEnd(readEnd(value, seq))
    else if (event === 'message' || event === 'status') this.#listener.onFrame({ ...readFrame(value, event), seq })
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

async function refusalOf(response: Response): Promise<ServerRefusal> {
  let problem: unknown
  try {
    problem = await response.json()
  } catch {
    // What stands between the server and here has pages of its own.
  }
  const after = Number(response.headers.get('Retry-After'))
  const detail = stringMember(problem, 'detail') || `The server answered ${response.status}`
  return new ServerRefusal(
    response.status,
    detail,
    stringMember(problem, 'hint') || undefined,
    after > 0 ? Math.min(after, 3_600) : 0,
  )
}

async function membersOf(response: Response): Promise<Record<string, unknown>> {
  const value: unknown = await response.json()
  return typeof value === 'object' && value !== null ? Object.fromEntries(Object.entries(value)) : {}
}

function readFrame(value: unknown, event: 'message' | 'status'): Omit<ChatFrame, 'seq'> {
  return {
    id: stringMember(value, 'id'),
    kind: stringMember(value, 'kind') === 'status' ? 'status' : event,
    content: stringMember(value, 'content'),
    created_at: stringMember(value, 'created_at'),
    role: stringMember(value, 'role') === 'user' ? 'user' : 'assistant',
    turn_id: stringMember(value, 'turn_id'),
  }
}

function readEnd(value: unknown, seq: number): RoundEnd {
  const error = stringMember(value, 'error')
  return {
    turn_id: stringMember(value, 'turn_id'),
    status: stringMember(value, 'status'),
    ...(error ? { error } : {}),
    seq,
  }
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
}

function stringMember(value: unknown, name: string): string {
  const found = member(value, name)
  return typeof found === 'string' ? found : ''
}

function numberMember(value: unknown, name: string, otherwise: number): number {
  const found = member(value, name)
  return typeof found === 'number' ? found : otherwise
}
