// Sends one row of the outbox through its channel, and says in the row how that went. The one way for the tools, which send
// what they have just recorded, and for the sweep, which sends what was left.
import { z } from 'zod'
import { timestamp } from '../lib/clock.ts'
import { Refusal } from '../lib/refusal.ts'
import type { Engine } from '../store/engine.ts'
import { type Actions, type Channel, ChannelFault, type ChannelGround, type Channels, platformOf } from './channel.ts'
import type { Layout } from './layout.ts'
import { messages, textOf } from './messages.ts'
import { NO_ADAPTER, type Outbox, type OutboxState, outbox, type Recorded, type Settled, settle } from './outbox.ts'
import { speakingOf } from './rounds.ts'
import { unstage } from './staging.ts'
import type { TurnRules } from './turn-rules.ts'

/** How long whoever sends holds the row. Longer than any channel waits for an answer. */
export const DELIVERY_LEASE_MS = 90_000
/** After that it is given up. */
const GIVE_UP_MS = 24 * 3_600_000
const PAUSE_MS = 2000
const PAUSE_MAX_MS = 15 * 60_000
const TOLD_PAUSE_MAX_MS = 3_600_000
const ERROR_MAX = 500

/** What `payload` of a row may hold besides what the row itself says. */
export const Payload = z.object({
  replyTo: z.string().optional(),
  /** Unless said, the topic; null is outside of any thread. */
  threadId: z.string().nullable().optional(),
  path: z.string().optional(),
  filename: z.string().optional(),
  mime: z.string().optional(),
  caption: z.string().optional(),
  media: z.array(z.string()).optional(),
  /** What the files were called: copies have names of their own. */
  mediaNames: z.array(z.string()).optional(),
  sourceMsgId: z.string().optional(),
  sourceJid: z.string().optional(),
  comment: z.string().optional(),
})
export type Payload = z.output<typeof Payload>

export interface DeliveryHost extends ChannelGround {
  readonly channels: Channels
  readonly rules: Pick<TurnRules, 'engagementMs'>
  readonly layout?: Layout
  readonly onStray?: (error: unknown) => void
}

/** What came of it. `pending` and `sending` are tried again by the sweep. */
export interface Delivery {
  readonly state: OutboxState
  readonly platform_id?: string | undefined
  readonly error?: string | undefined
  /** What to do instead, where the platform cannot do this. */
  readonly hint?: string | undefined
  readonly isUnsupported?: boolean | undefined
}

type Claimed = Pick<Outbox, 'message_seq' | 'fence'> & { readonly isUnclear?: boolean | undefined }

/** Sends what is held; whatever another process holds, or what stands in line behind others, is left to the sweep. */
export async function deliver(host: DeliveryHost, held: Recorded | Claimed): Promise<Delivery> {
  const [seq, isUnclear] = 'seq' in held ? [held.seq, false] : [held.message_seq, held.isUnclear ?? false]
  const found = await host.engine.read(async (tx) => {
    const row = await outbox.find(tx, { message_seq: seq })
    const message = row && (await messages.find(tx, { seq }))
    return row && message && { row, content: textOf(message.content) }
  })
  if (!found) return { state: 'failed', error: 'the message is not there any more' }
  const { row, content } = found
  if (row.state !== 'sending' || row.fence !== held.fence)
    return { state: row.state, platform_id: row.platform_id, error: row.error }
  const verdict = await tried(host, row, content, isUnclear)
  return conclude(host, row, verdict)
}

/** `held` is tried again like `again`, but stays known as what may have arrived. */
type Verdict = (Settled | { readonly state: 'held'; readonly error: string; readonly at: number }) &
  Pick<Delivery, 'hint' | 'isUnsupported'>

