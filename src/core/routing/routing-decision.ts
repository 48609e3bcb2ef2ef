// The input and the result of routing a message, shared by all steps.
import type { Tx } from '../../store/engine.ts'
import type { Policy } from '../access/policy.ts'
import { groups } from '../groups/groups.ts'
import { isVisitorChat } from '../links/visitor-chats.ts'
import type { Envelope } from '../messages/envelopes.ts'
import type { InboxOutcome } from '../messages/inbox.ts'
import { isVisitorMessage, type MessageOrigin } from '../messages/message-reach.ts'
import type { Message } from '../messages/messages.ts'
import type { WriteContext } from '../turns/rounds.ts'
import type { TurnRules } from '../turns/turn-rules.ts'
import type { RouteTable } from './route-table.ts'

export interface RoutingContext {
  readonly writeContext: WriteContext
  readonly rules: TurnRules
  readonly policy: Policy
  readonly routes: RouteTable
  readonly instance: string
  /** Replaces `svc` in commands by what operators type. */
  showCommands(text: string): string
  /** The agent's name in chats. */
  readonly assistantName?: string | undefined
  /** Greets a chat without a route; absent: the default text. */
  readonly greeting?: string | undefined
}

export interface MessageWithEnvelope {
  readonly message: Message
  readonly envelope?: Envelope | undefined
}

export interface MessagePlacement {
  /** The conversation's topic; empty for the main one. */
  readonly topic: string
  /** The topic of the chat, which replies are sent to. */
  readonly chat_topic: string
  /** The platform's verb, e.g. `mention`; `root` for a turn that an operator starts with `/root`. */
  readonly verb: string
}

export type RoutingDecision = MessagePlacement &
  (
    | {
        readonly kind: 'turn' | 'observe'
        readonly folder: string
        /** Of the message, to show that it was noticed. */
        readonly reaction?: string | undefined
      }
    /** The route's target is a daemon instead of a folder. */
    | { readonly kind: 'daemon'; readonly name: string }
    | {
        readonly kind: 'end'
        readonly outcome: InboxOutcome
        /** For the operator. */
        readonly reason?: string | undefined
        readonly folder?: string | undefined
        /** Sent to the chat. */
        readonly reply?: string | undefined
      }
  )

/** Verbs of messages that a person has written. */
export const TEXT_VERBS: readonly string[] = ['message', 'mention', 'reply']

/** Prefixes of conversations of isolated tasks and of visitors. A chat's topic cannot name these conversations. */
export const TASK_TOPIC_PREFIX = 'timed:'
const VISITOR_TOPIC_PREFIX = 'visitor:'

export function conversationName(topic: string | undefined): string {
  return topic?.startsWith(TASK_TOPIC_PREFIX) || topic?.startsWith(VISITOR_TOPIC_PREFIX)
    ? `chat:${topic}`
    : (topic ?? '')
}

/** Separates a visitor's conversation, so that naming a topic does not continue the session of someone with more rights. */
export function visitorConversation(jid: string, topic: string | undefined): string {
  return `${VISITOR_TOPIC_PREFIX}${jid}#${topic ?? ''}`
}

/** All of a visitor's conversations, as a range of names: `$` follows `#`. The second is exclusive. */
export function visitorConversations(jid: string): readonly [from: string, to: string] {
  return [visitorConversation(jid, ''), `${VISITOR_TOPIC_PREFIX}${jid}$`]
}

/** The conversation of a message in this topic. */
export function conversationOf(origin: MessageOrigin, topic: string | undefined): string {
  const { jid } = origin.message
  // A message of larger reach continues the shared session of the topic, unless its link keeps visitors apart.
  return isVisitorMessage(origin) || isVisitorChat(jid) ? visitorConversation(jid, topic) : conversationName(topic)
}

export function isVisitorConversation(topic: string): boolean {
  return topic.startsWith(VISITOR_TOPIC_PREFIX)
}

/** The topic without the visitor prefix. */
export function displayTopic(conversation: string): string {
  if (!isVisitorConversation(conversation)) return conversation
  return conversation.slice(conversation.indexOf('#') + 1)
}

export async function groupExists(tx: Tx, folder: string): Promise<boolean> {
  return (await groups.find(tx, { folder })) !== undefined
}
