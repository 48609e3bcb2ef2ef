// The open event streams. Each feed is read from the store once for all its subscribers. Commit signals trigger the reads,
// and a poll twice a second finds what no signal announced, such as commits of other processes.
import type { Writable } from 'node:stream'
import { lastEventNumbers } from '../../core/chats/chat-events.ts'
import { readRoundHeads } from '../../core/turns/rounds.ts'
import { SSE_COMMENT } from '../../lib/http/sse-writer.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'
import { bytes, placeholders, query } from '../../store/statement.ts'
import { draftTextsOf } from '../process/draft-texts.ts'
import { turnActivitiesOf } from '../process/turn-activities.ts'
import { ActivityStreams } from './activity-streams.ts'
import { type DraftReader, DraftStreams } from './draft-streams.ts'
import { findReplaceable } from './fair-share.ts'
import { latin1 } from './link-cache.ts'
import {
  type CallReader,
  isStillOwner,
  type LinkVisitor,
  mayStillReadCalls,
  type PersonChatOwner,
} from './link-visitor.ts'

export interface FeedEvent {
  readonly seq: number
  /** Serialized server-sent event. */
  readonly text: string
  readonly topic?: string | undefined
  /** Folder that sent or received the message. */
  readonly folder?: string | undefined
}

export interface FeedPage {
  readonly events: readonly FeedEvent[]
  /** All events up to this sequence number have been read. */
  readonly until: number
  readonly isMore: boolean
  /** The feed has ended for good. */
  readonly isOver: boolean
}

/** A round by its id, or a chat by its JID. */
export interface EventFeed {
  readonly kind: 'round' | 'chat'
  readonly name: string
  /** With a topic, a page may omit events of other topics. */
  read(tx: Tx, after: number, topic?: string): Promise<FeedPage>
}

export interface StreamSubscriber {
  /** The response, or what writes it. Gets each event with one write. */
  readonly response: Writable
  /** Sequence number of the last event that was sent. */
  after: number
  /** Reconnection delay, sent with the first event. */
  retryMs?: number | undefined
  /** Only events of this topic; '' is the main topic. */
  readonly topic?: string | undefined
  /** Only events of this folder: another folder may have taken over the chat of a revoked link. */
  readonly folder?: string | undefined
  readonly link: { readonly key: string; readonly hash: Uint8Array }
  /** Of the client (`clientNetwork`). */
  readonly network: string
  /** Whether it gets drafts. */
  readonly hasDrafts?: boolean
  /** Set if it gets the tool calls, too. */
  readonly callReader?: CallReader | undefined
  /** Set for the chat of a person. */
  readonly guard?: StreamGuard | undefined
}

/** The stream ends with the session and with the right of the person. */
export interface StreamGuard {
  readonly owner: PersonChatOwner
  readonly visitor: LinkVisitor
}

export interface StreamLimits {
  readonly all: number
  readonly perLink: number
  readonly unreadMs?: number
}

const POLL_MS = 500
const COMMENT_MS = 15_000
/** Limit of buffered bytes per response; one event more may exceed it. */
export const UNSENT_MAX = 64 * 1024
/** A client that does not read for this long is disconnected. */
const UNREAD_MS = 30_000
const BATCH_SIZE = 500

interface OpenFeed {
  readonly source: EventFeed
  readonly subscribers: Set<StreamSubscriber>
  /** Sequence number of the last event that was read for all subscribers. */
  head: number
  isReading: boolean
  isStale: boolean
}

export class Streams {
  readonly #host: InstanceHost
  readonly #limits: StreamLimits
  readonly #feeds = new Map<string, OpenFeed>()
  /** Keys of feeds with a scheduled read. */
  readonly #scheduled = new Set<string>()
  /** Oldest first. */
  readonly #ofLink = new Map<string, Set<StreamSubscriber>>()
  readonly #subscribers = new Set<StreamSubscriber>()
  readonly #stops: (() => void)[] = []
  readonly #drafts: DraftStreams
  readonly #activities: ActivityStreams
  #isPolling = false
  #isClosed = false

