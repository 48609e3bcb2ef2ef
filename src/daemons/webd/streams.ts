// The open event streams. What happened is read from the store once for all who follow the same thing, and written to
// each; hints make it quick, and a look at the store twice a second makes it certain, on whichever process it happened.
import type { ServerResponse } from 'node:http'
import { lastEvents } from '../../core/chats.ts'
import { roundHeads } from '../../core/rounds.ts'
import { COMMENT } from '../../lib/event-stream.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { Host } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'
import { run } from '../../store/statement.ts'
import { latin1 } from './link-book.ts'

/** Something that happened, as it goes over the wire. */
export interface Happening {
  readonly seq: number
  readonly text: string
  readonly topic?: string | undefined
  /** The folder that it was said to or by. */
  readonly folder?: string | undefined
}

export interface Happened {
  readonly events: readonly Happening[]
  /** How far that goes: nothing up to here is left to be read. */
  readonly until: number
  /** There is more to be read at once. */
  readonly isMore: boolean
  /** Nothing will ever follow. */
  readonly isOver: boolean
}

/** What can be followed: a round by its id, or a chat by its JID. */
export interface Followed {
  readonly kind: 'round' | 'chat'
  readonly name: string
  /** With a topic, the others' events may be left out. */
  read(tx: Tx, after: number, topic?: string): Promise<Happened>
}

export interface Follower {
  readonly response: ServerResponse
  /** The last that it has. */
  after: number
  /** How long the last event was that it was sent as it happened, in bytes. */
  lastLength?: number
  /** What its first event says besides: how long to wait before it comes again. */
  retryMs?: number | undefined
  /** Only events of this topic; the main one is the empty text. */
  readonly topic?: string | undefined
  /** Only events of this folder: the chat of a link that is gone may have become another folder's. */
  readonly folder?: string | undefined
  readonly link: { readonly key: string; readonly hash: Uint8Array }
}

export interface StreamLimits {
  readonly all: number
  readonly perLink: number
}

const LOOK_MS = 500
const COMMENT_MS = 15_000
const UNSENT_MAX = 1024 * 1024
/** How long somebody who catches up may read nothing. */
const UNREAD_MS = 30_000
const ASKED_AT_ONCE = 500

interface Feed {
  readonly followed: Followed
  readonly followers: Set<Follower>
  /** The last that was read for all. */
  head: number
  isReading: boolean
  isStale: boolean
}

export class Streams {
  readonly #host: Host
  readonly #limits: StreamLimits
  readonly #feeds = new Map<string, Feed>()
  readonly #perLink = new Map<string, number>()
  readonly #followers = new Set<Follower>()
  readonly #stops: (() => void)[] = []
  #isLooking = false
  #isClosed = false

