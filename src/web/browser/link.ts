// The HTTP client of a link: posts messages and streams events.
import { SseDecoder } from '../../lib/http/sse-reader.ts'
import { displayName } from '../text/file-names.ts'
import type { Activity, ToolCall } from './activity.ts'
import type { FileSource, FrameFile } from './files.ts'
import { visitorKeyFor } from './stored.ts'
import { TEXTS, uiText } from './texts.ts'
import { findLostFile, sendForm, type UploadProgress } from './upload.ts'
import type { TopicVersion } from './versions.ts'

/** A message or a status of the stream. */
export interface ChatFrame {
  readonly id: string
  readonly kind: 'message' | 'status'
  readonly content: string
  readonly created_at: string
  readonly role: 'user' | 'assistant'
  readonly turn_id: string
  readonly files: readonly FrameFile[]
  /** The start of an answer that was stopped. */
  readonly isPartial: boolean
  /** Its position on the link. */
  readonly seq: number
  /** Another one than that of the stream if it is in the earlier part of a branch. */
  readonly topic: string
}

export interface RoundEnd {
  readonly turn_id: string
  readonly topic: string
  readonly status: string
  readonly error?: string
  readonly seq: number
}

export interface PostedChatMessage {
  readonly id: string
  readonly content: string
  readonly created_at: string
  readonly files: readonly FrameFile[]
}

interface PostMessage {
  readonly key: string
  readonly topic: string
  readonly content: string
  readonly metadata?: unknown
}

/** A message with files, for the upload. */
interface MessageUpload extends PostMessage {
  readonly files: readonly FrameFile[]
}

/** A response with an error status. Other errors mean that the server was not reached. */
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

  /** Whether the server may have saved the message. */
  get mayHaveBeenAccepted(): boolean {
    return this.status >= 500 && this.status !== 503 && this.status !== 507
  }

  /** Whether the same request may succeed after a while. */
  get isBusy(): boolean {
    return this.status === 429 || this.status === 503
  }

  /** Whether later requests will fail too. */
  get isPermanent(): boolean {
    return this.status === 401 || this.status === 403 || this.status === 404
  }
}

/** A topic with its branches. */
export interface ServerTopic {
  readonly topic: string
  readonly title: string
  /** The branch with the latest message, if that is not the topic itself. */
  readonly latest: string
  readonly mayEdit: boolean
}

/** The server sends at least a comment every 15 s. */
const SILENCE_MS = 40_000
const POST_TIMEOUT_MS = 60_000
const BACKOFF_MS = [1_000, 2_000, 4_000, 8_000, 15_000]
/** Events that a new stream replays. */
const REPLAY_EVENTS = 200

export type StreamConnectionState =
  | { readonly state: 'open' | 'connecting' }
  | { readonly state: 'waiting'; readonly error: unknown }

/** A change of the text that the agent is writing. */
export interface DraftDelta {
  readonly turn_id: string
  /** Offset in code points at which the text replaces the draft. */
  readonly from: number
  readonly text: string
  /** The draft becomes no message. */
  readonly done: boolean
}

interface StreamListener {
  onFrame(frame: ChatFrame): void
  onDraft(delta: DraftDelta): void
  onActivity(activity: Activity): void
  onRoundEnd(end: RoundEnd): void
  onConnection(connection: StreamConnectionState): void
}

/** Grows with each attempt; random, so that many pages do not reconnect at once. */
export function backoffMs(attempt: number): number {
  const max = BACKOFF_MS[Math.min(attempt, BACKOFF_MS.length - 1)] ?? 15_000
  return max * (0.5 + Math.random() / 2)
}

/** The page of the link itself gets a relative URL, so that it does not contain the token. */
export function linkUrl(base: string, path: string): string {
  return new URL('./', location.href).href === base ? path : new URL(path, base).href
}

