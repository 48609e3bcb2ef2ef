// Sends one row of the outbox through its channel, and says in the row how that went. The one way for the tools, which send
// what they have just recorded, and for the sweep, which sends what was left.
import { z } from 'zod'
import { timestamp } from '../../lib/clock.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Engine } from '../../store/engine.ts'
import type { Layout } from '../layout.ts'
import { decodeContent, messages } from '../messages/messages.ts'
import { writeContextOf } from '../turns/rounds.ts'
import type { TurnRules } from '../turns/turn-rules.ts'
import {
  type Channel,
  type ChannelActions,
  type ChannelContext,
  ChannelError,
  type ChannelResolver,
  platformOf,
} from './channel.ts'
import {
  type DeliveryOutcome,
  NO_ADAPTER,
  type OutboxRow,
  type OutboxState,
  outbox,
  type RecordedOutbound,
  settleDelivery,
} from './outbox.ts'
import { removeStagedFiles, stagedPath } from './staged-files.ts'

/** How long whoever sends holds the row. Longer than any channel waits for an answer. */
export const DELIVERY_LEASE_MS = 90_000
/** After that it is given up. */
const GIVE_UP_MS = 24 * 3_600_000
const PAUSE_MS = 2000
const PAUSE_MAX_MS = 15 * 60_000
const TOLD_PAUSE_MAX_MS = 3_600_000
const ERROR_MAX = 500

