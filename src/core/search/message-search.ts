// The search index over an engine: filled from the store before each question, and in the background where it is told to
// follow. Nothing is opened before somebody asks.
import { setTimeout as pause } from 'node:timers/promises'
import type { CommitSignals } from '../../lib/commit-signals.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { Engine } from '../../store/engine.ts'
import { FullTextIndex } from '../../store/search/full-text.ts'
import type { FullTextHit, FullTextQuery, IndexUpdate } from '../../store/search/full-text-protocol.ts'
import { nextIndexBatch } from './search-feed.ts'
import type { SearchHit, SearchIndex, SearchRequest } from './search-index.ts'

export interface SearchOptions {
  /** How long a search may take, with the time until the index is filled. */
  readonly deadlineMs?: number | undefined
  readonly onBackgroundError?: ((error: unknown) => void) | undefined
  /** How long after a failure it is filled again. */
  readonly retryMs?: number | undefined
}

const DEADLINE_MS = 5000
/** In the background others come first: a piece, then a pause, which is longer while the machine has more to do. */
const PAUSE_MS = 20
const PAUSE_FACTOR = 4
/** So long after a word of something new: what comes in the meantime goes with it. */
const SETTLE_MS = 1000
/** After a failure, such as a full disk. */
const AGAIN_MS = 10_000
const TRIES = 5

export function openSearchIndex(engine: Engine, path: string, options: SearchOptions = {}): SearchIndex {
  return new MessageSearch(engine, path, options)
}

class MessageSearch implements SearchIndex {
  readonly #engine: Engine
  readonly #options: SearchOptions
  readonly #text: FullTextIndex
  readonly #stopping = new AbortController()
  /** Where the index stands, as far as is known here. */
  #mark: string | undefined
  #filling: Promise<void> | undefined
  #next: Promise<void> | undefined
  /** How many wait for it: then it does not pause. */
  #hurried = 0
  #soon: NodeJS.Timeout | undefined
  #unfollow: (() => void) | undefined

  constructor(engine: Engine, path: string, options: SearchOptions) {
    this.#engine = engine
    this.#options = options
    this.#text = new FullTextIndex(path, options.onBackgroundError)
  }

  async search(ask: SearchRequest): Promise<SearchHit[]> {
    const deadline = performance.now() + (this.#options.deadlineMs ?? DEADLINE_MS)
    let found: readonly FullTextHit[] | undefined
    // Another process may have moved the index in between, or it was found damaged: then it is filled, and asked again.
    for (let tries = 0; !found && tries < TRIES; tries++) {
      await this.#filled(deadline - performance.now())
      found = await this.#text.find(questionOf(ask, this.#mark), deadline - performance.now())
      if (!found) this.#mark = undefined
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
    this.#unfollow ??= signals.on(() => this.#later(SETTLE_MS))
    this.#later(0)
  }

  async close(): Promise<void> {
    this.#stopping.abort()
    this.#unfollow?.()
    clearTimeout(this.#soon)
    await Promise.all([this.#filling?.catch(() => {}), this.#text.close()])
  }

  #later(ms: number): void {
    if (this.#soon || this.#stopping.signal.aborted) return
    this.#soon = setTimeout(() => {
      this.#soon = undefined
      this.#fresh().catch((error) => this.#failed(error))
    }, ms).unref()
  }

  /** What is wrong with the index or the store was said where it happened. */
  #failed(error: unknown): void {
    if (!(error instanceof Refusal)) this.#options.onBackgroundError?.(error)
    this.#later(this.#options.retryMs ?? AGAIN_MS)
  }

  /** Until all that is committed now is in the index, if that is soon. */
  async #filled(deadlineMs: number): Promise<void> {
    const late = Promise.withResolvers<never>()
    const refusal = new Refusal('unavailable', BUILDING, 'try again in a minute')
    const timer = setTimeout(() => late.reject(refusal), Math.max(0, deadlineMs))
    this.#hurried++
    try {
      await Promise.race([this.#fresh(), late.promise])
    } finally {
      this.#hurried--
      clearTimeout(timer)
    }
  }

  /** What runs already may have looked too early: whoever comes meanwhile waits for the one after it. */
  #fresh(): Promise<void> {
    if (!this.#filling) {
      this.#filling = this.#fill().finally(() => {
        this.#filling = undefined
      })
      return this.#filling
    }
    this.#next ??= this.#filling
      .catch(() => {})
      .then(() => {
        this.#next = undefined
        return this.#fresh()
      })
    return this.#next
  }

  async #fill(): Promise<void> {
    const { signal } = this.#stopping
    this.#mark ??= await this.#text.mark()
    while (!signal.aborted) {
      const mark: string = this.#mark
      const started = performance.now()
      const filling = await this.#engine.read((tx) => nextIndexBatch(tx, mark))
      if (filling === undefined) return
      this.#mark = await (filling === 'foreign' ? this.#text.reset() : this.#text.update(filling))
      if (this.#hurried > 0) continue
      // A commit for each few messages would write more than the messages themselves: what comes now goes together later.
      if (filling !== 'foreign' && isSmall(filling)) return this.#later(SETTLE_MS)
      // Whoever closes waits for this, and a pause alone keeps no process running.
      const pauseMs = Math.max(PAUSE_MS, PAUSE_FACTOR * (performance.now() - started))
      await pause(pauseMs, undefined, { ref: false, signal }).catch(() => undefined)
    }
  }
}

/** So little is not worth going on for at once. */
const SMALL = { entries: 200, bytes: 128 * 1024 }

function isSmall({ added, changed, moved, removed }: IndexUpdate): boolean {
  const bytes = [...added, ...changed].reduce((sum, { content }) => sum + content.byteLength, 0)
  return bytes < SMALL.bytes && added.length + changed.length + moved.length + removed.length < SMALL.entries
}

const BUILDING = 'the search index is still being built'

function questionOf(ask: SearchRequest, mark = ''): FullTextQuery {
  const { query, jid, below, sender, since, limit, reach, except = [] } = ask
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
