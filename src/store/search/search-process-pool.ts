// The processes that search a full-text index. SQLite statements cannot be interrupted from JavaScript: a thread would run
// until its query ends, but a process can be killed at once.
import { type ChildProcess, fork } from 'node:child_process'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Refusal } from '../../lib/refusal.ts'
import type { FullTextQuery, FullTextReply } from './full-text-protocol.ts'

/** Number of searches that run at once. */
const PROCESSES = 2
/** At least one process is left for others. */
const PROCESSES_PER_REQUESTER = 1
/** An idle process ends after this time. */
const IDLE_MS = 60_000

// The extension is `.js` in the compiled package.
const ENTRY = fileURLToPath(new URL(`./full-text-process${extname(import.meta.url)}`, import.meta.url))

const closingError = (): Refusal => new Refusal('unavailable', 'the search is closing')
const timeoutError = (): Refusal =>
  new Refusal('unavailable', 'the search took too long', 'search for fewer or rarer words')
const busyError = (): Refusal =>
  new Refusal('unavailable', 'the search is busy with slow queries', 'try again in a minute')

/** The person or folder that searches. */
export type Requester = string | symbol

interface WaitingSearch {
  readonly requester: Requester
  readonly process: PromiseWithResolvers<void>
}

export class SearchProcessPool {
  readonly #path: string
  readonly #idle = new Set<SearchProcess>()
  readonly #running = new Set<SearchProcess>()
  readonly #waiting = new Set<WaitingSearch>()
  /** Searches that have a process, by requester. */
  readonly #started = new Map<Requester, number>()
  /** When each requester with waiting searches last got a process. */
  readonly #servedAt = new Map<Requester, number>()
  #searches = 0
  #isClosed = false

  constructor(path: string) {
    this.#path = path
  }

  /**
   * The deadline includes the wait for a free process. Requesters wait in turn, and none has all processes, so that slow
   * searches of one do not make those of others fail. Searches without a requester count as one each.
   */
  async find(
    query: FullTextQuery,
    deadlineMs: number,
    requester: Requester = Symbol('search'),
  ): Promise<FullTextReply> {
    const deadline = performance.now() + deadlineMs
    if (this.#isClosed) throw closingError()
    if (this.#canStart(requester)) this.#start(requester)
    else await this.#waitForProcess(requester, deadlineMs)
    try {
      return await this.#search(query, deadline)
    } finally {
      this.#end(requester)
    }
  }

  async #search(query: FullTextQuery, deadline: number): Promise<FullTextReply> {
    if (this.#isClosed) throw closingError()
    const [searcher = this.#open()] = this.#idle
    this.#idle.delete(searcher)
    this.#running.add(searcher)
    try {
      const reply = await searcher.search(query, deadline - performance.now())
      this.#idle.add(searcher)
      return reply
    } finally {
      this.#running.delete(searcher)
    }
  }

  #canStart(requester: Requester): boolean {
    return this.#total() < PROCESSES && (this.#started.get(requester) ?? 0) < PROCESSES_PER_REQUESTER
  }

  #total(): number {
    return [...this.#started.values()].reduce((sum, count) => sum + count, 0)
  }

  #start(requester: Requester): void {
    this.#started.set(requester, (this.#started.get(requester) ?? 0) + 1)
    this.#servedAt.set(requester, ++this.#searches)
  }

  /** Hands the process over at once, so that no later search takes it. */
  #end(requester: Requester): void {
    const left = (this.#started.get(requester) ?? 1) - 1
    if (left > 0) this.#started.set(requester, left)
    else this.#started.delete(requester)
    const servedAt = (each: WaitingSearch): number => this.#servedAt.get(each.requester) ?? 0
    const ready = [...this.#waiting].filter((each) => this.#canStart(each.requester))
    const next = ready.sort((one, other) => servedAt(one) - servedAt(other))[0]
    if (next) {
      this.#waiting.delete(next)
      this.#start(next.requester)
      next.process.resolve()
    }
    for (const each of this.#servedAt.keys())
      if (!this.#started.has(each) && ![...this.#waiting].some((waiting) => waiting.requester === each))
        this.#servedAt.delete(each)
  }

  /** Ends running searches at once. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const { process } of this.#waiting) process.reject(closingError())
    this.#waiting.clear()
    await Promise.all([...this.#running, ...this.#idle].map((searcher) => searcher.end(closingError())))
  }

  #open(): SearchProcess {
    return new SearchProcess(this.#path, this.#idle)
  }

  /** Resolves when the search has its process. */
  async #waitForProcess(requester: Requester, deadlineMs: number): Promise<void> {
    const waiting = { requester, process: Promise.withResolvers<void>() }
    this.#waiting.add(waiting)
    const timer = setTimeout(
      () => {
        if (this.#waiting.delete(waiting)) waiting.process.reject(busyError())
      },
      Math.max(0, deadlineMs),
    )
    try {
      await waiting.process.promise
    } finally {
      clearTimeout(timer)
    }
  }
}

class SearchProcess {
  readonly #child: ChildProcess
  readonly #ended: Promise<void>
  #reply: PromiseWithResolvers<FullTextReply> | undefined
  #idleTimer: NodeJS.Timeout | undefined

  /** Removes itself from `idle` when it has ended. */
  constructor(path: string, idle: Set<SearchProcess>) {
    // The environment may contain secrets.
    this.#child = fork(ENTRY, [path], { env: {}, execArgv: [], stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    this.#child.on('message', (reply: FullTextReply) => this.#reply?.resolve(reply))
    const ended = Promise.withResolvers<void>()
    this.#ended = ended.promise
    const onEnd = (error: unknown): void => {
      idle.delete(this)
      this.#reply?.reject(error)
      ended.resolve()
    }
    this.#child.on('error', onEnd)
    this.#child.on('exit', (code, signal) => onEnd(new Error(`the search process ended with ${signal ?? code}`)))
  }

  async search(query: FullTextQuery, deadlineMs: number): Promise<FullTextReply> {
    clearTimeout(this.#idleTimer)
    this.#ref(true)
    const reply = Promise.withResolvers<FullTextReply>()
    this.#reply = reply
    const timer = setTimeout(() => void this.end(timeoutError()), Math.max(0, deadlineMs))
    try {
      this.#child.send(query, (error) => error && reply.reject(error))
      const found = await reply.promise
      this.#idleTimer = setTimeout(() => void this.end(closingError()), IDLE_MS).unref()
      this.#ref(false)
      return found
    } catch (error) {
      void this.end(error)
      throw error
    } finally {
      clearTimeout(timer)
      this.#reply = undefined
    }
  }

  end(error: unknown): Promise<void> {
    clearTimeout(this.#idleTimer)
    this.#reply?.reject(error)
    this.#ref(true)
    this.#child.kill('SIGKILL')
    return this.#ended
  }

  /** An idle child does not keep this process alive. */
  #ref(isBusy: boolean): void {
    for (const handle of [this.#child, this.#child.channel])
      if (isBusy) handle?.ref()
      else handle?.unref()
  }
}
