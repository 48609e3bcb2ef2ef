// What routing answers for a message, and what it goes by.
import type { Tx } from '../../store/engine.ts'
import type { Policy } from '../access/policy.ts'
import { groups } from '../groups/groups.ts'
import type { Envelope } from '../messages/envelopes.ts'
import type { InboxOutcome } from '../messages/inbox.ts'
import { decodeContent, type Message } from '../messages/messages.ts'
import type { WriteContext } from '../turns/rounds.ts'
import type { TurnRules } from '../turns/turn-rules.ts'
import { type MessageDirective, mayUseDirectives, parseDirective } from './message-directive.ts'
import type { RouteTable } from './route-table.ts'

/** What a decision goes by besides the store. */
export interface RoutingContext {
  readonly writeContext: WriteContext
  readonly rules: TurnRules
  readonly policy: Policy
  readonly routes: RouteTable
  readonly instance: string
  /** What the agent is called in chats. */
  readonly assistantName?: string | undefined
}

export interface MessageWithEnvelope {
  readonly message: Message
  readonly envelope?: Envelope | undefined
}

export interface MessagePlacement {
  /** The conversation; the main one is the empty text. */
  readonly topic: string
  /** The topic of the chat, where answers go. */
  readonly chat_topic: string
  /** As it was heard: `mention` where it is said to the agent, `root` where an operator asks the root for one turn. */
  readonly verb: string
}

export type RoutingDecision = MessagePlacement &
  (
    | { readonly kind: 'turn' | 'observe'; readonly folder: string }
    /** To the folderless inbox of a daemon. */
    | { readonly kind: 'daemon'; readonly name: string }
    | {
        readonly kind: 'end'
        readonly outcome: InboxOutcome
        /** For the operator. */
        readonly reason?: string | undefined
        readonly folder?: string | undefined
        /** Sent to the chat. */
        readonly say?: string | undefined
      }
  )

/** Conversations that no chat may name: those that tasks have for themselves, and those of visitors. */
export const TASK_TOPIC_PREFIX = 'timed:'
const VISITOR = 'visitor:'

export function conversationName(topic: string | undefined): string {
  return topic?.startsWith(TASK_TOPIC_PREFIX) || topic?.startsWith(VISITOR) ? `chat:${topic}` : (topic ?? '')
}

/**
 * The conversation of a message of reach `chat`: never one that is shared with another chat, or with people who may do more
 * in this one. Else a visitor would go on with their session by using the name of its topic.
 */
export function visitorConversation(jid: string, topic: string | undefined): string {
  return `${VISITOR}${jid}#${topic ?? ''}`
}

export function isVisitorConversation(topic: string): boolean {
  return topic.startsWith(VISITOR)
}

/** The topic as people know it. */
export function displayTopic(conversation: string): string {
  if (!isVisitorConversation(conversation)) return conversation
  return conversation.slice(conversation.indexOf('#') + 1)
}

export async function groupExists(tx: Tx, folder: string): Promise<boolean> {
  return (await groups.find(tx, { folder })) !== undefined
}

/** What a message says of where it goes; nothing where it may not. */
export function readMessageDirective(
  { assistantName }: RoutingContext,
  { message, envelope }: MessageWithEnvelope,
): MessageDirective | undefined {
  const { jid, sender, content } = message
  return mayUseDirectives({ jid, sender, envelope })
    ? parseDirective(decodeContent(content), { assistantName })
    : undefined
}
