// What a folder overhears: messages that a route only lets it observe, and those of its open siblings. Each conversation is
// shown them once, the newest up to its window.
import type { Tx } from '../../store/engine.ts'
import { placeholders, query, text } from '../../store/statement.ts'
import { parentFolderOf } from '../access/tiers.ts'
import { groups } from '../groups/groups.ts'
import { type Envelope, envelopes } from '../messages/envelopes.ts'
import { type InboxRow, inbox } from '../messages/inbox.ts'
import { decodeContent, type Message, messages } from '../messages/messages.ts'
import type { RouteTable } from '../routing/route-table.ts'
import { findConversation } from '../turns/conversations.ts'
import type { TurnRules } from '../turns/turn-rules.ts'
import { codePoints } from '../values.ts'

export interface ObservedMessage {
  readonly row: InboxRow
  readonly message: Message
  readonly envelope: Envelope | undefined
  /** What of it is shown. */
  readonly text: string
}

export interface ObservedBatch {
  /** Oldest first. */
  readonly rows: readonly ObservedMessage[]
  /** How far the conversation has seen then: written to `observed_seq` when the turn is dispatched. */
  readonly seq: number
}

export interface ObserveRequest {
  readonly folder: string
  readonly topic: string
  readonly routes: RouteTable
  readonly rules: Pick<TurnRules, 'observeMessages' | 'observeChars'>
}

const PAGE = 50

export async function readObservedMessages(
  tx: Tx,
  { folder, topic, routes, rules }: ObserveRequest,
): Promise<ObservedBatch> {
  const after = (await findConversation(tx, folder, topic))?.observed_seq ?? 0
  const window = await windowOf(tx, folder, routes, rules)
  const folders = [folder, ...(await openSiblings(tx, folder))]
  const rows: ObservedMessage[] = []
  let [seq, left, before] = [after, window.chars, Number.MAX_SAFE_INTEGER]
  for (;;) {
    const page = await newest(tx, folders, after, before)
    seq = Math.max(seq, page[0]?.message_seq ?? 0)
    for (const row of page) {
      if (rows.length >= window.messages || left <= 0) return { rows: rows.reverse(), seq }
      const message = await messages.find(tx, { seq: row.message_seq })
      const text = message ? decodeContent(message.content) : ''
      if (!message || text.trim() === '') continue
      const length = codePoints(text)
      if (length > left && rows.length > 0) return { rows: rows.reverse(), seq }
      const isCut = length > left
      const envelope = await envelopes.find(tx, { message_seq: row.message_seq })
      rows.push({
        row,
        message,
        envelope,
        text: isCut ? `${[...text.slice(0, 2 * left)].slice(0, left - 1).join('')}…` : text,
      })
      left -= length
    }
    const last = page.at(-1)
    if (!last || page.length < PAGE) return { rows: rows.reverse(), seq }
    before = last.message_seq
  }
}

async function newest(tx: Tx, folders: readonly string[], after: number, before: number): Promise<InboxRow[]> {
  return query(
    tx,
    inbox.decode,
    `select ${inbox.columns.join(', ')} from inbox where state = 'observed' and folder in (${placeholders(folders.length, 2)})
       and message_seq > $1 and message_seq < $2 order by message_seq desc limit ${PAGE}`,
    [after, before, ...folders],
  )
}

/** The first route into the folder that says something beats the group, and the group beats the instance. */
async function windowOf(
  tx: Tx,
  folder: string,
  routes: RouteTable,
  rules: ObserveRequest['rules'],
): Promise<{ messages: number; chars: number }> {
  const route = routes.observeWindowsOf(folder)
  const group = await groups.find(tx, { folder })
  return {
    messages: route.messages ?? group?.observe_window_messages ?? rules.observeMessages,
    chars: route.chars ?? group?.observe_window_chars ?? rules.observeChars,
  }
}

/** Direct children of the same parent, where both sides are open; a top-level folder has none. */
async function openSiblings(tx: Tx, folder: string): Promise<string[]> {
  const parent = parentFolderOf(folder)
  if (parent === undefined || !(await groups.find(tx, { folder, open: true }))) return []
  const rows = await query(
    tx,
    { folder: text },
    'select folder from groups where open and substr(folder, 1, $1) = $2 and folder <> $3 order by folder',
    [parent.length + 1, `${parent}/`, folder],
  )
  return rows.map((row) => row.folder).filter((each) => parentFolderOf(each) === parent)
}
