// What happened in folders today, for lists of folders. Reads index ranges of the listed folders only.
import type { z } from 'zod'
import { timestamp } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { flag, integer, optional, placeholders, query, text } from '../../store/statement.ts'
import { firstInboxSeqSince } from '../turns/day-activity.ts'
import { type FolderActivity, type FolderState, type Group, MESSAGES_SHOWN_MAX } from './groups.ts'

const ROW = {
  folder: text,
  messages: integer,
  cents: integer,
  last_at: optional(text),
  is_running: flag,
  is_waiting: flag,
  open_until: integer,
}

type ListedGroup = z.output<typeof Group>

export async function readFolderActivity(
  tx: Tx,
  listed: readonly ListedGroup[],
  nowMs: number,
): Promise<FolderActivity[]> {
  if (listed.length === 0) return []
  const day = timestamp(nowMs).slice(0, 10)
  const first = await firstInboxSeqSince(tx, Date.parse(day))
  const rows = await query(
    tx,
    ROW,
    `select g.folder,
       (select count(*) from (select 1 as one from inbox i where i.folder = g.folder and i.message_seq >= $1
         limit ${MESSAGES_SHOWN_MAX}) as today) as messages,
       (select cast(coalesce(sum(d.cents), 0) as bigint) from daily_costs d
         where d.payer = 'folder' and d.name = g.folder and d.day >= $2) as cents,
       (select i.updated_at from inbox i where i.folder = g.folder order by i.message_seq desc limit 1) as last_at,
       exists (select 1 from turns t where t.folder = g.folder and t.state <> 'done') as is_running,
       exists (select 1 from conversations c where c.folder = g.folder and c.waiting > 0 and c.turn_id is null) as is_waiting,
       coalesce((select f.open_until from folder_turns f where f.folder = g.folder), 0) as open_until
     from groups g where g.folder in (${placeholders(listed.length, 2)})`,
    [first ?? Number.MAX_SAFE_INTEGER, day, ...listed.map(({ folder }) => folder)],
  )
  const byFolder = new Map(rows.map((row) => [row.folder, row]))
  return listed.map((group) => describe(group, byFolder.get(group.folder), nowMs))
}

type ActivityRow = { [K in keyof typeof ROW]: ReturnType<(typeof ROW)[K]> }

function describe(group: ListedGroup, row: ActivityRow | undefined, nowMs: number): FolderActivity {
  const { folder, name, product, cost_cap_cents_per_day: cap } = group
  return {
    folder,
    name,
    product,
    ...(cap === undefined ? {} : { cost_cap_cents_per_day: cap }),
    messages_today: row?.messages ?? 0,
    cost_today_cents: row?.cents ?? 0,
    ...(row?.last_at === undefined ? {} : { last_at: row.last_at }),
    state: row ? stateOf(row, nowMs) : 'idle',
  }
}

function stateOf({ is_running, is_waiting, open_until }: ActivityRow, nowMs: number): FolderState {
  if (open_until > nowMs) return 'paused'
  if (is_running) return 'running'
  return is_waiting ? 'waiting' : 'idle'
}