async function tried(host: DeliveryHost, row: Outbox, content: string, isUnclear: boolean): Promise<Verdict> {
  const later = (error: string, mayHaveGone: boolean, pauseMs?: number): Verdict => {
    const now = host.clock.now()
    const isOver = now >= Date.parse(row.created_at) + GIVE_UP_MS
    if (isOver) return { state: mayHaveGone ? 'unknown' : 'failed', error: `given up after 24 hours: ${error}` }
    return { state: mayHaveGone ? 'held' : 'again', error, at: now + pauseOf(row.attempts, pauseMs) }
  }
  const never = (error: string, more: Pick<Delivery, 'hint' | 'isUnsupported'> = {}): Verdict => ({
    state: isUnclear ? 'unknown' : 'failed',
    error,
    ...more,
  })
  let channel: Channel | undefined
  try {
    channel = await host.channels.of(row.jid, row.channel)
    if (!channel) return later(`${NO_ADAPTER} ${platformOf(row.jid) || row.jid} now`, isUnclear)
    if (isUnclear && !channel.isKeyed)
      return { state: 'unknown', error: 'whoever sent it ended before the platform had answered: it may have arrived' }
    if (!channel.actions[row.action])
      return never(`unsupported: ${row.action} on ${channel.platform}`, {
        hint: channel.hint(row.action),
        isUnsupported: true,
      })
    const payload = Payload.safeParse(JSON.parse(row.payload)).data
    if (!payload) return never('what it needs besides its words was not recorded as it must be')
    const { id } = await SENDERS[row.action](channel.actions, outgoing(row, content, payload))
    return { state: 'sent', platform_id: id }
  } catch (error) {
    const said = error instanceof Error ? error.message.slice(0, ERROR_MAX) : 'it failed'
    if (error instanceof Refusal) {
      if (error.code === 'unavailable') return later(said, isUnclear)
      return never(said, { hint: error.hint, isUnsupported: error.code === 'unsupported' })
    }
    if (error instanceof ChannelFault && error.kind === 'permanent') return never(said)
    if (error instanceof ChannelFault && error.kind === 'transient') return later(said, isUnclear, error.retryAfterMs)
    if (!(error instanceof ChannelFault)) host.onStray?.(error)
    if (!channel) return later(said, isUnclear)
    return channel.isKeyed ? later(said, true) : { state: 'unknown', error: said }
  }
}

async function conclude(host: DeliveryHost, row: Outbox, verdict: Verdict): Promise<Delivery> {
  const { hint, isUnsupported, ...settled } = verdict
  const held = { seq: row.message_seq, fence: row.fence }
  const speaking = speakingOf(host)
  const isOurs =
    settled.state === 'held'
      ? await hold(host, row, settled)
      : await host.engine.transaction((tx) => settle(tx, speaking, host.rules, held, settled))
  host.signals.emit([row.jid])
  if (!isOurs) return stand(host.engine, row.message_seq)
  if (settled.state !== 'again' && settled.state !== 'held') await discard(host, row)
  if (settled.state === 'sent') return { state: 'sent', platform_id: settled.platform_id }
  const state = { again: 'pending', held: 'sending', failed: 'failed', unknown: 'unknown' } as const
  return { state: state[settled.state], error: settled.error, hint, isUnsupported }
}

/** The copies of files that were made for sending are of no more use. */
async function discard({ layout, onStray }: DeliveryHost, row: Outbox): Promise<void> {
  const { path, media = [] } = Payload.parse(JSON.parse(row.payload))
  const files = path === undefined ? media : [path, ...media]
  if (layout && files.length > 0) await unstage(layout, files).catch((error) => onStray?.(error))
}

/** Its lease is the pause: whoever claims it then knows that it may have arrived. */
function hold(host: DeliveryHost, row: Outbox, { error, at }: { error: string; at: number }): Promise<boolean> {
  const { message_seq, fence } = row
  const patch = { error, leased_until: at, updated_at: timestamp(host.clock.now()) }
  return host.engine.transaction(
    async (tx) => (await outbox.update(tx, { message_seq, fence, state: 'sending' }, patch)) > 0,
  )
}

async function stand(engine: Engine, message_seq: number): Promise<Delivery> {
  const row = await engine.read((tx) => outbox.find(tx, { message_seq }))
  return { state: row?.state ?? 'failed', platform_id: row?.platform_id, error: row?.error }
}

/** 2 s, 4 s, 8 s … 15 min; longer where the platform asks for it. */
function pauseOf(attempts: number, told = 0): number {
  const own = Math.min(PAUSE_MAX_MS, PAUSE_MS * 2 ** Math.min(Math.max(0, attempts - 1), 20))
  return Math.max(own, Math.min(told, TOLD_PAUSE_MAX_MS))
}

type Sent = ReturnType<typeof outgoing>

/** Each is there: that was looked at before. */
const SENDERS: Record<
  Outbox['action'],
  (actions: Partial<Actions>, out: Sent) => Promise<{ readonly id?: string | undefined }>
> = {
  send: async (actions, out) => (await actions.send?.(out)) ?? {},
  send_file: async (actions, out) => (await actions.send_file?.(out)) ?? {},
  send_voice: async (actions, out) => (await actions.send_voice?.(out)) ?? {},
  post: async (actions, out) => (await actions.post?.(out)) ?? {},
  forward: async (actions, out) => (await actions.forward?.(out)) ?? {},
  quote: async (actions, out) => (await actions.quote?.(out)) ?? {},
  repost: async (actions, out) => (await actions.repost?.(out)) ?? {},
}

function outgoing(row: Outbox, content: string, payload: Payload) {
  const { path = '', filename = '', media = [], sourceMsgId = '', sourceJid = row.jid } = payload
  const topic = row.topic === '' ? undefined : row.topic
  const threadId = payload.threadId === undefined ? topic : (payload.threadId ?? undefined)
  const { jid, id: key, turn_id: turnId } = row
  return { ...payload, jid, key, turnId, content, path, filename, media, sourceMsgId, sourceJid, threadId }
}