export class BrowserLinkClient implements FileSource {
  readonly #base: string
  readonly #credentials: RequestCredentials
  readonly #visitor: string
  /** Whether the link keeps its visitors apart, as its streams say before any file is shown. */
  #isApart = false

  constructor(base: string, credentials: RequestCredentials) {
    this.#base = base
    this.#credentials = credentials
    this.#visitor = visitorKeyFor(base)
  }

  /** The server saves a message once per key, however often it is sent. */
  async post({ content, topic, key, metadata }: PostMessage, branchOf?: string): Promise<PostedChatMessage> {
    const response = await this.#fetch('./', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Accept: 'application/json', 'Idempotency-Key': key },
      // A branch without content repeats that of the message, and its files.
      body: JSON.stringify({ content: content || undefined, topic, branch_of: branchOf, metadata }),
      signal: AbortSignal.timeout(POST_TIMEOUT_MS),
    })
    return readPosted(await response.json(), content)
  }

  /** Like `post`, with files. */
  async upload(message: MessageUpload, progress: UploadProgress): Promise<PostedChatMessage> {
    const { key, topic, content, files, metadata } = message
    const form = new FormData()
    form.append('content', content)
    form.append('topic', topic)
    if (metadata !== undefined) form.append('metadata', JSON.stringify(metadata))
    for (const { blob, name } of files) if (blob) form.append('file', blob, name)
    const headers = this.#headers({ Accept: 'application/json', 'Idempotency-Key': key })
    const url = new URL('./', this.#base)
    const request = { url, form, headers, credentials: this.#credentials }
    const response = await sendForm(request, progress).catch(async (error: unknown) => {
      const lost = await findLostFile(files)
      if (!lost) throw error
      throw new ServerRefusal(0, uiText('fileUnreadable', { name: displayName(lost.name, TEXTS) }), undefined, 0)
    })
    if (!response.ok) throw await readRefusal(response)
    return readPosted(await response.json(), content)
  }

  fileUrl(id: string): string | undefined {
    if (this.#isApart) return undefined
    return linkUrl(this.#base, `./files/${encodeURIComponent(id)}`)
  }

  async loadFile(id: string, signal: AbortSignal | null = null): Promise<Blob> {
    return (await this.#fetch(`./files/${encodeURIComponent(id)}`, { signal })).blob()
  }

  /** Stops the answer to a message. */
  async stop(turn: string): Promise<void> {
    const signal = AbortSignal.timeout(POST_TIMEOUT_MS)
    await this.#fetch(`./${turn}/stop`, { method: 'POST', headers: { Accept: 'application/json' }, signal })
  }

  /** `next` is empty on the last page. */
  async topics(query: string, before: string): Promise<{ topics: ServerTopic[]; next: string }> {
    const parameters = new URLSearchParams({ ...(query ? { q: query } : {}), ...(before ? { before } : {}) })
    const response = await this.#fetch(`./topics?${parameters}`, { headers: { Accept: 'application/json' } })
    const page: unknown = await response.json()
    const topics = member(page, 'topics')
    const read = (topic: unknown): ServerTopic => ({
      topic: stringMember(topic, 'topic'),
      title: stringMember(topic, 'title'),
      latest: stringMember(topic, 'latest'),
      mayEdit: member(topic, 'may_edit') === true,
    })
    return { topics: (Array.isArray(topics) ? topics : []).map(read), next: stringMember(page, 'next') }
  }

  async renameTopic(topic: string, title: string): Promise<void> {
    const headers = { 'Content-Type': 'application/json', Accept: 'application/json' }
    const body = JSON.stringify({ title })
    await this.#fetch(`./topics/${encodeURIComponent(topic)}`, { method: 'PATCH', headers, body })
  }

  async deleteTopic(topic: string): Promise<void> {
    const headers = { Accept: 'application/json' }
    await this.#fetch(`./topics/${encodeURIComponent(topic)}`, { method: 'DELETE', headers })
  }

  /** The topic with all branches of its conversation; empty if it is new. */
  async versions(topic: string): Promise<TopicVersion[]> {
    const headers = { Accept: 'application/json' }
    const response = await this.#fetch(`./topics/${encodeURIComponent(topic)}/branches`, { headers })
    const branches = member(await response.json(), 'branches')
    const numberOf = (value: unknown, name: string): number => Number(member(value, name) ?? -1)
    return (Array.isArray(branches) ? branches : []).map((branch: unknown) => ({
      topic: stringMember(branch, 'topic'),
      parent: stringMember(branch, 'parent') || undefined,
      fork: numberOf(branch, 'fork_seq'),
      first: numberOf(branch, 'first_seq'),
      last: numberOf(branch, 'last_seq'),
    }))
  }

  stream(topic: string, listener: StreamListener): LinkStream {
    const query = `./events?topic=${encodeURIComponent(topic)}&last=${REPLAY_EVENTS}&deltas=1`
    return new LinkStream((init) => this.#fetch(query, init), listener)
  }

  /** The headers of each request. */
  #headers(init: HeadersInit | undefined): Headers {
    const headers = new Headers(init)
    // Links that do not keep visitors apart ignore it.
    headers.set('X-Visitor', this.#visitor)
    return headers
  }

  async #fetch(path: string, init: RequestInit): Promise<Response> {
    const response = await fetch(new URL(path, this.#base), {
      cache: 'no-store',
      credentials: this.#credentials,
      referrerPolicy: 'no-referrer',
      redirect: 'error',
      ...init,
      headers: this.#headers(init.headers),
    })
    if (!response.ok) throw await readRefusal(response)
    this.#isApart ||= response.headers.has('X-Visitor')
    return response
  }
}

/** Reconnects until it is stopped, and resumes after the last event. */
export class LinkStream {
  readonly #open: (init: RequestInit) => Promise<Response>
  readonly #listener: StreamListener
  #lastId = ''
  #lastReadAt = 0
  /** Counts starts and stops, so that an earlier loop ends. */
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

  /** Ends the back-off and drops a silent connection, after the machine wakes up or the network is back. */
  wake(): void {
    this.#endPause?.()
    if (Date.now() - this.#lastReadAt > SILENCE_MS / 2) this.#attempt?.abort()
  }

  async #keepOpen(run: number): Promise<void> {
    for (let failures = 0; run === this.#run; failures++) {
      const attempt = new AbortController()
      this.#attempt = attempt
      let failure: unknown
      try {
        this.#listener.onConnection({ state: 'connecting' })
        await this.#readEvents(attempt, () => {
          failures = 0
        })
      } catch (error) {
        failure = error
      }
      if (run !== this.#run) return
      this.#listener.onConnection({ state: 'waiting', error: failure })
      if (failure instanceof ServerRefusal && failure.isPermanent) this.stop()
      const retryAfterMs = failure instanceof ServerRefusal ? failure.retryAfter * 1_000 : 0
      if (run === this.#run) await this.#pause(Math.max(retryAfterMs, backoffMs(failures)))
    }
  }

  async #readEvents(attempt: AbortController, onOpen: () => void): Promise<void> {
    let silenceTimer: ReturnType<typeof setTimeout> | undefined
    const startSilenceTimer = (): void => {
      clearTimeout(silenceTimer)
      silenceTimer = setTimeout(() => attempt.abort(), SILENCE_MS)
    }
    startSilenceTimer()
    try {
      const headers = { Accept: 'text/event-stream', ...(this.#lastId ? { 'Last-Event-ID': this.#lastId } : {}) }
      const { body } = await this.#open({ headers, signal: attempt.signal })
      const reader = body?.getReader()
      this.#lastReadAt = Date.now()
      onOpen()
      this.#listener.onConnection({ state: 'open' })
      const events = new SseDecoder()
      for (;;) {
        const { value } = (await reader?.read()) ?? {}
        if (!value || attempt.signal.aborted) return
        startSilenceTimer()
        this.#lastReadAt = Date.now()
        for (const { id, event, data } of events.push(value)) this.#handleEvent(id, event, data)
      }
    } finally {
      clearTimeout(silenceTimer)
    }
  }

  #handleEvent(id: string, event: string, data: string): void {
    if (event === 'delta') {
      this.#listener.onDraft(readDelta(JSON.parse(data)))
      return
    }
    if (event === 'activity') {
      this.#listener.onActivity(readActivity(JSON.parse(data)))
      return
    }
    // The ids of a link increase, so an event up to the last one is already shown.
    if (this.#lastId !== '' && Number(id) <= Number(this.#lastId)) return
    this.#lastId = id
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

async function readRefusal(response: Response): Promise<ServerRefusal> {
  // A proxy may answer with a page of its own.
  const problem: unknown = await response.json().catch(() => undefined)
  const after = Number(response.headers.get('Retry-After'))
  const detail = stringMember(problem, 'detail') || uiText('serverAnswered', { status: response.status })
  const hint = stringMember(problem, 'hint') || undefined
  return new ServerRefusal(response.status, detail, hint, after > 0 ? Math.min(after, 3_600) : 0)
}

function readPosted(response: unknown, content: string): PostedChatMessage {
  const user = member(response, 'user')
  return {
    id: stringMember(user, 'id'),
    content: stringMember(user, 'content') || content,
    created_at: stringMember(user, 'created_at'),
    files: readFiles(user),
  }
}

function readFiles(value: unknown): FrameFile[] {
  const files = member(value, 'files')
  return Array.isArray(files) ? files.map(readFile) : []
}

function readFile(value: unknown): FrameFile {
  const [size, transcript] = [member(value, 'size'), stringMember(value, 'transcript')]
  return {
    id: stringMember(value, 'id'),
    name: stringMember(value, 'name'),
    type: stringMember(value, 'type'),
    size: typeof size === 'number' ? size : 0,
    ...(transcript ? { transcript } : {}),
  }
}

function readFrame(value: unknown, event: 'message' | 'status'): Omit<ChatFrame, 'seq'> {
  return {
    id: stringMember(value, 'id'),
    kind: stringMember(value, 'kind') === 'status' ? 'status' : event,
    content: stringMember(value, 'content'),
    created_at: stringMember(value, 'created_at'),
    role: stringMember(value, 'role') === 'user' ? 'user' : 'assistant',
    turn_id: stringMember(value, 'turn_id'),
    files: readFiles(value),
    topic: stringMember(value, 'topic'),
    isPartial: member(value, 'partial') === true,
  }
}

function readDelta(value: unknown): DraftDelta {
  const from = member(value, 'from')
  return {
    turn_id: stringMember(value, 'turn_id'),
    from: typeof from === 'number' ? from : 0,
    text: stringMember(value, 'text'),
    done: member(value, 'done') === true,
  }
}

function readActivity(value: unknown): Activity {
  const detail = member(value, 'detail')
  const calls = Array.isArray(detail) ? detail.map(readCall) : []
  return { turn_id: stringMember(value, 'turn_id'), text: stringMember(value, 'text'), calls }
}

function readCall(value: unknown): ToolCall {
  const [n, ms] = [member(value, 'n'), member(value, 'ms')]
  return {
    n: typeof n === 'number' ? n : 0,
    tool: stringMember(value, 'tool'),
    args: stringMember(value, 'arguments'),
    state: stringMember(value, 'state'),
    ms: typeof ms === 'number' ? ms : undefined,
  }
}

function readEnd(value: unknown, seq: number): RoundEnd {
  const error = stringMember(value, 'error')
  return {
    turn_id: stringMember(value, 'turn_id'),
    topic: stringMember(value, 'topic'),
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
