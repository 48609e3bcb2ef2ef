// What was said in a chat, the newest first, and cut to a size that whoever reads all of it can bear.
import type { Tx } from '../../store/engine.ts'
import { query } from '../../store/statement.ts'
import { decodeContent, type Message, messages } from '../messages/messages.ts'
import { codePoints } from '../values.ts'
import { latestEvents } from './chat-events.ts'

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
  /** Only what was said with this folder: the chat of a folder that is gone may have become another's. */
  readonly folder: string
  readonly limit: number
  /** Only this topic's; the main topic is the empty text. */
  readonly topic?: string | undefined
}

/** Of the contents together, in UTF-16 units. */
export const HISTORY_MAX = 262_144
/** A content may be as large as a body: only so many are held at once. */
const PIECE = 10
/** How far back it is looked for what belongs to the folder. */
const LOOKED_AT_MAX = 1000

export async function readChatHistory(tx: Tx, request: HistoryRequest): Promise<HistoryMessage[]> {
  const { jid, folder, limit, topic } = request
  const said = new Map<string, Said>()
  const take = (message: Message | undefined): void => {
    if (message?.target_folder === folder && said.size < limit) said.set(message.id, remember(message))
  }
  for (const message of await unfiled(tx, request)) take(message)
  let before = Number.MAX_SAFE_INTEGER
  for (let looked = 0; said.size < limit && looked < LOOKED_AT_MAX; looked += PIECE) {
    const events = await latestEvents(tx, { jid, topic, before, only: 'message', limit: PIECE })
    for (const { message } of events.toReversed()) take(message)
    if (events.length < PIECE) break
    before = events[0]?.seq ?? 0
  }
  const all = [...said.values()]
  const max = shareOf(all.map(({ content }) => content.length))
  return all.map(({ left, ...message }) => ({ ...message, content: shown(cut(message.content, max, left)) }))
}

/** What is acknowledged already and stands in no chat yet: whoever has sent something finds it. */
async function unfiled(tx: Tx, { jid, folder, limit, topic }: HistoryRequest): Promise<Message[]> {
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

/** `left`: how many characters of the content are left out. */
type Said = HistoryMessage & { readonly left: number }

function remember({ id, direction, content, sender, created_at, topic, turn_id }: Message): Said {
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

/** How long a content may be: long ones give way to short ones, down to the same length for all of them. */
function shareOf(lengths: readonly number[]): number {
  let room = HISTORY_MAX
  for (const [index, length] of lengths.toSorted((a, b) => a - b).entries()) {
    const share = Math.floor(room / (lengths.length - index))
    if (length > share) return share
    room -= length
  }
  return HISTORY_MAX
}

type Cut = Pick<Said, 'content' | 'left'>

/** Never in the middle of a character. */
function cut(content: string, max: number, left: number): Cut {
  if (content.length <= max) return { content, left }
  const start = content.slice(0, max).replace(/[\ud800-\udbff]$/, '')
  return { content: start, left: left + codePoints(content.slice(start.length)) }
}

function shown({ content, left }: Cut): string {
  return left === 0 ? content : `${content}… [${left} more characters]`
}
