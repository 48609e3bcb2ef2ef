// Interface that every chat platform implements: its actions and its errors.
import { z } from 'zod'
import type { Clock, Random } from '../../lib/clock.ts'
import type { CommitSignals } from '../../lib/commit-signals.ts'
import type { Engine } from '../../store/engine.ts'

/** Platforms limit it: 64 bytes at Telegram. */
export const BUTTON_ID = /^[A-Za-z0-9_-]{1,40}$/

/** A missing action is refused as unsupported, with a hint. */
export interface ChannelActions {
  send(out: OutgoingText): Promise<DeliveryReceipt>
  send_file(out: OutgoingFile): Promise<DeliveryReceipt>
  send_voice(out: OutgoingFile): Promise<DeliveryReceipt>
  post(out: OutgoingPost): Promise<DeliveryReceipt>
  forward(out: OutgoingForward): Promise<DeliveryReceipt>
  quote(out: OutgoingForward): Promise<DeliveryReceipt>
  repost(out: OutgoingForward): Promise<DeliveryReceipt>
  like(act: MessageTarget & { readonly reaction: string }): Promise<void>
  dislike(act: MessageTarget): Promise<void>
  edit(act: MessageTarget & { readonly content: string }): Promise<void>
  delete(act: MessageTarget): Promise<void>
  pin_message(act: MessageTarget): Promise<void>
  unpin_message(act: MessageTarget): Promise<void>
  unpin_all(act: { readonly jid: string }): Promise<void>
  pane_set_prompts(act: { readonly jid: string; readonly prompts: readonly PanePrompt[] }): Promise<void>
  pane_set_title(act: { readonly jid: string; readonly title: string }): Promise<void>
  fetch_history(request: PlatformHistoryRequest): Promise<PlatformHistory>
  typing(act: TypingState): Promise<void>
  /** Never through the outbox: a lost draft does not matter. */
  draft(act: DraftState): Promise<void>
}
export type ActionName = keyof ChannelActions

/** Actions that create a message and so go through the outbox. */
export const SENDING_ACTIONS = ['send', 'send_file', 'send_voice', 'post', 'forward', 'quote', 'repost'] as const

interface Outgoing {
  readonly jid: string
  /** Idempotency key: the same for every attempt. */
  readonly key: string
  readonly turnId?: string | undefined
  /** The agent that writes, as people see it; a platform may show it in place of the name of the account. */
  readonly agentName?: string | undefined
  /** Platform ids of the message being answered and of the thread. */
  readonly replyTo?: string | undefined
  readonly threadId?: string | undefined
}
type OutgoingText = Outgoing & {
  readonly content: string
  /** Only for channels with `hasButtons`. An edit of the message removes them. */
  readonly buttons?: readonly MessageButton[] | undefined
}
/** A press arrives as an inbound action that names the id of the button, and that of the message. */
export const MessageButton = z.object({
  id: z.string().regex(BUTTON_ID),
  label: z.string(),
  style: z.enum(['primary', 'danger']).optional(),
})
export type MessageButton = z.output<typeof MessageButton>
export type OutgoingFile = Outgoing & {
  /** Local path of the file. */
  readonly path: string
  readonly filename: string
  readonly mime?: string | undefined
  readonly caption?: string | undefined
}
type OutgoingPost = Outgoing & {
  readonly content: string
  /** Local paths of the files; `mediaNames` are their original names. */
  readonly media: readonly string[]
  readonly mediaNames?: readonly string[] | undefined
}
export type OutgoingForward = Outgoing & {
  readonly sourceMsgId: string
  readonly sourceJid: string
  readonly comment?: string | undefined
}

export interface MessageTarget {
  readonly jid: string
  readonly targetId: string
}
export interface TypingState {
  readonly jid: string
  /** The platform's thread; absent for the main one. Each thread has an indicator of its own. */
  readonly threadId?: string | undefined
  readonly on: boolean
}
/** The text that an agent is writing. The message that the turn sends in the same thread replaces it. */
export interface DraftState extends Omit<Outgoing, 'turnId'> {
  /** Id of the turn. */
  readonly key: string
  readonly content: string
  /** It becomes no message: the platform removes it. */
  readonly isDone: boolean
}
export interface PanePrompt {
  readonly title: string
  readonly message: string
}
export interface PlatformHistoryRequest {
  readonly jid: string
  readonly limit: number
  /** RFC 3339. */
  readonly before?: string | undefined
}
export interface PlatformMessage {
  readonly id: string
  readonly sender: string
  readonly senderName?: string | undefined
  readonly content: string
  readonly timestamp: string
  readonly topic?: string | undefined
  readonly replyTo?: string | undefined
  readonly isFromMe?: boolean | undefined
}
export interface PlatformHistory {
  readonly messages: readonly PlatformMessage[]
  /** Limit of the platform's history, such as `1000` or `24h`. */
  readonly cap?: string | undefined
}

export interface DeliveryReceipt {
  /** The platform's id of the message, if it returned one. */
  readonly id?: string | undefined
}

export interface Channel {
  readonly name: string
  /** Platform name in `unsupported: <tool> on <platform>`. */
  readonly platform: string
  /** Whether recording a message delivers it, because readers follow the store. */
  readonly isInternal: boolean
  /** Whether repeats with the same key are delivered once, so an attempt with an unclear end may be retried. */
  readonly isIdempotent: boolean
  readonly hasButtons?: boolean | undefined
  readonly actions: Partial<ChannelActions>
  /** Suggests an alternative to an unsupported action. */
  hint(action: ActionName): string
}

/** Finds the channel of a chat: the named source, else the source of its latest message, else the owner of its prefix. */
export interface ChannelResolver {
  /** Searches built-in channels and registered adapters; undefined if none serves this chat. */
  resolve(jid: string, source?: string): Promise<Channel | undefined>
}

/**
 * A failed channel action. `permanent`: retrying is useless; `transient`: retry later; `unclear`: the connection broke
 * after the request was sent, so it may have succeeded.
 */
export class ChannelError extends Error {
  readonly kind: 'permanent' | 'transient' | 'unclear'
  /** The platform's Retry-After, if it sent one. */
  readonly retryAfterMs: number | undefined

  constructor(kind: ChannelError['kind'], message: string, retryAfterMs?: number) {
    super(message)
    this.name = 'ChannelError'
    this.kind = kind
    this.retryAfterMs = retryAfterMs
  }
}

/** Follows the adapter's name in the message of an error without a connection; the delivery is retried when it registers. */
export const UNREACHABLE = 'cannot be reached'

/** Dependencies of the built-in channels. */
export interface ChannelContext {
  readonly engine: Engine
  readonly clock: Clock
  readonly random: Random
  readonly signals: CommitSignals
}

/** Whether a chat belongs to a link. Recording a message delivers it there, because the streams of links read the store. */
export function isLinkChat(jid: string): boolean {
  return /^(web|hook):/.test(jid)
}

/** The part before the colon; '' for a bare folder. */
export function platformOf(jid: string): string {
  return jid.includes(':') ? jid.slice(0, jid.indexOf(':')) : ''
}
