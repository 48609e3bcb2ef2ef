// Conversations by what a client resends of them: a client without topics sends the whole conversation each time. The digest is
// of what it got and sends back. See docs/decisions.md#topics-of-openai-clients.
import type { Tx } from '../../store/engine.ts'
import { integer, query, text } from '../../store/statement.ts'
import { rounds } from './rounds.ts'

/** Equal conversations that are looked at, newest first. */
const CANDIDATES_MAX = 8

/** Call when the answer of a round is complete. */
export async function keepResendDigest(tx: Tx, id: string, resend_digest: Uint8Array): Promise<void> {
  await rounds.update(tx, { id }, { resend_digest })
}

/** The topic of the chat whose latest exchange ends the conversation with this digest. The digest includes whose it is. */
export async function findResentTopic(tx: Tx, jid: string, digest: Uint8Array): Promise<string | undefined> {
  const candidates = await query(
    tx,
    { id: text, topic: text },
    `select id, topic from rounds where resend_digest = $1 and jid = $2 and topic is not null
     order by id desc limit ${CANDIDATES_MAX}`,
    [digest, jid],
  )
  for (const { id, topic } of candidates) if ((await findLatestReceived(tx, jid, topic)) === id) return topic
  return undefined
}

async function findLatestReceived(tx: Tx, jid: string, topic: string): Promise<string | undefined> {
  const [latest] = await query(
    tx,
    { id: text },
    `select m.id from chat_events e join messages m on m.seq = e.message_seq
     where e.jid = $1 and e.topic = $2 and m.direction = 'in' order by e.seq desc limit 1`,
    [jid, topic],
  )
  return latest?.id
}

export async function hasTopicMessages(tx: Tx, jid: string, topic: string): Promise<boolean> {
  return (await findLatestReceived(tx, jid, topic)) !== undefined
}

/** Tokens that models reported for the turn of a round; 0 if they reported none. */
export async function readTokensOfRound(
  tx: Tx,
  id: string,
): Promise<{ readonly input: number; readonly output: number }> {
  const [sum] = await query(
    tx,
    { input: integer, output: integer },
    `select cast(coalesce(sum(c.input_tokens), 0) as bigint) as input, cast(coalesce(sum(c.output_tokens), 0) as bigint) as output
     from inbox i join cost_log c on c.folder = i.folder and c.turn_id = i.turn_id where i.id = $1`,
    [id],
  )
  return sum ?? { input: 0, output: 0 }
}
