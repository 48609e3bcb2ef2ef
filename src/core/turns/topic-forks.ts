// Forks: a topic of a folder that starts from the session of another.
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { routing } from '../messages/inbox.ts'
import { isVisitorConversation } from '../routing/routing-decision.ts'
import { conversations, findConversation, sessionLog } from './conversations.ts'

export interface Fork {
  readonly folder: string
  readonly parent: string
  readonly child: string
  /** Replaces the session of a topic that is there. */
  readonly isForced: boolean
}

/** A parent without a session gives a child with a fresh one. */
export async function forkTopic(tx: Tx, { folder, parent, child, isForced }: Fork, now: string): Promise<void> {
  if (parent === child) refuse('invalid', 'parent and child must be two topics')
  // Its session is in the visitor's own directory, and what they said there must not become what the folder knows.
  for (const topic of [parent, child])
    if (isVisitorConversation(topic)) refuse('invalid', `${JSON.stringify(topic)} is the conversation of a visitor`)
  const [from, known] = [await findConversation(tx, folder, parent), await findConversation(tx, folder, child)]
  if (known && !isForced) refuse('conflict', 'topic_exists', `force: true lets ${JSON.stringify(child)} start anew`)
  // What runs there would write its own session over the fork when it is done.
  if (known?.turn_id !== undefined) refuse('conflict', `a turn is under way in the topic ${JSON.stringify(child)}`)
  const parent_session = from?.session_id ?? from?.parent_session
  const fork = {
    session_id: undefined,
    parent_topic: parent,
    parent_session,
    note: undefined,
    // What the parent has not been shown yet, its session does not know.
    observed_seq: from?.observed_seq ?? (await routing.find(tx, { id: 1 }))?.last_seq ?? 0,
    updated_at: now,
  }
  if (known) await conversations.update(tx, { folder, topic: child }, fork)
  else await conversations.insert(tx, { folder, topic: child, waiting: 0, ...fork })
  await sessionLog.append(tx, {
    ...{ folder, topic: child, session_id: parent_session, event: 'fork' },
    ...{ message_count: 0, started_at: now, ended_at: now },
  })
}