  constructor(host: Host, limits: StreamLimits) {
    this.#host = host
    this.#limits = limits
    const look = setInterval(() => this.#lookSoon(), LOOK_MS).unref()
    const comment = setInterval(() => this.#comment(), COMMENT_MS).unref()
    this.#stops.push(
      () => clearInterval(look),
      () => clearInterval(comment),
      host.signals.on((keys) => this.#hear(keys)),
      host.engine.listen((about) => this.#hear(keysOf(about))),
    )
  }

  get count(): number {
    return this.#followers.size
  }

  /** Refuses what would be one stream too many. */
  mustHaveRoom(link: string): void {
    const { all, perLink } = this.#limits
    if (this.#isClosed) refuse('unavailable', 'the server is stopping')
    if (all > 0 && this.#followers.size >= all) refuse('unavailable', 'there are too many open streams')
    if (perLink > 0 && (this.#perLink.get(link) ?? 0) >= perLink)
      throw new Refusal('rate_limited', 'there are too many open streams of this link', 'close one, or poll')
  }

  /** Writes what the follower does not have yet, as fast as it reads, then goes on as it happens; returns then. */
  async follow(followed: Followed, follower: Follower): Promise<void> {
    const { response } = follower
    // Gone before it began: nobody would say so any more.
    if (response.destroyed) return
    const key = keyOf(followed)
    this.#enter(follower)
    response.once('close', () => this.#leave(key, follower))
    try {
      await this.#catchUp(key, followed, follower)
    } catch (error) {
      // The head is out, so this is all that can be said: it comes again, with what it has.
      response.end()
      if (!(error instanceof Refusal)) throw error
    }
  }

  async #catchUp(key: string, followed: Followed, follower: Follower): Promise<void> {
    const { response } = follower
    for (;;) {
      const { events, until, isMore, isOver } = await this.#host.engine.read((tx) =>
        followed.read(tx, follower.after, follower.topic),
      )
      for (const event of events) {
        if (isFor(follower, event) && !(await this.#send(response, textFor(follower, event)))) return
        follower.after = Math.max(follower.after, event.seq)
      }
      follower.after = Math.max(follower.after, until)
      // Who has left meanwhile would never leave the others.
      if (response.destroyed) return
      if (isOver || this.#isClosed) return void response.end()
      if (isMore) continue
      const feed = this.#feeds.get(key) ?? this.#open(key, followed, follower.after)
      if (feed.head > follower.after) continue
      feed.followers.add(follower)
      // What was committed since the read was perhaps told before anybody listened.
      void this.#read(key, feed)
      return
    }
  }

  /** Waits until it is sent, where there is no room for more; false when nobody reads any more. */
  async #send(response: ServerResponse, text: string): Promise<boolean> {
    if (response.destroyed || response.writableEnded) return false
    const { promise, resolve } = Promise.withResolvers<boolean>()
    // Not the event `drain`, which does not always come.
    if (response.write(text, (error) => resolve(!error))) return true
    const gone = (): void => resolve(false)
    const timer = setTimeout(gone, UNREAD_MS).unref()
    response.once('close', gone)
    const isSent = await promise
    clearTimeout(timer)
    response.off('close', gone)
    if (!isSent) response.destroy()
    return isSent && !response.writableEnded
  }

  close(): void {
    this.#isClosed = true
    for (const stop of this.#stops) stop()
    for (const { response } of this.#followers) response.end()
  }

  #open(key: string, followed: Followed, head: number): Feed {
    const feed: Feed = { followed, followers: new Set(), head, isReading: false, isStale: false }
    this.#feeds.set(key, feed)
    return feed
  }

  #enter(follower: Follower): void {
    this.#followers.add(follower)
    const { key } = follower.link
    this.#perLink.set(key, (this.#perLink.get(key) ?? 0) + 1)
  }

  #leave(key: string, follower: Follower): void {
    if (!this.#followers.delete(follower)) return
    const left = (this.#perLink.get(follower.link.key) ?? 1) - 1
    if (left > 0) this.#perLink.set(follower.link.key, left)
    else this.#perLink.delete(follower.link.key)
    const feed = this.#feeds.get(key)
    feed?.followers.delete(follower)
    if (feed?.followers.size === 0) this.#feeds.delete(key)
  }

  #write(follower: Follower, event: Happening): void {
    const { response } = follower
    if (event.seq <= follower.after) return
    follower.after = event.seq
    if (!isFor(follower, event)) return
    // Whoever does not read is cut off, and resumes where it was. Not by the last event alone, however large that was.
    if (response.writableLength > UNSENT_MAX + (follower.lastLength ?? 0)) return void response.destroy()
    // One that was ended may take long to read what it has.
    if (response.writableEnded) return
    const text = textFor(follower, event)
    follower.lastLength = Buffer.byteLength(text)
    response.write(text)
  }

  #hear(keys: readonly string[]): void {
    if (this.#feeds.size === 0) return
    if (keys.length === 0) this.#lookSoon()
    for (const name of keys) {
      for (const kind of ['round', 'chat'] as const) {
        const key = `${kind} ${name}`
        const feed = this.#feeds.get(key)
        if (feed) void this.#read(key, feed)
      }
    }
  }

  /** Reads what is new and hands it to all; one at a time for each feed. */
  async #read(key: string, feed: Feed): Promise<void> {
    feed.isStale = true
    if (feed.isReading) return
    feed.isReading = true
    try {
      while (feed.isStale && feed.followers.size > 0) {
        feed.isStale = false
        const { events, until, isMore, isOver } = await this.#host.engine.read((tx) =>
          feed.followed.read(tx, feed.head),
        )
        for (const event of events) for (const follower of feed.followers) this.#write(follower, event)
        feed.head = Math.max(feed.head, until)
        if (isMore) feed.isStale = true
        if (!isOver) continue
        this.#feeds.delete(key)
        for (const { response } of feed.followers) response.end()
        return
      }
    } catch (error) {
      // The next look tries again; a store that does not answer says so wherever somebody waits for it.
      this.#host.onStray?.(error)
    } finally {
      feed.isReading = false
    }
  }

  #lookSoon(): void {
    if (this.#followers.size === 0 || this.#isLooking) return
    this.#isLooking = true
    void this.#look()
      .catch((error) => this.#host.onStray?.(error))
      .finally(() => {
        this.#isLooking = false
      })
  }

  /** Whether something is new, for every feed; and whether the links are still there. */
  async #look(): Promise<void> {
    const feeds = [...this.#feeds]
    const names = (kind: Followed['kind']): string[] =>
      feeds.flatMap(([, { followed }]) => (followed.kind === kind ? [followed.name] : []))
    const links = new Map([...this.#followers].map(({ link }) => [link.key, link.hash]))
    const { moved, gone } = await this.#host.engine.read(async (tx) => {
      const moved = new Set<string>()
      for (const some of chunks(names('round'))) {
        for (const [id, { last_seq, status }] of await roundHeads(tx, some)) {
          const head = this.#feeds.get(`round ${id}`)?.head ?? 0
          if (last_seq > head || status !== 'pending') moved.add(`round ${id}`)
        }
      }
      for (const some of chunks(names('chat'))) {
        for (const [jid, last] of await lastEvents(tx, some))
          if (last > (this.#feeds.get(`chat ${jid}`)?.head ?? 0)) moved.add(`chat ${jid}`)
      }
      const gone = new Set(links.keys())
      for (const some of chunks([...links])) {
        const marks = some.map((_, at) => `$${at + 1}`).join(', ')
        const hashes = some.map(([, hash]) => hash)
        const { rows } = await run(tx, `select token_hash from route_tokens where token_hash in (${marks})`, hashes)
        for (const { token_hash } of rows) if (token_hash instanceof Uint8Array) gone.delete(latin1(token_hash))
      }
      return { moved, gone }
    })
    for (const key of moved) {
      const feed = this.#feeds.get(key)
      if (feed) void this.#read(key, feed)
    }
    if (gone.size === 0) return
    for (const { link, response } of this.#followers) if (gone.has(link.key)) response.end()
  }

  #comment(): void {
    for (const { response } of this.#followers) if (!response.writableEnded) response.write(COMMENT)
  }
}

/** `retry` in a block of its own would be an empty message to some clients. */
function textFor(follower: Follower, { text }: Happening): string {
  const { retryMs } = follower
  follower.retryMs = undefined
  return retryMs === undefined ? text : `retry: ${retryMs}\n${text}`
}

function isFor(follower: Follower, { topic, folder }: Happening): boolean {
  if (follower.topic !== undefined && follower.topic !== (topic ?? '')) return false
  return follower.folder === undefined || folder === undefined || follower.folder === folder
}

function keyOf({ kind, name }: Followed): string {
  return `${kind} ${name}`
}

function chunks<T>(all: readonly T[]): T[][] {
  const some: T[][] = []
  for (let from = 0; from < all.length; from += ASKED_AT_ONCE) some.push(all.slice(from, from + ASKED_AT_ONCE))
  return some
}

/** What another process said, which may be nothing. */
function keysOf(about: string): readonly string[] {
  try {
    const keys: unknown = JSON.parse(about)
    return Array.isArray(keys) ? keys.map(String) : []
  } catch {
    return []
  }
}
