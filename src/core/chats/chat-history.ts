// History of a chat, newest first, with long messages cut so that the whole has a limited size.
import type { Tx } from '../../store/engine.ts'
import { query } from '../../store/statement.ts'
import { decodeContent, fairShare, isTaskPrompt, type Message, messages } from '../messages/messages.ts'
import { codePoints } from '../values.ts'
import { latestConversationEvents } from './topic-branches.ts'

export interface HistoryMessage {
  readonly id: string
  readonly role: 'user' | 'assistant'
  readonly content: string
  readonly sender: string
  readonly created_at: string
  readonly topic?: string
  readonly turn_id?: string
}

export interface HistoryRequest {
  readonly jid: string
  /** Only messages of this folder: the chat of a removed folder may belong to another one now. */
  readonly folder: string
  readonly limit: number
  /** Only this topic, with what it continues as a branch; empty for the main topic. */
  readonly topic?: string | undefined
}

/** UTF-16 units of all contents together. */
export const HISTORY_MAX = 262_144
/** Messages read at once; small, because each may be as large as a request body. */
const BATCH = 10
/** How many messages are searched for those of the folder. */
const SCANNED_MAX = 1000

export async function readChatHistory(tx: Tx, request: HistoryRequest): Promise<HistoryMessage[]> {
  const { jid, folder, limit, topic } = request
  const found = new Map<string, CutMessage>()
  const take = (message: Message | undefined): void => {
    if (message?.target_folder !== folder || isTaskPrompt(message)) return
    if (found.size < limit) found.set(message.id, toHistory(message))
  }
  for (const message of await listPending(tx, request)) take(message)
  let before = Number.MAX_SAFE_INTEGER
  for (let scanned = 0; found.size < limit && scanned < SCANNED_MAX; scanned += BATCH) {
    const events = await latestConversationEvents(tx, { jid, topic, before, only: 'message', limit: BATCH })
    for (const { message } of events.toReversed()) take(message)
    if (events.length < BATCH) break
    before = events[0]?.seq ?? 0
  }
  const all = [...found.values()]
  const max = fairShare(
    HISTORY_MAX,
    all.map(({ content }) => content.length),
  )
  return all.map(({ cutCharacters, ...message }) => {
    const { content, cutCharacters: more } = cut(message.content, max, cutCharacters)
    return { ...message, content: more === 0 ? content : `${content}… [${more} more characters]` }
  })
}

/** Acknowledged messages that are not in `chat_events` yet, so that senders see their own. */
async function listPending(tx: Tx, { jid, folder, limit, topic }: HistoryRequest): Promise<Message[]> {
  const ofTopic = topic === undefined ? '' : topic === '' ? ' and topic is null' : ' and topic = $4'
  return query(
    tx,
    messages.decode,
    `select ${messages.columns.join(', ')} from messages
     where seq > (select last_seq from filing where id = 1) and direction = 'in' and jid = $1 and target_folder = $2
     ${ofTopic} order by seq desc limit $3`,
    [jid, folder, limit, ...(topic ? [topic] : [])],
  )
}

type CutMessage = HistoryMessage & { readonly cutCharacters: number }

function toHistory({ id, direction, content, sender, created_at, topic, turn_id }: Message): CutMessage {
  return {
    id,
    role: direction === 'in' ? 'user' : 'assistant',
    ...cut(decodeContent(content), HISTORY_MAX, 0),
    sender,
    created_at,
    ...(topic === undefined ? {} : { topic }),
    ...(turn_id === undefined ? {} : { turn_id }),
  }
}

/** Does not split surrogate pairs. */
function cut(content: string, max: number, cutCharacters: number): Pick<CutMessage, 'content' | 'cutCharacters'> {
  if (content.length <= max) return { content, cutCharacters }
  const start = content.slice(0, max).replace(/[\ud800-\udbff]$/, '')
  return { content: start, cutCharacters: cutCharacters + codePoints(content.slice(start.length)) }
}