  constructor(host: InstanceHost, limits: StreamLimits) {
    this.#host = host
    this.#limits = limits
    this.#drafts = new DraftStreams(draftTextsOf(host), host.faults)
    this.#activities = new ActivityStreams(turnActivitiesOf(host), host.faults)
    const poll = setInterval(() => this.#startPoll(), POLL_MS).unref()
    const comment = setInterval(() => this.#sendComments(), COMMENT_MS).unref()
    this.#stops.push(
      () => clearInterval(poll),
      () => clearInterval(comment),
      host.signals.on((keys) => this.#readFeeds(keys)),
      host.engine.listen((payload) => this.#readFeeds(parseKeys(payload))),
    )
  }

  get count(): number {
    return this.#subscribers.size
  }

  mustHaveCapacity(link: string, network: string): void {
    const { all } = this.#limits
    if (this.#isClosed) refuse('unavailable', 'the server is stopping')
    if (all > 0 && this.#subscribers.size >= all) refuse('unavailable', 'too many open streams')
    if (this.#isFull(link) && !this.#findReplaceable(link, network))
      throw new Refusal('rate_limited', 'too many open streams of this link', 'close one, or poll')
  }

  #isFull(link: string): boolean {
    const { perLink } = this.#limits
    return perLink > 0 && (this.#ofLink.get(link)?.size ?? 0) >= perLink
  }

  #findReplaceable(link: string, network: string): StreamSubscriber | undefined {
    return findReplaceable(this.#ofLink.get(link) ?? [], network)
  }

  /** Sends the backlog as fast as the client reads it, then adds the subscriber to the live feed and returns. */
  async subscribe(source: EventFeed, subscriber: StreamSubscriber): Promise<void> {
    const { response } = subscriber
    // A destroyed response emits no further 'close'.
    if (response.destroyed) return
    const key = keyOf(source)
    this.#add(subscriber)
    response.once('close', () => this.#remove(key, subscriber))
    await this.#catchUpOrEnd(key, source, subscriber)
    if (subscriber.hasDrafts && !response.destroyed && !response.writableEnded) this.#addToDrafts(key, subscriber)
  }

  #addToDrafts(feed: string, subscriber: StreamSubscriber): void {
    const { response } = subscriber
    const write = (bytes: Uint8Array): boolean => {
      // It gets nothing more.
      if (response.destroyed || response.writableEnded) return true
      // A draft may be longer than the limit.
      if (response.writableLength > 0 && !hasSpace(response, bytes.length)) return false
      try {
        response.write(bytes)
      } catch (error) {
        this.#fail(subscriber, error)
      }
      return true
    }
    const accepts: DraftReader['accepts'] = (about) => isFor(subscriber, about)
    const detailsOf = subscriber.callReader?.folder
    const removals = [
      this.#drafts.add({ feed, accepts, write }),
      this.#activities.add({ feed, accepts, write, detailsOf }),
    ]
    for (const remove of removals) response.once('close', this.#host.faults.guard('stream', remove))
  }

  async #catchUpOrEnd(key: string, source: EventFeed, subscriber: StreamSubscriber): Promise<void> {
    try {
      await this.#catchUp(key, source, subscriber)
    } catch (error) {
      // The headers are sent, so just end the stream: the client reconnects with its last event id.
      subscriber.response.end()
      if (!(error instanceof Refusal)) throw error
    }
  }

  /** Buffers at most one write beyond the limit; the rest is read from the store again when the client has caught up. */
  async #catchUp(key: string, source: EventFeed, subscriber: StreamSubscriber): Promise<void> {
    for (;;) {
      const step = await this.#step(key, source, subscriber)
      if (step === 'done') return
      if (step !== 'more' && !(await this.#waitUntilSent(step, subscriber.response))) return
    }
  }

  /** Sends until the buffer is full; then returns the pending write. */
  async #step(key: string, source: EventFeed, subscriber: StreamSubscriber): Promise<'more' | 'done' | PendingWrite> {
    const { response } = subscriber
    const { events, until, isMore, isOver } = await this.#host.engine.read((tx) =>
      source.read(tx, subscriber.after, subscriber.topic),
    )
    for (const event of events) {
      if (response.destroyed || response.writableEnded) return 'done'
      subscriber.after = Math.max(subscriber.after, event.seq)
      if (!isFor(subscriber, event)) continue
      const text = textFor(subscriber, event)
      if (hasSpace(response, Buffer.byteLength(text))) response.write(text)
      else return { isSent: writeAndWait(response, text) }
    }
    subscriber.after = Math.max(subscriber.after, until)
    // A destroyed response would never be removed from the feed.
    if (response.destroyed) return 'done'
    if (isOver || this.#isClosed) {
      response.end()
      return 'done'
    }
    if (isMore) return 'more'
    const feed = this.#feeds.get(key) ?? this.#open(key, source, subscriber.after)
    if (feed.head > subscriber.after) return 'more'
    feed.subscribers.add(subscriber)
    // A commit since the read may have been signalled before the subscriber was added.
    void this.#read(key, feed)
    return 'done'
  }

  /** False when the client has disconnected or has not read for too long; it is then disconnected and may resume. */
  async #waitUntilSent(write: PendingWrite, response: Writable): Promise<boolean> {
    const { promise: aborted, resolve } = Promise.withResolvers<boolean>()
    const abort = (): void => resolve(false)
    const timer = setTimeout(abort, this.#limits.unreadMs ?? UNREAD_MS).unref()
    response.once('close', abort)
    const isSent = await Promise.race([write.isSent, aborted])
    clearTimeout(timer)
    response.off('close', abort)
    if (!isSent) response.destroy()
    return isSent && !response.writableEnded
  }

  close(): void {
    this.#isClosed = true
    for (const stop of this.#stops) stop()
    this.#drafts.close()
    this.#activities.close()
    for (const { response } of this.#subscribers) response.end()
  }

  #open(key: string, source: EventFeed, head: number): OpenFeed {
    const feed: OpenFeed = { source, subscribers: new Set(), head, isReading: false, isStale: false }
    this.#feeds.set(key, feed)
    return feed
  }

  #add(subscriber: StreamSubscriber): void {
    this.#subscribers.add(subscriber)
    const { link, network } = subscriber
    const replaced = this.#isFull(link.key) ? this.#findReplaceable(link.key, network) : undefined
    const streams = this.#ofLink.get(link.key) ?? new Set()
    this.#ofLink.set(link.key, streams.add(subscriber))
    if (!replaced) return
    // Its slot is free now, not only when the client has read the end.
    streams.delete(replaced)
    replaced.response.end()
  }

  #remove(key: string, subscriber: StreamSubscriber): void {
    if (!this.#subscribers.delete(subscriber)) return
    const streams = this.#ofLink.get(subscriber.link.key)
    streams?.delete(subscriber)
    if (streams?.size === 0) this.#ofLink.delete(subscriber.link.key)
    const feed = this.#feeds.get(key)
    feed?.subscribers.delete(subscriber)
    if (feed?.subscribers.size === 0) this.#feeds.delete(key)
  }

  /** A fault in one stream ends that stream; its client reconnects and resumes. */
  #writeOrEnd(key: string, feed: OpenFeed, subscriber: StreamSubscriber, event: FeedEvent, bytes: Uint8Array): void {
    try {
      this.#write(key, feed, subscriber, event, bytes)
    } catch (error) {
      this.#fail(subscriber, error)
    }
  }

  #fail({ response }: StreamSubscriber, error: unknown): void {
    this.#host.faults.report('stream', error)
    response.destroy()
  }

  /** Sends a live event. A subscriber whose buffer is full leaves the live feed and catches up at its own pace. */
  #write(key: string, feed: OpenFeed, subscriber: StreamSubscriber, event: FeedEvent, bytes: Uint8Array): void {
    const { response } = subscriber
    if (event.seq <= subscriber.after) return
    if (!isFor(subscriber, event)) {
      subscriber.after = event.seq
      return
    }
    // An ended response may still be flushing its buffer.
    if (response.destroyed || response.writableEnded) return
    if (!hasSpace(response, bytes.length)) {
      feed.subscribers.delete(subscriber)
      void this.#catchUpOrEnd(key, feed.source, subscriber).catch((error) => this.#host.faults.report('stream', error))
      return
    }
    subscriber.after = event.seq
    response.write(subscriber.retryMs === undefined ? bytes : textFor(subscriber, event))
  }

  #readFeeds(keys: readonly string[] | undefined): void {
    if (this.#feeds.size === 0) return
    if (keys === undefined) this.#startPoll()
    for (const name of keys ?? []) {
      for (const kind of ['round', 'chat'] as const) {
        const key = `${kind} ${name}`
        if (this.#feeds.has(key)) this.#scheduleRead(key)
      }
    }
  }

  /** Lets the workers handle the same signal first: their next commit is synced while this reads. */
  #scheduleRead(key: string): void {
    if (this.#scheduled.has(key)) return
    this.#scheduled.add(key)
    const read = (): void => {
      this.#scheduled.delete(key)
      const feed = this.#feeds.get(key)
      if (feed) void this.#read(key, feed)
    }
    setImmediate(() => setImmediate(read))
  }

  /** Reads new events and sends them to all subscribers; one read at a time per feed. */
  async #read(key: string, feed: OpenFeed): Promise<void> {
    feed.isStale = true
    if (feed.isReading) return
    feed.isReading = true
    try {
      while (feed.isStale && feed.subscribers.size > 0) {
        feed.isStale = false
        const { events, until, isMore, isOver } = await this.#host.engine.read((tx) => feed.source.read(tx, feed.head))
        for (const event of events) {
          // Encoded once, so that all subscribers share the same bytes.
          const bytes = Buffer.from(event.text)
          for (const subscriber of feed.subscribers) this.#writeOrEnd(key, feed, subscriber, event, bytes)
        }
        feed.head = Math.max(feed.head, until)
        if (isMore) feed.isStale = true
        if (!isOver) continue
        this.#feeds.delete(key)
        for (const { response } of feed.subscribers) response.end()
        return
      }
    } catch (error) {
      this.#host.faults.report('stream', error)
      // After a refusal of the store the next poll retries. Any other error would come back with it: end the streams of the
      // feed, and their clients resume.
      if (!(error instanceof Refusal)) for (const { response } of feed.subscribers) response.end()
    } finally {
      feed.isReading = false
    }
  }

  #startPoll(): void {
    if (this.#subscribers.size === 0 || this.#isPolling) return
    this.#isPolling = true
    void this.#poll()
      .catch((error) => this.#host.faults.report('stream', error))
      .finally(() => {
        this.#isPolling = false
      })
  }

  /** Finds feeds with new events and closes the streams of revoked links. */
  async #poll(): Promise<void> {
    const feeds = [...this.#feeds]
    const names = (kind: EventFeed['kind']): string[] =>
      feeds.flatMap(([, { source }]) => (source.kind === kind ? [source.name] : []))
    const links = new Map([...this.#subscribers].map(({ link }) => [link.key, link.hash]))
    const { changed, revoked } = await this.#host.engine.read(async (tx) => {
      const changed = new Set<string>()
      for (const batch of chunks(names('round'))) {
        for (const [id, { last_seq, status }] of await readRoundHeads(tx, batch)) {
          const head = this.#feeds.get(`round ${id}`)?.head ?? 0
          if (last_seq > head || status !== 'pending') changed.add(`round ${id}`)
        }
      }
      for (const batch of chunks(names('chat'))) {
        for (const [jid, last] of await lastEventNumbers(tx, batch))
          if (last > (this.#feeds.get(`chat ${jid}`)?.head ?? 0)) changed.add(`chat ${jid}`)
      }
      const revoked = new Set(links.keys())
      for (const batch of chunks([...links])) {
        const hashes = batch.map(([, hash]) => hash)
        const sql = `select token_hash from route_tokens where token_hash in (${placeholders(hashes.length)})`
        for (const { token_hash } of await query(tx, { token_hash: bytes }, sql, hashes))
          revoked.delete(latin1(token_hash))
      }
      return { changed, revoked }
    })
    for (const key of changed) {
      const feed = this.#feeds.get(key)
      if (feed) void this.#read(key, feed)
    }
    if (revoked.size > 0) for (const { link, response } of this.#subscribers) if (revoked.has(link.key)) response.end()
    await this.#endUnguarded()
  }

  /** Streams of one session in one chat share a check. */
  async #endUnguarded(): Promise<void> {
    const checks = new Map<string, Promise<boolean>>()
    const share = (key: string, start: () => Promise<boolean>): Promise<boolean> => {
      const check = checks.get(key) ?? start()
      checks.set(key, check)
      return check
    }
    for (const { link, guard, callReader, response } of [...this.#subscribers]) {
      const isOwner =
        !guard ||
        share(`${link.key} ${guard.visitor.caller.session ?? guard.visitor.authorization ?? ''}`, () =>
          isStillOwner(this.#host, guard.owner, guard.visitor),
        )
      const mayReadCalls =
        callReader?.visitor === undefined ||
        share(`calls ${callReader.folder} ${callReader.visitor.caller.session}`, () =>
          mayStillReadCalls(this.#host, callReader),
        )
      if (!(await isOwner) || !(await mayReadCalls)) response.end()
    }
  }

  #sendComments(): void {
    for (const subscriber of this.#subscribers) {
      const { response } = subscriber
      try {
        if (!response.writableEnded) response.write(SSE_COMMENT)
      } catch (error) {
        this.#fail(subscriber, error)
      }
    }
  }
}

/** Wrapped, because an async function would await a bare promise. */
interface PendingWrite {
  readonly isSent: Promise<boolean>
}

/** Uses the callback of `write`, because the event `drain` is not always emitted. */
function writeAndWait(response: Writable, text: string): Promise<boolean> {
  return new Promise((resolve) => {
    response.write(text, (error) => resolve(!error))
  })
}

function hasSpace({ writableLength }: Writable, bytes: number): boolean {
  return writableLength + bytes <= UNSENT_MAX
}

/** Some clients take a separate `retry` block for an empty message. */
function textFor(subscriber: StreamSubscriber, { text }: FeedEvent): string {
  const { retryMs } = subscriber
  subscriber.retryMs = undefined
  return retryMs === undefined ? text : `retry: ${retryMs}\n${text}`
}

function isFor(subscriber: StreamSubscriber, { topic, folder }: Pick<FeedEvent, 'topic' | 'folder'>): boolean {
  if (subscriber.topic !== undefined && subscriber.topic !== (topic ?? '')) return false
  return subscriber.folder === undefined || folder === undefined || subscriber.folder === folder
}

function keyOf({ kind, name }: EventFeed): string {
  return `${kind} ${name}`
}

function chunks<T>(all: readonly T[]): T[][] {
  const result: T[][] = []
  for (let from = 0; from < all.length; from += BATCH_SIZE) result.push(all.slice(from, from + BATCH_SIZE))
  return result
}

/** Keys of a notification from another process; undefined if it names none. */
function parseKeys(payload: string): readonly string[] | undefined {
  try {
    const keys: unknown = JSON.parse(payload)
    return Array.isArray(keys) ? keys.map(String) : undefined
  } catch {
    return undefined
  }
}
