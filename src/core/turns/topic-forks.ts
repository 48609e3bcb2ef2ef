// Forks a topic: the new topic starts from the session of another topic of the folder.
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { routing } from '../messages/inbox.ts'
import { isVisitorConversation } from '../routing/routing-decision.ts'
import { conversations, sessionLog } from './conversations.ts'

interface TopicFork {
  readonly folder: string
  readonly parent: string
  readonly child: string
  /** Whether to replace the session of an existing topic. */
  readonly isForced: boolean
}

/** If the parent has no session, the child starts with a new one. */
export async function forkTopic(tx: Tx, { folder, parent, child, isForced }: TopicFork, now: string): Promise<void> {
  if (parent === child) refuse('invalid', 'parent and child must be different topics')
  // A visitor's session is in the visitor's own directory, and the folder must not learn its content.
  for (const topic of [parent, child])
    if (isVisitorConversation(topic)) refuse('invalid', `${JSON.stringify(topic)} is the conversation of a visitor`)
  const from = await conversations.find(tx, { folder, topic: parent })
  const existing = await conversations.find(tx, { folder, topic: child })
  if (existing && !isForced)
    refuse('conflict', 'topic_exists', `set force: true to replace the session of ${JSON.stringify(child)}`)
  // A running turn would overwrite the fork with its own session.
  if (existing?.turn_id !== undefined) refuse('conflict', `a turn is running in the topic ${JSON.stringify(child)}`)
  const parent_session = from?.session_id ?? from?.parent_session
  const fork = {
    session_id: undefined,
    parent_topic: parent,
    parent_session,
    note: undefined,
    // The parent's session contains observed messages only up to here.
    observed_seq: from?.observed_seq ?? (await routing.find(tx, { id: 1 }))?.last_seq ?? 0,
    updated_at: now,
  }
  if (existing) await conversations.update(tx, { folder, topic: child }, fork)
  else await conversations.insert(tx, { folder, topic: child, waiting: 0, ...fork })
  const logged = { folder, topic: child, session_id: parent_session, message_count: 0, started_at: now, ended_at: now }
  await sessionLog.append(tx, { ...logged, event: 'fork' })
}
