// The port that every chat platform fills: what a channel can do, and how it says that it cannot.
import type { Clock, Random } from '../../lib/clock.ts'
import type { CommitSignals } from '../../lib/commit-signals.ts'
import type { Engine } from '../../store/engine.ts'

/** What can be done beyond plain sending. A channel that lacks one refuses it as unsupported, with a hint. */
export interface ChannelActions {
  send(out: OutgoingText): Promise<DeliveryReceipt>
  send_file(out: OutgoingFile): Promise<DeliveryReceipt>
  send_voice(out: OutgoingFile): Promise<DeliveryReceipt>
  post(out: OutgoingPost): Promise<DeliveryReceipt>
  forward(out: OutgoingForward): Promise<DeliveryReceipt>
  quote(out: OutgoingQuote): Promise<DeliveryReceipt>
  repost(out: OutgoingQuote): Promise<DeliveryReceipt>
  like(act: Reaction): Promise<void>
  dislike(act: MessageTarget): Promise<void>
  edit(act: MessageTarget & { readonly content: string }): Promise<void>
  delete(act: MessageTarget): Promise<void>
  pin_message(act: MessageTarget): Promise<void>
  unpin_message(act: MessageTarget): Promise<void>
  unpin_all(act: { readonly jid: string }): Promise<void>
  pane_set_prompts(act: { readonly jid: string; readonly prompts: readonly PanePrompt[] }): Promise<void>
  pane_set_title(act: { readonly jid: string; readonly title: string }): Promise<void>
  fetch_history(ask: PlatformHistoryRequest): Promise<PlatformHistory>
  typing(act: { readonly jid: string; readonly on: boolean }): Promise<void>
}
export type ActionName = keyof ChannelActions

/** What becomes a message of ours, and so goes through the outbox. */
export const SENDING_ACTIONS = ['send', 'send_file', 'send_voice', 'post', 'forward', 'quote', 'repost'] as const
export type SendingAction = (typeof SENDING_ACTIONS)[number]

interface Outgoing {
  readonly jid: string
  /** The same at every try: a channel that keeps it delivers a repeat once. */
  readonly key: string
  readonly turnId?: string | undefined
  /** The platform's id of what is answered, and of the thread. */
  readonly replyTo?: string | undefined
  readonly threadId?: string | undefined
}
export type OutgoingText = Outgoing & { readonly content: string }
export type OutgoingFile = Outgoing & {
  /** Where the file lies on this machine. */
  readonly path: string
  readonly filename: string
  readonly mime?: string | undefined
  readonly caption?: string | undefined
}
export type OutgoingPost = Outgoing & {
  readonly content: string
  /** Where the files lie on this machine, and what each is called. */
  readonly media: readonly string[]
  readonly mediaNames?: readonly string[] | undefined
}
export type OutgoingForward = Outgoing & {
  readonly sourceMsgId: string
  readonly sourceJid: string
  readonly comment?: string | undefined
}
export type OutgoingQuote = OutgoingForward

export interface MessageTarget {
  readonly jid: string
  readonly targetId: string
}
export type Reaction = MessageTarget & { readonly reaction: string }
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
  /** What its window is limited to, such as `1000` or `24h`. */
  readonly cap?: string | undefined
}

export interface DeliveryReceipt {
  /** The platform's id, where it tells one. */
  readonly id?: string | undefined
}

export interface Channel {
  readonly name: string
  /** As `unsupported: <tool> on <platform>` names it. */
  readonly platform: string
  /** Recording is delivering: who follows reads the store. */
  readonly isInternal: boolean
  /** Whether a repeat with the same key is delivered once, so that an unclear end may be tried again. */
  readonly isIdempotent: boolean
  /** What it can do. */
  readonly actions: Partial<ChannelActions>
  /** What to do instead, with argument names that exist. */
  hint(action: ActionName): string
}

/** Finds the channel of a chat: the one named, else who delivered its latest message, else who owns the prefix. */
export interface ChannelResolver {
  /** The built-in ones and those that are registered; nothing where nobody has this chat. */
  resolve(jid: string, source?: string): Promise<Channel | undefined>
}

/**
 * Why a platform did not do it. `permanent` will never go, `transient` may go later, `unclear` may have gone already:
 * the connection broke after the request was sent.
 */
export class ChannelError extends Error {
  readonly kind: 'permanent' | 'transient' | 'unclear'
  /** How long the platform wants to be left alone, where it says so. */
  readonly retryAfterMs: number | undefined

  constructor(kind: ChannelError['kind'], message: string, retryAfterMs?: number) {
    super(message)
    this.name = 'ChannelFault'
    this.kind = kind
    this.retryAfterMs = retryAfterMs
  }
}

/** What a channel that is built in stands on. */
export interface ChannelContext {
  readonly engine: Engine
  readonly clock: Clock
  readonly random: Random
  readonly signals: CommitSignals
}

/** Chats that recording alone delivers to: those of links, whose streams read the store. */
export function isLinkChat(jid: string): boolean {
  return /^(web|hook):/.test(jid)
}

/** The part before the colon; a bare folder has none. */
export function platformOf(jid: string): string {
  return jid.includes(':') ? jid.slice(0, jid.indexOf(':')) : ''
}
