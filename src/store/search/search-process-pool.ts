// The processes that search a full text. They are processes because SQLite's statements cannot be interrupted from
// JavaScript: a thread would go on until its query is over, a process that is killed ends at once.
import { type ChildProcess, fork } from 'node:child_process'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Refusal } from '../../lib/refusal.ts'
import type { FullTextQuery, FullTextReply } from './full-text.ts'

/** So many searches run at once: a slow one does not hold up the others. */
const PROCESSES = 2
/** A process without work ends after this time. */
const IDLE_MS = 60_000

// Not `./full-text-process.ts`: of a package that was compiled it is `.js`.
const ENTRY = fileURLToPath(new URL(`./full-text-process${extname(import.meta.url)}`, import.meta.url))

const closing = (): Refusal => new Refusal('unavailable', 'the search is closing')
const tooLong = (): Refusal => new Refusal('unavailable', 'the search took too long', 'ask for fewer or rarer words')
const busy = (): Refusal =>
  new Refusal('unavailable', 'the search is busy with slow queries of others', 'try again in a minute')

export class SearchProcessPool {
  readonly #path: string
  readonly #idle = new Set<SearchProcess>()
  readonly #running = new Set<SearchProcess>()
  readonly #waiting = new Set<PromiseWithResolvers<void>>()
  #isClosed = false

  constructor(path: string) {
    this.#path = path
  }

  /** `deadlineMs` counts from now, the time until a process is free included. */
  async find(question: FullTextQuery, deadlineMs: number): Promise<FullTextReply> {
    const deadline = performance.now() + deadlineMs
    while (this.#running.size >= PROCESSES) await this.#turn(deadline - performance.now())
    if (this.#isClosed) throw closing()
    const [finder = this.#open()] = this.#idle
    this.#idle.delete(finder)
    this.#running.add(finder)
    try {
      const answer = await finder.ask(question, deadline - performance.now())
      this.#idle.add(finder)
      return answer
    } finally {
      this.#running.delete(finder)
      const [next] = this.#waiting
      next?.resolve()
    }
  }

  /** Ends running searches at once. */
  async close(): Promise<void> {
    this.#isClosed = true
    for (const waiting of this.#waiting) waiting.reject(closing())
    await Promise.all([...this.#running, ...this.#idle].map((finder) => finder.end(closing())))
  }

  #open(): SearchProcess {
    const finder = new SearchProcess(this.#path, () => this.#idle.delete(finder))
    return finder
  }

  async #turn(deadlineMs: number): Promise<void> {
    const waiting = Promise.withResolvers<void>()
    this.#waiting.add(waiting)
    const timer = setTimeout(() => waiting.reject(busy()), Math.max(0, deadlineMs))
    try {
      await waiting.promise
    } finally {
      clearTimeout(timer)
      this.#waiting.delete(waiting)
    }
  }
}

class SearchProcess {
  readonly #child: ChildProcess
  readonly #ended: Promise<void>
  #asked: PromiseWithResolvers<FullTextReply> | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(path: string, onEnd: () => void) {
    // It gets nothing of the environment, where secrets may be.
    this.#child = fork(ENTRY, [path], { env: {}, execArgv: [], stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    this.#child.on('message', (answer: FullTextReply) => this.#asked?.resolve(answer))
    const ended = Promise.withResolvers<void>()
    this.#ended = ended.promise
    const end = (error: unknown): void => {
      onEnd()
      this.#asked?.reject(error)
      ended.resolve()
    }
    this.#child.on('error', end)
    this.#child.on('exit', (code, signal) => end(new Error(`the search process ended with ${signal ?? code}`)))
  }

  async ask(question: FullTextQuery, deadlineMs: number): Promise<FullTextReply> {
    clearTimeout(this.#timer)
    this.#ref(true)
    const asked = Promise.withResolvers<FullTextReply>()
    this.#asked = asked
    const timer = setTimeout(() => void this.end(tooLong()), Math.max(0, deadlineMs))
    try {
      this.#child.send(question, (error) => error && asked.reject(error))
      const answer = await asked.promise
      this.#timer = setTimeout(() => void this.end(closing()), IDLE_MS).unref()
      this.#ref(false)
      return answer
    } catch (error) {
      void this.end(error)
      throw error
    } finally {
      clearTimeout(timer)
      this.#asked = undefined
    }
  }

  end(error: unknown): Promise<void> {
    clearTimeout(this.#timer)
    this.#asked?.reject(error)
    this.#ref(true)
    this.#child.kill('SIGKILL')
    return this.#ended
  }

  /** Without work it does not keep this process running. */
  #ref(isWanted: boolean): void {
    this.#child[isWanted ? 'ref' : 'unref']()
    this.#child.channel?.[isWanted ? 'ref' : 'unref']()
  }
}
