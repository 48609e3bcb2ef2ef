// Tells open pages that something was committed, or written by an agent; a page then reloads its live part with its own rights. While nothing changes,
// nothing is read.
import { randomInt } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import type { FaultBoundary } from '../../lib/fault-boundary.ts'
import { SSE_COMMENT, SSE_CONTENT_TYPE } from '../../lib/http/sse-writer.ts'
import { refuse } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { draftTextsOf } from '../process/draft-texts.ts'
import { turnActivitiesOf } from '../process/turn-activities.ts'

/** Pages reload at most this often, and less often if many are open. */
const INTERVAL_MS = 1000
const INTERVAL_PER_PAGE_MS = 20
const ALIVE_MS = 15_000
/** Limit of unsent bytes; a browser that does not read is disconnected and comes back. */
const UNSENT_MAX = 16 * 1024
/** Open pages of one person; more than a person needs, and few enough to leave room for others. */
export const PAGES_PER_PERSON_MAX = 1000

export const LIVE_EVENT = 'svc:changed'
/** Says that the connection works: the script of a page does not see comments. */
const ALIVE_EVENT = 'svc:alive'
/** Closes the stream of a page for good. */
export const LIVE_END_EVENT = 'svc:ended'

export class LiveUpdates {
  readonly #streams = new Set<ServerResponse>()
  readonly #countOf = new Map<string, number>()
  readonly #stops: (() => void)[] = []
  readonly #faults: FaultBoundary
  #timer: NodeJS.Timeout | undefined
  /** Another start in every process, so that a page of an earlier process is not taken for current. */
  #version = randomInt(2 ** 47)

  constructor(host: Pick<InstanceHost, 'engine' | 'signals' | 'faults' | 'drafts'>) {
    const { engine, signals, faults } = host
    this.#faults = faults
    const alive = setInterval(() => this.#send(`event: ${ALIVE_EVENT}\ndata: {}\n\n`), ALIVE_MS).unref()
    const changed = (): void => this.#changed()
    const written = [draftTextsOf(host).changes.on(changed), turnActivitiesOf(host).changes.on(changed)]
    this.#stops.push(() => clearInterval(alive), signals.on(changed), engine.listen(changed), ...written)
  }

  /** Changes with every commit. Pages remember it, so that a stream that starts later misses nothing. */
  get version(): string {
    return String(this.#version)
  }

  /** `person`: who opens the page; `seen`: the version that it shows. */
  open(response: ServerResponse, person: string, seen: string | undefined): void {
    // A destroyed response emits no further 'close'.
    if (response.destroyed) return
    const count = this.#countOf.get(person) ?? 0
    if (count >= PAGES_PER_PERSON_MAX)
      refuse('rate_limited', `you have ${PAGES_PER_PERSON_MAX} live pages open`, 'close some of them')
    response.writeHead(200, {
      'Content-Type': SSE_CONTENT_TYPE,
      'Cache-Control': 'no-store',
      'X-Accel-Buffering': 'no',
    })
    response.write(seen === this.version ? SSE_COMMENT : this.#event())
    this.#streams.add(response)
    this.#countOf.set(person, count + 1)
    response.once('close', () => this.#forget(response, person))
  }

  close(): void {
    clearTimeout(this.#timer)
    for (const stop of this.#stops) stop()
    for (const response of this.#streams) response.end()
  }

  #forget(response: ServerResponse, person: string): void {
    this.#streams.delete(response)
    const left = (this.#countOf.get(person) ?? 0) - 1
    if (left > 0) this.#countOf.set(person, left)
    else this.#countOf.delete(person)
  }

  #changed(): void {
    this.#version++
    const interval = Math.max(INTERVAL_MS, this.#streams.size * INTERVAL_PER_PAGE_MS)
    if (this.#streams.size > 0) this.#timer ??= setTimeout(() => this.#flush(), interval).unref()
  }

  #flush(): void {
    this.#timer = undefined
    this.#send(this.#event())
  }

  #event(): string {
    return `id: ${this.version}\nevent: ${LIVE_EVENT}\ndata: {}\n\n`
  }

  #send(text: string): void {
    for (const response of this.#streams) {
      try {
        if (response.writableLength > UNSENT_MAX) response.destroy()
        else response.write(text)
      } catch (error) {
        this.#faults.report('stream', error)
        response.destroy()
      }
    }
  }
}
