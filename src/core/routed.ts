// What routing answers for a message, and what it goes by.
import type { Tx } from '../store/engine.ts'
import type { Policy } from './access.ts'
import type { Envelope } from './envelopes.ts'
import { groups } from './groups.ts'
import type { InboxEnd } from './inbox.ts'
import { type Message, textOf } from './messages.ts'
import type { Speaking } from './rounds.ts'
import type { RouteTable } from './routing.ts'
import { maySteer, readSteering, type Steering } from './steering.ts'
import type { TurnRules } from './turn-rules.ts'

/** What a decision goes by besides the store. */
export interface RoutingWorld {
  readonly speaking: Speaking
  readonly rules: TurnRules
  readonly policy: Policy
  readonly routes: RouteTable
  readonly instance: string
  /** What the agent is called in chats. */
  readonly assistantName?: string | undefined
}

export interface Row {
  readonly message: Message
  readonly envelope?: Envelope | undefined
}

export interface Place {
  /** The conversation; the main one is the empty text. */
  readonly topic: string
  /** The topic of the chat, where answers go. */
  readonly chat_topic: string
  /** As it was heard: `mention` where it is said to the agent, `root` where an operator asks the root for one turn. */
  readonly verb: string
}

export type Decision = Place &
  (
    | { readonly kind: 'turn' | 'observe'; readonly folder: string }
    /** To the folderless inbox of a daemon. */
    | { readonly kind: 'daemon'; readonly name: string }
    | {
        readonly kind: 'end'
        readonly outcome: InboxEnd
        /** For the operator. */
        readonly reason?: string | undefined
        readonly folder?: string | undefined
        /** Sent to the chat. */
        readonly say?: string | undefined
      }
  )

/** A conversation that a chat names must not be the one that a task has for itself. */
export const TIMED = 'timed:'

export function conversationOf(topic: string | undefined): string {
  return topic?.startsWith(TIMED) ? `chat:${topic}` : (topic ?? '')
}

export async function isGroup(tx: Tx, folder: string): Promise<boolean> {
  return (await groups.find(tx, { folder })) !== undefined
}

/** What a message says of where it goes; nothing where it may not. */
export function steeringOf({ assistantName }: RoutingWorld, { message, envelope }: Row): Steering | undefined {
  const { jid, sender, content } = message
  return maySteer({ jid, sender, envelope }) ? readSteering(textOf(content), { assistantName }) : undefined
}
