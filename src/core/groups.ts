// Groups: one folder, one agent.
import { z } from 'zod'
import { jsonFault, tryJson } from '../lib/json.ts'
import type { Tx } from '../store/engine.ts'
import { run } from '../store/statement.ts'
import { Table } from '../store/table.ts'
import { toolsFault, unsafeMembers } from './group-config.ts'
import { groupStamp } from './stamp.ts'
import { Folder, line, PLAIN_VALUE_RULE, Timestamp, text } from './values.ts'

const JsonObject = text((value) => {
  const parsed = tryJson(value)
  if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) return undefined
  return jsonFault(value) ?? 'must be a JSON object'
})

const GroupConfig = JsonObject.superRefine((value, ctx) => {
  for (const member of unsafeMembers(value)) ctx.addIssue({ code: 'custom', path: [member], message: PLAIN_VALUE_RULE })
  const fault = toolsFault(value)
  if (fault !== undefined) ctx.addIssue({ code: 'custom', path: ['tools'], message: fault })
})

/** Groups, users and routes share these: -1 is never stored, absent means the default one level up. */
export const WINDOW_MAX = 1_000_000
export const Window = z.int().min(0).max(WINDOW_MAX)
export const Cents = z.int().positive().max(1_000_000_000_000)

export const Group = z
  .object({
    folder: Folder,
    name: line(128).describe('What people call it'),
    product: line(64).describe('The product it was made from'),
    open: z.boolean().describe("Whether siblings see each other's ambient messages"),
    cost_cap_cents_per_day: Cents.optional().describe('Turns are refused when a day has cost more'),
    observe_window_messages: Window.optional(),
    observe_window_chars: Window.optional(),
    container_config: JsonObject.optional().describe('How its runtime is set up, as JSON text'),
    config: GroupConfig.optional().describe('Further settings of the group, as JSON text'),
    added_at: Timestamp.meta({ readOnly: true }),
    updated_at: Timestamp.meta({ readOnly: true }).optional(),
  })
  .meta({ id: 'Groups' })

export const groups = new Table({
  name: 'groups',
  row: Group,
  key: 'folder',
  storage: [
    `create table groups (
       folder text primary key, name text not null, product text not null, open boolean not null,
       cost_cap_cents_per_day bigint, observe_window_messages integer, observe_window_chars integer,
       container_config text, config text, added_at text not null, updated_at text)`,
    () => groupStamp.make(),
    groupStamp.notedBy('groups'),
  ],
})

/** How many groups lie below a folder, at any depth. */
export async function countBelow(tx: Tx, folder: string): Promise<number> {
  // The character after the slash ends the range of keys that begin with the folder and a slash.
  const { rows } = await run(tx, 'select count(*) as count from groups where folder >= $1 and folder < $2', [
    `${folder}/`,
    `${folder}0`,
  ])
  return Number(rows[0]?.count)
}

/** Names of the directories in a folder's workspace in which groups below it have theirs. */
export async function childNames(tx: Tx, folder: string): Promise<ReadonlySet<string>> {
  // "0" comes after "/" in the order of bytes.
  const { rows } = await run(tx, 'select folder from groups where folder > $1 and folder < $2', [
    `${folder}/`,
    `${folder}0`,
  ])
  return new Set(
    rows.map(
      (row) =>
        String(row.folder)
          .slice(folder.length + 1)
          .split('/')[0] ?? '',
    ),
  )
}
