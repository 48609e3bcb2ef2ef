// Sends one row of the outbox through its channel and records the result. Tools use it for messages that they have just
// recorded, the outbox worker for all others.
import { z } from 'zod'
import { timestamp } from '../../lib/clock.ts'
import type { FaultBoundary } from '../../lib/fault-boundary.ts'
import { defineCounter, knownLabel, type MetricRegistry } from '../../lib/log/metric-registry.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { groups } from '../groups/groups.ts'
import { readIdentity } from '../groups/identity-files.ts'
import type { Layout } from '../layout.ts'
import type { MessageTracer } from '../messages/message-tracer.ts'
import { decodeContent, messages } from '../messages/messages.ts'
import { writeContextOf } from '../turns/rounds.ts'
import type { TurnRules } from '../turns/turn-rules.ts'
import {
  type Channel,
  type ChannelContext,
  ChannelError,
  type ChannelResolver,
  MessageButton,
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
import { basePlatformOf, PLATFORM_LABELS } from './platforms.ts'
import { removeStagedFiles, stagedPath } from './staged-files.ts'

/** Lease of a row while it is sent; longer than the timeout of every channel. */
export const DELIVERY_LEASE_MS = 90_000
const RETRY_FOR_MS = 24 * 3_600_000
const BACKOFF_MS = 2000
const BACKOFF_MAX_MS = 15 * 60_000
const RETRY_AFTER_MAX_MS = 3_600_000
const ERROR_MAX = 500

/** `unknown`: it may have arrived. Answers in chats of links are delivered with their commit and not counted here. */
export const DELIVERIES = defineCounter('svc_deliveries_total', 'Attempts to deliver a message to a platform', {
  platform: PLATFORM_LABELS,
  result: ['sent', 'failed', 'unknown', 'retried'],
})

/** The `payload` column of an outbox row. */
export const OutboxPayload = z.object({
  replyTo: z.string().optional(),
  /** Defaults to the topic; null: outside of any thread. */
  threadId: z.string().nullable().optional(),
  path: z.string().optional(),
  filename: z.string().optional(),
  mime: z.string().optional(),
  caption: z.string().optional(),
  media: z.array(z.string()).optional(),
  /** Original names of the files; `media` names their staged copies. */
  mediaNames: z.array(z.string()).optional(),
  sourceMsgId: z.string().optional(),
  sourceJid: z.string().optional(),
  comment: z.string().optional(),
  buttons: z.array(MessageButton).optional(),
  /** Follows the text on the platform. Agents who read the chat do not see it. */
  details: z.string().optional(),
  /** The held call that its buttons decide on. */
  approval: z.string().optional(),
  /** Follows the text where the platform has no buttons. */
  withoutButtons: z.string().optional(),
  /** Id of a message whose place this one takes where the platform can edit. Its buttons go. */
  replaces: z.string().optional(),
  /** The webhook whose answer this is; see `OutboundMessage.answers`. */
  answers: z.string().optional(),
})
export type OutboxPayload = z.output<typeof OutboxPayload>

/** The webhook whose answer a row is. */
export function answeredLink({ payload }: Pick<OutboxRow, 'payload'>): string | undefined {
  return OutboxPayload.safeParse(JSON.parse(payload)).data?.answers
}

/** What a message of svc in this chat asks with its buttons. */
export async function findButtons(
  tx: Tx,
  jid: string,
  platform_id: string,
): Promise<Pick<OutboxPayload, 'buttons' | 'approval'> | undefined> {
  const row = await outbox.find(tx, { jid, platform_id })
  return row && OutboxPayload.safeParse(JSON.parse(row.payload)).data
}

export interface DeliveryHost extends ChannelContext {
  readonly channels: ChannelResolver
  readonly rules: Pick<TurnRules, 'engagementMs'>
  readonly layout?: Layout
  readonly assistantName: string
  readonly metrics?: MetricRegistry
  readonly tracer?: MessageTracer
  readonly faults: FaultBoundary
}

/** The outbox worker retries rows that are `pending` or `sending`. */
interface DeliveryResult {
  readonly state: OutboxState
  readonly platform_id?: string | undefined
  readonly error?: string | undefined
  /** Alternative to an action that the platform does not support. */
  readonly hint?: string | undefined
  readonly isUnsupported?: boolean | undefined
}

type ClaimedRow = Pick<OutboxRow, 'message_seq' | 'fence'> & { readonly isUnclear?: boolean | undefined }

/** Sends a row if the caller has its lease; other rows are left to their owner or to the outbox worker. */
export async function deliver(host: DeliveryHost, claimed: RecordedOutbound | ClaimedRow): Promise<DeliveryResult> {
  const [seq, isUnclear] = 'seq' in claimed ? [claimed.seq, false] : [claimed.message_seq, claimed.isUnclear ?? false]
  const found = await host.engine.read(async (tx) => {
    const row = await outbox.find(tx, { message_seq: seq })
    const message = row && (await messages.find(tx, { seq }))
    const group = message && (await groups.find(tx, { folder: message.target_folder ?? '' }))
    return row && message && { row, message, group }
  })
  if (!found) return { state: 'failed', error: 'the message no longer exists' }
  const { row, message, group } = found
  if (row.state !== 'sending' || row.fence !== claimed.fence)
    return { state: row.state, platform_id: row.platform_id, error: row.error }
  const startMs = host.clock.now()
  const agentName = group && readIdentity(host.layout, group, host.assistantName).name
  const shown = { content: decodeContent(message.content), agentName, isStatus: message.kind === 'status' }
  const attempt = await attemptDelivery(host, row, shown, isUnclear)
  const result = await recordAttempt(host, row, attempt)
  host.tracer?.delivered({
    ...row,
    startMs,
    endMs: host.clock.now(),
    result: attempt.state,
    error: attempt.state === 'sent' ? undefined : attempt.state,
  })
  return result
}

interface ShownMessage {
  readonly content: string
  readonly agentName: string | undefined
  readonly isStatus: boolean
}

/** `retry-unclear` is retried like `retry`, but the next attempt knows that the message may have arrived. */
type AttemptResult = (
  | DeliveryOutcome
  | { readonly state: 'retry-unclear'; readonly error: string; readonly at: number }
) &
  Pick<DeliveryResult, 'hint' | 'isUnsupported'>

async function attemptDelivery(
  host: DeliveryHost,
  row: OutboxRow,
  shown: ShownMessage,
  isUnclear: boolean,
): Promise<AttemptResult> {
  const retry = (error: string, mayHaveArrived: boolean, retryAfterMs?: number): AttemptResult => {
    const now = host.clock.now()
    const isOver = now >= Date.parse(row.created_at) + RETRY_FOR_MS
    if (isOver) return { state: mayHaveArrived ? 'unknown' : 'failed', error: `gave up after 24 hours: ${error}` }
    return { state: mayHaveArrived ? 'retry-unclear' : 'retry', error, at: now + backoffMs(row.attempts, retryAfterMs) }
  }
  const fail = (error: string, more: Pick<DeliveryResult, 'hint' | 'isUnsupported'> = {}): AttemptResult => ({
    state: isUnclear ? 'unknown' : 'failed',
    error,
    ...more,
  })
  let channel: Channel | undefined
  try {
    channel = await host.channels.resolve(row.jid, row.channel)
    if (!channel) return retry(`${NO_ADAPTER} for ${platformOf(row.jid) || row.jid} is registered`, isUnclear)
    if (isUnclear && !channel.isIdempotent)
      return { state: 'unknown', error: 'the sending process ended before the platform answered: it may have arrived' }
    const { action } = row
    const { actions } = channel
    if (!actions[action])
      return fail(`unsupported: ${action} on ${channel.platform}`, { hint: channel.hint(action), isUnsupported: true })
    const payload = OutboxPayload.safeParse(JSON.parse(row.payload)).data
    if (!payload) return fail('the payload of its outbox row is invalid')
    if (await replaceEarlier(host, channel, row, shown, payload)) return { state: 'sent' }
    const out = outgoing(row, shown, withStagedPaths(host, payload))
    const { id } = await actions[action](channel.hasButtons ? out : withoutButtons(out))
    return { state: 'sent', platform_id: id }
  } catch (error) {
    const message = error instanceof Error ? error.message.slice(0, ERROR_MAX) : 'unknown error'
    if (error instanceof Refusal) {
      if (error.code === 'unavailable') return retry(message, isUnclear)
      return fail(message, { hint: error.hint, isUnsupported: error.code === 'unsupported' })
    }
    if (isPermanent(error)) return fail(message)
    if (error instanceof ChannelError && error.kind === 'transient')
      return retry(message, isUnclear, error.retryAfterMs)
    if (!(error instanceof ChannelError)) host.faults.report('delivery', error)
    if (!channel) return retry(message, isUnclear)
    return channel.isIdempotent ? retry(message, true) : { state: 'unknown', error: message }
  }
}

/** Whether the message has taken the place of an earlier one. Otherwise it is sent as it is. */
async function replaceEarlier(
  { engine }: DeliveryHost,
  { actions }: Channel,
  { jid }: OutboxRow,
  { content }: ShownMessage,
  { replaces: id }: OutboxPayload,
): Promise<boolean> {
  const earlier = id === undefined ? undefined : await engine.read((tx) => outbox.find(tx, { id, jid }))
  if (earlier?.platform_id === undefined || !actions.edit) return false
  try {
    await actions.edit({ jid, targetId: earlier.platform_id, content })
    return true
  } catch (error) {
    // It may have been deleted, or is too old.
    const isFinal = error instanceof Refusal ? error.code === 'unsupported' : isPermanent(error)
    if (isFinal) return false
    throw error
  }
}

function isPermanent(error: unknown): boolean {
  return error instanceof ChannelError && error.kind === 'permanent'
}

function withoutButtons<P extends Pick<OutboxPayload, 'buttons' | 'withoutButtons'> & { readonly content: string }>(
  out: P,
): P {
  const { buttons, withoutButtons: hint, content } = out
  return buttons && hint !== undefined ? { ...out, buttons: undefined, content: `${content}\n\n${hint}` } : out
}

async function recordAttempt(host: DeliveryHost, row: OutboxRow, attempt: AttemptResult): Promise<DeliveryResult> {
  const { hint, isUnsupported, ...outcome } = attempt
  const lease = { seq: row.message_seq, fence: row.fence }
  const isOurs =
    outcome.state === 'retry-unclear'
      ? await keepLease(host, row, outcome)
      : await host.engine.transaction((tx) => settleDelivery(tx, writeContextOf(host), host.rules, lease, outcome))
  host.signals.emit([row.jid])
  if (!isOurs) {
    const current = await host.engine.read((tx) => outbox.find(tx, { message_seq: row.message_seq }))
    return { state: current?.state ?? 'failed', platform_id: current?.platform_id, error: current?.error }
  }
  const isRetried = outcome.state === 'retry' || outcome.state === 'retry-unclear'
  host.metrics?.add(DELIVERIES, {
    platform: knownLabel(PLATFORM_LABELS, basePlatformOf(platformOf(row.jid))),
    result: isRetried ? 'retried' : outcome.state,
  })
  if (outcome.state === 'retry') return { state: 'pending', error: outcome.error, hint, isUnsupported }
  if (outcome.state === 'retry-unclear') return { state: 'sending', error: outcome.error, hint, isUnsupported }
  await removeCopies(host, row)
  return outcome.state === 'sent' ? outcome : { ...outcome, hint, isUnsupported }
}

async function removeCopies({ layout, faults }: DeliveryHost, row: OutboxRow): Promise<void> {
  const { path, media = [] } = OutboxPayload.parse(JSON.parse(row.payload))
  const files = path === undefined ? media : [path, ...media]
  if (layout && files.length > 0) await removeStagedFiles(layout, files).catch(faults.handler('delivery'))
}

/** The lease lasts until the retry, so the next claim finds the row `sending` and knows that it may have arrived. */
function keepLease(
  host: DeliveryHost,
  { message_seq, fence }: OutboxRow,
  { error, at }: { error: string; at: number },
): Promise<boolean> {
  const patch = { error, leased_until: at, updated_at: timestamp(host.clock.now()) }
  return host.engine.transaction(
    async (tx) => (await outbox.update(tx, { message_seq, fence, state: 'sending' }, patch)) > 0,
  )
}

/** 2 s, 4 s, 8 s … 15 min, or the platform's Retry-After if that is longer. */
function backoffMs(attempts: number, retryAfterMs = 0): number {
  const backoff = Math.min(BACKOFF_MAX_MS, BACKOFF_MS * 2 ** Math.min(Math.max(0, attempts - 1), 20))
  return Math.max(backoff, Math.min(retryAfterMs, RETRY_AFTER_MAX_MS))
}

function withStagedPaths({ layout }: DeliveryHost, payload: OutboxPayload): OutboxPayload {
  if (!layout) return payload
  const { path, media } = payload
  return {
    ...payload,
    ...(path === undefined ? {} : { path: stagedPath(layout, path) }),
    ...(media === undefined ? {} : { media: media.map((each) => stagedPath(layout, each)) }),
  }
}

/** The parameters of every sending action together. */
function outgoing(row: OutboxRow, { isStatus, ...shown }: ShownMessage, payload: OutboxPayload) {
  const { path = '', filename = '', media = [], sourceMsgId = '', sourceJid = row.jid } = payload
  const topic = row.topic === '' ? undefined : row.topic
  const threadId = payload.threadId === undefined ? topic : (payload.threadId ?? undefined)
  const { jid, id: key } = row
  // A status would take the place of the draft of its turn.
  const turnId = isStatus ? undefined : row.turn_id
  const content = [shown.content, payload.details].filter((part) => part !== undefined).join('\n\n')
  return { ...payload, ...shown, content, jid, key, turnId, path, filename, media, sourceMsgId, sourceJid, threadId }
}