/** What `payload` of a row may hold besides what the row itself says. */
export const OutboxPayload = z.object({
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
export type OutboxPayload = z.output<typeof OutboxPayload>

export interface DeliveryHost extends ChannelContext {
  readonly channels: ChannelResolver
  readonly rules: Pick<TurnRules, 'engagementMs'>
  readonly layout?: Layout
  readonly onBackgroundError?: (error: unknown) => void
}

/** What came of it. `pending` and `sending` are tried again by the sweep. */
export interface DeliveryResult {
  readonly state: OutboxState
  readonly platform_id?: string | undefined
  readonly error?: string | undefined
  /** What to do instead, where the platform cannot do this. */
  readonly hint?: string | undefined
  readonly isUnsupported?: boolean | undefined
}

type Claimed = Pick<OutboxRow, 'message_seq' | 'fence'> & { readonly isUnclear?: boolean | undefined }

/** Sends what is held; whatever another process holds, or what stands in line behind others, is left to the sweep. */
export async function deliver(host: DeliveryHost, held: RecordedOutbound | Claimed): Promise<DeliveryResult> {
  const [seq, isUnclear] = 'seq' in held ? [held.seq, false] : [held.message_seq, held.isUnclear ?? false]
  const found = await host.engine.read(async (tx) => {
    const row = await outbox.find(tx, { message_seq: seq })
    const message = row && (await messages.find(tx, { seq }))
    return row && message && { row, content: decodeContent(message.content) }
  })
  if (!found) return { state: 'failed', error: 'the message is not there any more' }
  const { row, content } = found
  if (row.state !== 'sending' || row.fence !== held.fence)
    return { state: row.state, platform_id: row.platform_id, error: row.error }
  const verdict = await attemptDelivery(host, row, content, isUnclear)
  return conclude(host, row, verdict)
}

/** `held` is tried again like `again`, but stays known as what may have arrived. */
type AttemptResult = (DeliveryOutcome | { readonly state: 'held'; readonly error: string; readonly at: number }) &
  Pick<DeliveryResult, 'hint' | 'isUnsupported'>

async function attemptDelivery(
  host: DeliveryHost,
  row: OutboxRow,
  content: string,
  isUnclear: boolean,
): Promise<AttemptResult> {
  const later = (error: string, mayHaveGone: boolean, pauseMs?: number): AttemptResult => {
    const now = host.clock.now()
    const isOver = now >= Date.parse(row.created_at) + GIVE_UP_MS
    if (isOver) return { state: mayHaveGone ? 'unknown' : 'failed', error: `given up after 24 hours: ${error}` }
    return { state: mayHaveGone ? 'held' : 'again', error, at: now + backoffMs(row.attempts, pauseMs) }
  }
  const never = (error: string, more: Pick<DeliveryResult, 'hint' | 'isUnsupported'> = {}): AttemptResult => ({
    state: isUnclear ? 'unknown' : 'failed',
    error,
    ...more,
  })
  let channel: Channel | undefined
  try {
    channel = await host.channels.resolve(row.jid, row.channel)
    if (!channel) return later(`${NO_ADAPTER} ${platformOf(row.jid) || row.jid} now`, isUnclear)
    if (isUnclear && !channel.isIdempotent)
      return { state: 'unknown', error: 'whoever sent it ended before the platform had answered: it may have arrived' }
    if (!channel.actions[row.action])
      return never(`unsupported: ${row.action} on ${channel.platform}`, {
        hint: channel.hint(row.action),
        isUnsupported: true,
      })
    const payload = OutboxPayload.safeParse(JSON.parse(row.payload)).data
    if (!payload) return never('what it needs besides its words was not recorded as it must be')
    const { id } = await SENDERS[row.action](channel.actions, outgoing(row, content, located(host, payload)))
    return { state: 'sent', platform_id: id }
  } catch (error) {
    const said = error instanceof Error ? error.message.slice(0, ERROR_MAX) : 'it failed'
    if (error instanceof Refusal) {
      if (error.code === 'unavailable') return later(said, isUnclear)
      return never(said, { hint: error.hint, isUnsupported: error.code === 'unsupported' })
    }
    if (error instanceof ChannelError && error.kind === 'permanent') return never(said)
    if (error instanceof ChannelError && error.kind === 'transient') return later(said, isUnclear, error.retryAfterMs)
    if (!(error instanceof ChannelError)) host.onBackgroundError?.(error)
    if (!channel) return later(said, isUnclear)
    return channel.isIdempotent ? later(said, true) : { state: 'unknown', error: said }
  }
}

async function conclude(host: DeliveryHost, row: OutboxRow, verdict: AttemptResult): Promise<DeliveryResult> {
  const { hint, isUnsupported, ...settled } = verdict
  const held = { seq: row.message_seq, fence: row.fence }
  const speaking = writeContextOf(host)
  const isOurs =
    settled.state === 'held'
      ? await hold(host, row, settled)
      : await host.engine.transaction((tx) => settleDelivery(tx, speaking, host.rules, held, settled))
  host.signals.emit([row.jid])
  if (!isOurs) return stand(host.engine, row.message_seq)
  if (settled.state !== 'again' && settled.state !== 'held') await discard(host, row)
  if (settled.state === 'sent') return { state: 'sent', platform_id: settled.platform_id }
  const state = { again: 'pending', held: 'sending', failed: 'failed', unknown: 'unknown' } as const
  return { state: state[settled.state], error: settled.error, hint, isUnsupported }
}

/** The copies of files that were made for sending are of no more use. */
async function discard({ layout, onBackgroundError }: DeliveryHost, row: OutboxRow): Promise<void> {
  const { path, media = [] } = OutboxPayload.parse(JSON.parse(row.payload))
  const files = path === undefined ? media : [path, ...media]
  if (layout && files.length > 0) await removeStagedFiles(layout, files).catch((error) => onBackgroundError?.(error))
}

/** Its lease is the pause: whoever claims it then knows that it may have arrived. */
function hold(host: DeliveryHost, row: OutboxRow, { error, at }: { error: string; at: number }): Promise<boolean> {
  const { message_seq, fence } = row
  const patch = { error, leased_until: at, updated_at: timestamp(host.clock.now()) }
  return host.engine.transaction(
    async (tx) => (await outbox.update(tx, { message_seq, fence, state: 'sending' }, patch)) > 0,
  )
}

async function stand(engine: Engine, message_seq: number): Promise<DeliveryResult> {
  const row = await engine.read((tx) => outbox.find(tx, { message_seq }))
  return { state: row?.state ?? 'failed', platform_id: row?.platform_id, error: row?.error }
}

/** 2 s, 4 s, 8 s … 15 min; longer where the platform asks for it. */
function backoffMs(attempts: number, told = 0): number {
  const own = Math.min(PAUSE_MAX_MS, PAUSE_MS * 2 ** Math.min(Math.max(0, attempts - 1), 20))
  return Math.max(own, Math.min(told, TOLD_PAUSE_MAX_MS))
}

/** With the paths of the copies on this machine. */
function located({ layout }: DeliveryHost, payload: OutboxPayload): OutboxPayload {
  if (!layout) return payload
  const { path, media } = payload
  return {
    ...payload,
    ...(path === undefined ? {} : { path: stagedPath(layout, path) }),
    ...(media === undefined ? {} : { media: media.map((each) => stagedPath(layout, each)) }),
  }
}

type Sent = ReturnType<typeof outgoing>

/** Each is there: that was looked at before. */
const SENDERS: Record<
  OutboxRow['action'],
  (actions: Partial<ChannelActions>, out: Sent) => Promise<{ readonly id?: string | undefined }>
> = {
  send: async (actions, out) => (await actions.send?.(out)) ?? {},
  send_file: async (actions, out) => (await actions.send_file?.(out)) ?? {},
  send_voice: async (actions, out) => (await actions.send_voice?.(out)) ?? {},
  post: async (actions, out) => (await actions.post?.(out)) ?? {},
  forward: async (actions, out) => (await actions.forward?.(out)) ?? {},
  quote: async (actions, out) => (await actions.quote?.(out)) ?? {},
  repost: async (actions, out) => (await actions.repost?.(out)) ?? {},
}

function outgoing(row: OutboxRow, content: string, payload: OutboxPayload) {
  const { path = '', filename = '', media = [], sourceMsgId = '', sourceJid = row.jid } = payload
  const topic = row.topic === '' ? undefined : row.topic
  const threadId = payload.threadId === undefined ? topic : (payload.threadId ?? undefined)
  const { jid, id: key, turn_id: turnId } = row
  return { ...payload, jid, key, turnId, content, path, filename, media, sourceMsgId, sourceJid, threadId }
}
