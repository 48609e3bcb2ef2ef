// A message that somebody sends under their own name, without a link: recorded, filed and waiting for its answer, all in
// one transaction with the check that they may.
import type { Tx } from '../store/engine.ts'
import type { Tidied } from '../store/lane.ts'
import { fileMessages } from './chats.ts'
import { messages } from './messages.ts'
import { rounds } from './rounds.ts'

export interface OwnPost {
  readonly id: string
  readonly jid: string
  readonly target_folder: string
  readonly sender: string
  readonly topic: string | undefined
  readonly content: Uint8Array
  readonly content_type: string | undefined
  readonly created_at: string
}

/** Of what others have sent and nobody has filed, so much is filed on the way; more is on its way already. */
const PIECES_MAX = 5

/** Behind `queueUp`. Whom it concerns is told by the answer, once it is committed. */
export async function appendOwn(tx: Tx, post: OwnPost): Promise<Tidied> {
  const { seq } = await messages.add(tx, { ...post, direction: 'in', kind: 'message', turn_id: post.id })
  const { id, jid, topic, target_folder, created_at } = post
  const waiting = { status: 'pending', last_seq: 0, attempts: 0, fence: 0, leased_until: 0 } as const
  await rounds.insert(tx, { id, jid, topic, target_folder, created_at, message_seq: seq, ...waiting })
  let filed = await fileMessages(tx)
  for (let piece = 1; filed.isMore && piece < PIECES_MAX; piece++) {
    const { isMore } = await fileMessages(tx)
    filed = { isMore }
  }
  return filed
}
