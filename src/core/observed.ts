// What a folder overhears: messages that a route only lets it observe, and those of its open siblings. Each conversation is
// shown them once, the newest up to its window.
import type { Tx } from '../store/engine.ts'
import { run } from '../store/statement.ts'
import { findConversation } from './conversations.ts'
import { type Envelope, envelopes } from './envelopes.ts'
import { groups } from './groups.ts'
import { type Inbox, inbox } from './inbox.ts'
import { type Message, messages, textOf } from './messages.ts'
import type { RouteTable } from './routing.ts'
import { parentOf } from './tiers.ts'
import type { TurnRules } from './turn-rules.ts'
import { codePoints } from './values.ts'

export interface Overheard {
  readonly row: Inbox
  readonly message: Message
  readonly envelope: Envelope | undefined
  /** What of it is shown. */
  readonly text: string
}

export interface Observed {
  /** Oldest first. */
  readonly rows: readonly Overheard[]
  /** How far the conversation has seen then: written to `observed_seq` when the turn is dispatched. */
  readonly seq: number
}

export interface Watching {
  readonly folder: string
  readonly topic: string
  readonly routes: RouteTable
  readonly rules: Pick<TurnRules, 'observeMessages' | 'observeChars'>
}

const PAGE = 50

export async function observedBy(tx: Tx, { folder, topic, routes, rules }: Watching): Promise<Observed> {
  const after = (await findConversation(tx, folder, topic))?.observed_seq ?? 0
  const window = await windowOf(tx, folder, routes, rules)
  const folders = [folder, ...(await openSiblings(tx, folder))]
  const rows: Overheard[] = []
  let [seq, left, before] = [after, window.chars, Number.MAX_SAFE_INTEGER]
  for (;;) {
    const page = await newest(tx, folders, after, before)
    seq = Math.max(seq, page[0]?.message_seq ?? 0)
    for (const row of page) {
      if (rows.length >= window.messages || left <= 0) return { rows: rows.reverse(), seq }
      const message = await messages.find(tx, { seq: row.message_seq })
      const text = message ? textOf(message.content) : ''
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

async function newest(tx: Tx, folders: readonly string[], after: number, before: number): Promise<Inbox[]> {
  const marks = folders.map((_, at) => `$${at + 3}`).join(', ')
  const { rows } = await run(
    tx,
    `select ${inbox.columns.join(', ')} from inbox where state = 'observed' and folder in (${marks})
       and message_seq > $1 and message_seq < $2 order by message_seq desc limit ${PAGE}`,
    [after, before, ...folders],
  )
  return rows.map((row) => inbox.decode(row))
}

/** The first route into the folder that says something beats the group, and the group beats the instance. */
async function windowOf(
  tx: Tx,
  folder: string,
  routes: RouteTable,
  rules: Watching['rules'],
): Promise<{ messages: number; chars: number }> {
  const route = routes.windowsOf(folder)
  const group = await groups.find(tx, { folder })
  return {
    messages: route.messages ?? group?.observe_window_messages ?? rules.observeMessages,
    chars: route.chars ?? group?.observe_window_chars ?? rules.observeChars,
  }
}

/** Direct children of the same parent, where both sides are open; a top-level folder has none. */
async function openSiblings(tx: Tx, folder: string): Promise<string[]> {
  const parent = parentOf(folder)
  if (parent === undefined || !(await groups.find(tx, { folder, open: true }))) return []
  const { rows } = await run(
    tx,
    'select folder from groups where open and substr(folder, 1, $1) = $2 and folder <> $3 order by folder',
    [parent.length + 1, `${parent}/`, folder],
  )
  return rows.map((row) => String(row.folder)).filter((each) => parentOf(each) === parent)
}
