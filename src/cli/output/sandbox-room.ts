// A room of the sandbox as it is shown, and what is said there as it comes.

import { listRoomEntries, entryId, type SandboxEntry, type SandboxReceipt } from '../../core/delivery/sandbox-rooms.ts'
import { type InboxRow, type InboxState, inbox } from '../../core/messages/inbox.ts'
import { cell } from '../../lib/command-line/print.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { query } from '../../store/statement.ts'

const LOOK_MS = 500
const PIECE = 200

/** An entry for --json. */
export function entryRecord(entry: SandboxEntry) {
  const { jid: room, author, is_from_me, kind, content, topic, reply_to, source_id, is_pinned, created_at } = entry
  const { reactions, edited_at, deleted_at } = entry
  const files = entry.files.map(({ filename, size, mime }) => ({ filename, size, mime }))
  const rest = { source_id, files, reactions, is_pinned, edited_at, deleted_at, created_at }
  return { id: entryId(entry), room, author, is_from_me, kind, content, topic, reply_to, ...rest }
}

/** An entry as a line; each further line of its content is set in. */
export function formatEntry(entry: SandboxEntry): string {
  const { author, kind, content, topic, reply_to, source_id, files, reactions, created_at } = entry
  const given = Object.entries(reactions).map(([emoji, who]) => `${emoji} ${who.join(', ')}`)
  const said = entry.deleted_at === undefined ? content.split('\n').map(cell).join('\n    ') : '(deleted)'
  const marks = [
    ...(kind === 'send' ? [] : [kind.replace('_', ' ')]),
    ...(topic === undefined ? [] : [`#${cell(topic)}`]),
    ...(reply_to === undefined ? [] : [`↩ ${reply_to}`]),
    ...(source_id === undefined ? [] : [`of ${cell(source_id)}`]),
    ...files.map(({ filename, size }) => `${cell(filename)} (${size} bytes)`),
    ...(entry.edited_at === undefined ? [] : ['edited']),
    ...(entry.is_pinned ? ['📌'] : []),
    ...given.map(cell),
  ]
  const tail = marks.length === 0 ? '' : `  [${marks.join('] [')}]`
  return `${entryId(entry)}  ${created_at.slice(11, 19)}  ${cell(author)}: ${said}${tail}`
}

const OPEN: readonly InboxState[] = ['waiting', 'running', 'delegated']

/** What the agent says after this was said, until that has come to its end; nothing where the wait was broken off. */
export async function followAnswer(
  host: InstanceHost,
  { entry, messageId }: SandboxReceipt,
  { signal, show, onIdle }: FollowRoomOptions,
): Promise<InboxRow | undefined> {
  let after = entry.seq
  let row: InboxRow | undefined
  let isIdleTold = false
  for await (const looks of pollTicks(host, signal)) {
    const seen = await host.engine.read(async (tx) => {
      const open = `select 1 as one from outbox where jid = $1 and state in ('pending', 'sending') limit 1`
      return {
        row: await inbox.find(tx, { id: messageId }),
        isOpen: (await query(tx, {}, open, [entry.jid])).length > 0,
        entries: await listRoomEntries(tx, entry.jid, { after, limit: PIECE }),
      }
    })
    for (const one of seen.entries) {
      after = one.seq
      if (one.is_from_me) show(one)
    }
    row = seen.row
    if (row && !OPEN.includes(row.state) && !seen.isOpen) return row
    if (row || looks < IDLE_LOOKS || isIdleTold) continue
    isIdleTold = true
    onIdle?.()
  }
  return undefined
}

/** So many looks without a word from the router: it does not run. */
const IDLE_LOOKS = 6

export interface FollowRoomOptions {
  readonly signal: AbortSignal
  show(entry: SandboxEntry): void
  /** Told once, when nobody has taken it up for a while. */
  onIdle?(): void
}

/** Whatever is said in the room from now on. */
export async function followRoom(
  host: InstanceHost,
  jid: string,
  from: number,
  { signal, show }: FollowRoomOptions,
): Promise<void> {
  let after = from
  for await (const _ of pollTicks(host, signal)) {
    const entries = await host.engine.read((tx) => listRoomEntries(tx, jid, { after, limit: PIECE }))
    for (const entry of entries) {
      after = entry.seq
      show(entry)
    }
  }
}

/** Now, whenever something was committed, and twice a second in any case; how many of the latter there were. */
async function* pollTicks(host: InstanceHost, signal: AbortSignal): AsyncGenerator<number> {
  let [looks, isStale] = [0, true]
  let wake = (): void => {}
  const look = (): void => {
    isStale = true
    wake()
  }
  const timer = setInterval(() => {
    looks++
    look()
  }, LOOK_MS)
  const stops = [host.engine.listen(look), host.signals.on(look)]
  signal.addEventListener('abort', look)
  try {
    while (!signal.aborted) {
      isStale = false
      yield looks
      if (isStale || signal.aborted) continue
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
  } finally {
    clearInterval(timer)
    signal.removeEventListener('abort', look)
    for (const stop of stops) stop()
  }
}
