// Formats the entries of a sandbox room and follows new ones.
import { entryId, listRoomEntries, type SandboxEntry, type SandboxReceipt } from '../../core/delivery/sandbox-rooms.ts'
import { type InboxRow, inbox } from '../../core/messages/inbox.ts'
import { OPEN_STATES } from '../../core/messages/message-states.ts'
import { cell } from '../../lib/command-line/print.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { query } from '../../store/statement.ts'

const POLL_MS = 500
const PAGE_SIZE = 200

/** The form of an entry for --json. */
export function toEntryRecord(entry: SandboxEntry) {
  const { jid: room, author, is_from_me, kind, content, topic, reply_to, source_id, is_pinned, created_at } = entry
  const { reactions, buttons, edited_at, deleted_at } = entry
  const files = entry.files.map(({ filename, size, mime }) => ({ filename, size, mime }))
  const rest = { source_id, files, reactions, buttons, is_pinned, edited_at, deleted_at, created_at }
  return { id: entryId(entry), room, author, is_from_me, kind, content, topic, reply_to, ...rest }
}

/** One line per entry; further lines of its content are indented. */
export function formatEntry(entry: SandboxEntry): string {
  const { author, kind, content, topic, reply_to, source_id, files, reactions, buttons = [], created_at } = entry
  const reactionMarks = Object.entries(reactions).map(([emoji, people]) => `${emoji} ${people.join(', ')}`)
  const text = entry.deleted_at === undefined ? content.split('\n').map(cell).join('\n    ') : '(deleted)'
  const marks = [
    ...(kind === 'send' ? [] : [kind.replace('_', ' ')]),
    ...(topic === undefined ? [] : [`#${cell(topic)}`]),
    ...(reply_to === undefined ? [] : [`↩ ${reply_to}`]),
    ...(source_id === undefined ? [] : [`of ${cell(source_id)}`]),
    ...files.map(({ filename, size }) => `${cell(filename)} (${size} bytes)`),
    ...(entry.edited_at === undefined ? [] : ['edited']),
    ...(entry.is_pinned ? ['📌'] : []),
    ...reactionMarks.map(cell),
    ...buttons.map(({ id, label }) => `${cell(label)}: ${id}`),
  ]
  const tail = marks.length === 0 ? '' : `  [${marks.join('] [')}]`
  return `${entryId(entry)}  ${created_at.slice(11, 19)}  ${cell(author)}: ${text}${tail}`
}

/** Shows replies of the agent until the posted message reaches a final state. Undefined if `signal` aborts first. */
export async function followAnswer(
  host: InstanceHost,
  { entry, messageId }: SandboxReceipt,
  { signal, show, onIdle }: FollowRoomOptions,
): Promise<InboxRow | undefined> {
  let after = entry.seq
  let row: InboxRow | undefined
  let isIdleReported = false
  for await (const ticks of watchStore(host, signal)) {
    const current = await host.engine.read(async (tx) => {
      const unsent = `select 1 as one from outbox where jid = $1 and state in ('pending', 'sending') limit 1`
      return {
        row: await inbox.find(tx, { id: messageId }),
        hasUnsent: (await query(tx, {}, unsent, [entry.jid])).length > 0,
        entries: await listRoomEntries(tx, entry.jid, { after, limit: PAGE_SIZE }),
      }
    })
    for (const reply of current.entries) {
      after = reply.seq
      if (reply.is_from_me) show(reply)
    }
    row = current.row
    if (row && !OPEN_STATES.includes(row.state) && !current.hasUnsent) return row
    if (row || ticks < IDLE_TICKS || isIdleReported) continue
    isIdleReported = true
    onIdle?.()
  }
  return undefined
}

/** If the router has not taken the message after this many ticks, it is probably not running. */
const IDLE_TICKS = 6

export interface FollowRoomOptions {
  readonly signal: AbortSignal
  show(entry: SandboxEntry): void
  /** Called once if the router does not pick up the message for a while. */
  onIdle?(): void
}

/** Shows entries after `from` until `signal` aborts. */
export async function followRoom(
  host: InstanceHost,
  jid: string,
  from: number,
  { signal, show }: FollowRoomOptions,
): Promise<void> {
  let after = from
  for await (const _ of watchStore(host, signal)) {
    const entries = await host.engine.read((tx) => listRoomEntries(tx, jid, { after, limit: PAGE_SIZE }))
    for (const entry of entries) {
      after = entry.seq
      show(entry)
    }
  }
}

/** Yields at once, after every commit and on every timer tick; the value is the number of ticks so far. */
async function* watchStore(host: InstanceHost, signal: AbortSignal): AsyncGenerator<number> {
  let [ticks, isStale] = [0, true]
  let wake = (): void => {}
  const invalidate = (): void => {
    isStale = true
    wake()
  }
  const timer = setInterval(() => {
    ticks++
    invalidate()
  }, POLL_MS)
  const unsubscribes = [host.engine.listen(invalidate), host.signals.on(invalidate)]
  signal.addEventListener('abort', invalidate)
  try {
    while (!signal.aborted) {
      isStale = false
      yield ticks
      if (isStale || signal.aborted) continue
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  } finally {
    clearInterval(timer)
    signal.removeEventListener('abort', invalidate)
    for (const unsubscribe of unsubscribes) unsubscribe()
  }
}
