// Search over messages: the full-text index is updated from the store before each search, and in the background after
// follow(). It is opened on first use.
import { setTimeout as pause } from 'node:timers/promises'
import type { CommitSignals } from '../../lib/commit-signals.ts'
import { guard, throwUncaught } from '../../lib/fault-boundary.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { Engine } from '../../store/engine.ts'
import { FullTextIndex } from '../../store/search/full-text.ts'
import type { FullTextHit, FullTextQuery, IndexUpdate } from '../../store/search/full-text-protocol.ts'
import { nextIndexBatch } from './search-feed.ts'
import type { SearchHit, SearchIndex, SearchRequest } from './search-index.ts'

export interface SearchOptions {
  /** Timeout of a search, including the update of the index. */
  readonly deadlineMs?: number | undefined
  readonly onBackgroundError?: ((error: unknown) => void) | undefined
  /** Delay before an update is retried after a failure. */
  readonly retryMs?: number | undefined
}

const DEADLINE_MS = 5000
/** Background updates pause after each batch, longer when the machine is busy, to leave it to others. */
const PAUSE_MS = 20
const PAUSE_FACTOR = 4
/** Delay after a commit, so that further messages are indexed together. */
const SETTLE_MS = 1000
const RETRY_MS = 10_000
const ATTEMPTS = 5

export function openSearchIndex(engine: Engine, path: string, options: SearchOptions = {}): SearchIndex {
  return new MessageSearch(engine, path, options)
}

class MessageSearch implements SearchIndex {
  readonly #engine: Engine
  readonly #options: SearchOptions
  readonly #text: FullTextIndex
  readonly #stopping = new AbortController()
  /** Last known position of the index in the store. */
  #position: string | undefined
  #update: Promise<void> | undefined
  #nextUpdate: Promise<void> | undefined
  /** Searches that wait for an update, which then does not pause. */
  #waiting = 0
  #timer: NodeJS.Timeout | undefined
  #unfollow: (() => void) | undefined

  constructor(engine: Engine, path: string, options: SearchOptions) {
    this.#engine = engine
    this.#options = options
    this.#text = new FullTextIndex(path, options.onBackgroundError)
  }

  async search(request: SearchRequest): Promise<SearchHit[]> {
    const deadline = performance.now() + (this.#options.deadlineMs ?? DEADLINE_MS)
    let found: readonly FullTextHit[] | undefined
    // `find` returns undefined if another process has updated the index or it was damaged: update and search again.
    for (let attempt = 0; !found && attempt < ATTEMPTS; attempt++) {
      await this.#waitForUpdate(deadline - performance.now())
      const query = toTextQuery(request, this.#position)
      found = await this.#text.find(query, deadline - performance.now(), request.requester)
      if (!found) this.#position = undefined
    }
    return (found ?? refuse('unavailable', BUILDING)).map(({ name, place, path, author, at, snippet, rank }) => ({
      id: name,
      chat_jid: place,
      sender: author,
      timestamp: at,
      content: snippet,
      rank,
      folder: path ?? undefined,
    }))
  }

  follow(signals: CommitSignals): void {
    this.#unfollow ??= signals.on(() => this.#scheduleUpdate(SETTLE_MS))
    this.#scheduleUpdate(0)
  }

  async close(): Promise<void> {
    this.#stopping.abort()
    this.#unfollow?.()
    clearTimeout(this.#timer)
    await Promise.all([this.#update?.catch(() => {}), this.#text.close()])
  }

  #scheduleUpdate(ms: number): void {
    if (this.#timer || this.#stopping.signal.aborted) return
    const { onBackgroundError = throwUncaught, retryMs = RETRY_MS } = this.#options
    const update = (): void => {
      this.#timer = undefined
      this.#startUpdate().catch((error) => {
        // Refusals of the index and the store were reported where they were thrown.
        if (!(error instanceof Refusal)) onBackgroundError(error)
        this.#scheduleUpdate(retryMs)
      })
    }
    this.#timer = setTimeout(guard(onBackgroundError, update), ms).unref()
  }

  /** Resolves when everything committed before the call is in the index; rejects at the deadline. */
  async #waitForUpdate(deadlineMs: number): Promise<void> {
    const deadline = Promise.withResolvers<never>()
    const refusal = new Refusal('unavailable', BUILDING, 'try again in a minute')
    const timer = setTimeout(() => deadline.reject(refusal), Math.max(0, deadlineMs))
    this.#waiting++
    try {
      await Promise.race([this.#startUpdate(), deadline.promise])
    } finally {
      this.#waiting--
      clearTimeout(timer)
    }
  }

  /** A running update may have missed the latest commits, so callers share the one that follows it. */
  #startUpdate(): Promise<void> {
    if (!this.#update) {
      this.#update = this.#updateIndex().finally(() => {
        this.#update = undefined
      })
      return this.#update
    }
    this.#nextUpdate ??= this.#update
      .catch(() => {})
      .then(() => {
        this.#nextUpdate = undefined
        return this.#startUpdate()
      })
    return this.#nextUpdate
  }

  async #updateIndex(): Promise<void> {
    const { signal } = this.#stopping
    this.#position ??= await this.#text.mark()
    while (!signal.aborted) {
      const position: string = this.#position
      const started = performance.now()
      const batch = await this.#engine.read((tx) => nextIndexBatch(tx, position))
      if (batch === undefined) return
      this.#position = await (batch === 'foreign' ? this.#text.reset() : this.#text.update(batch))
      if (this.#waiting > 0) continue
      // A commit of the index for every few messages would write more bytes than the messages have.
      if (batch !== 'foreign' && isSmall(batch)) return this.#scheduleUpdate(SETTLE_MS)
      const pauseMs = Math.max(PAUSE_MS, PAUSE_FACTOR * (performance.now() - started))
      await pause(pauseMs, undefined, { ref: false, signal }).catch(() => undefined)
    }
  }
}

/** Smaller batches wait for further messages. */
const SMALL = { entries: 200, bytes: 128 * 1024 }

function isSmall({ added, changed, moved, removed }: IndexUpdate): boolean {
  const bytes = [...added, ...changed].reduce((sum, { content }) => sum + content.byteLength, 0)
  return bytes < SMALL.bytes && added.length + changed.length + moved.length + removed.length < SMALL.entries
}

const BUILDING = 'the search index is still being built'

function toTextQuery(request: SearchRequest, mark = ''): FullTextQuery {
  const { query, jid, below, sender, since, limit, reach, except = [] } = request
  return {
    mark,
    query,
    limit,
    place: jid,
    author: sender,
    since,
    within: [...(below === undefined ? [] : [[below]]), ...(reach === undefined ? [] : [reach])],
    except,
  }
}
