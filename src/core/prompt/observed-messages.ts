// Observed messages of a folder: those that a route only lets it observe, and those that its open siblings observe. Each
// conversation sees each of them once, as far as they fit into its window.
import type { Tx } from '../../store/engine.ts'
import { placeholders, query, text } from '../../store/statement.ts'
import { parentFolderOf } from '../access/tiers.ts'
import { groups } from '../groups/groups.ts'
import { type Envelope, envelopes } from '../messages/envelopes.ts'
import { type InboxRow, inbox } from '../messages/inbox.ts'
import { decodeContent, type Message, messages } from '../messages/messages.ts'
import { isChangeNotice } from '../messages/platform-changes.ts'
import type { RouteTable } from '../routing/route-table.ts'
import { conversations } from '../turns/conversations.ts'
import type { TurnRules } from '../turns/turn-rules.ts'
import { codePoints } from '../values.ts'
import { readNoticeText } from './change-notices.ts'

export interface ObservedMessage {
  readonly row: InboxRow
  readonly message: Message
  readonly envelope: Envelope | undefined
  /** The content, possibly cut. */
  readonly text: string
}

export interface ObservedBatch {
  /** Oldest first. */
  readonly rows: readonly ObservedMessage[]
  /** The last message of the batch, written to `observed_seq` when the turn is dispatched. */
  readonly seq: number
}

interface ObserveRequest {
  readonly folder: string
  readonly topic: string
  readonly routes: RouteTable
  readonly rules: Pick<TurnRules, 'observeMessages' | 'observeChars'>
}

const PAGE_SIZE = 50

export async function readObservedMessages(
  tx: Tx,
  { folder, topic, routes, rules }: ObserveRequest,
): Promise<ObservedBatch> {
  const after = (await conversations.find(tx, { folder, topic }))?.observed_seq ?? 0
  const window = await readObserveWindow(tx, folder, routes, rules)
  const folders = [folder, ...(await listOpenSiblings(tx, folder))]
  const rows: ObservedMessage[] = []
  const notices = { folder, topic, after, told: new Set<number>() }
  let [seq, charsLeft, before] = [after, window.chars, Number.MAX_SAFE_INTEGER]
  for (;;) {
    const page = await readPageBefore(tx, folders, after, before)
    seq = Math.max(seq, page[0]?.message_seq ?? 0)
    for (const row of page) {
      if (rows.length >= window.messages || charsLeft <= 0) return { rows: rows.reverse(), seq }
      const message = await messages.find(tx, { seq: row.message_seq })
      if (!message) continue
      const envelope = await envelopes.find(tx, { message_seq: row.message_seq })
      const isNotice = isChangeNotice(message)
      const text = isNotice
        ? await readNoticeText(tx, notices, { row, message, envelope })
        : decodeContent(message.content)
      if (text === undefined || (text.trim() === '' && !isNotice)) continue
      const length = codePoints(text)
      const isTooLong = length > charsLeft
      if (isTooLong && rows.length > 0) return { rows: rows.reverse(), seq }
      const start = isTooLong ? [...text.slice(0, 2 * charsLeft)].slice(0, charsLeft - 1).join('') : ''
      rows.push({ row, message, envelope, text: isTooLong ? `${start}…` : text })
      charsLeft -= length
    }
    const last = page.at(-1)
    if (!last || page.length < PAGE_SIZE) return { rows: rows.reverse(), seq }
    before = last.message_seq
  }
}

async function readPageBefore(tx: Tx, folders: readonly string[], after: number, before: number): Promise<InboxRow[]> {
  return query(
    tx,
    inbox.decode,
    `select ${inbox.columns.join(', ')} from inbox where state = 'observed' and folder in (${placeholders(folders.length, 2)})
       and message_seq > $1 and message_seq < $2 order by message_seq desc limit ${PAGE_SIZE}`,
    [after, before, ...folders],
  )
}

/** A window set by a route takes precedence over the group, and the group over the instance. */
async function readObserveWindow(
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

/** Siblings are direct children of the same parent; both must be open. A top-level folder has none. */
async function listOpenSiblings(tx: Tx, folder: string): Promise<string[]> {
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
