// Groups: each has one folder and one agent.
import { z } from 'zod'
import { findJsonError, tryParseJson } from '../../lib/text/json.ts'
import type { Tx } from '../../store/engine.ts'
import { integer, query, queryOne, text as textColumn } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { groupStamp } from '../change-stamps.ts'
import { checkedText, Folder, line, PLAIN_VALUE_RULE, Timestamp } from '../values.ts'
import { identityFaults, toolsFault, unsafeMembers, visionFault, workPathsFault } from './group-config.ts'

const JsonObject = checkedText((value) => {
  const parsed = tryParseJson(value)
  if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) return undefined
  return findJsonError(value) ?? 'must be a JSON object'
})

const GroupConfig = JsonObject.superRefine((value, ctx) => {
  for (const member of unsafeMembers(value)) ctx.addIssue({ code: 'custom', path: [member], message: PLAIN_VALUE_RULE })
  const faults = {
    tools: toolsFault(value),
    work_paths: workPathsFault(value),
    vision: visionFault(value),
    ...identityFaults(value),
  }
  for (const [member, fault] of Object.entries(faults))
    if (fault !== undefined) ctx.addIssue({ code: 'custom', path: [member], message: fault })
})

/** Shared by groups, users and routes. Absent: the default one level up applies. */
export const OBSERVE_WINDOW_MAX = 1_000_000
export const ObserveWindow = z.int().min(0).max(OBSERVE_WINDOW_MAX)
export const Cents = z.int().positive().max(1_000_000_000_000)

export const Group = z
  .object({
    folder: Folder,
    name: line(128).describe('Display name'),
    product: line(64).describe('Product it was created from'),
    open: z.boolean().describe("Whether siblings see each other's ambient messages"),
    cost_cap_cents_per_day: Cents.optional().describe('Turns are refused once the costs of the day exceed it'),
    observe_window_messages: ObserveWindow.optional(),
    observe_window_chars: ObserveWindow.optional(),
    container_config: JsonObject.optional().describe('Setup of its runtime, as JSON text'),
    config: GroupConfig.optional().describe('Further settings, as JSON text'),
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
    () => groupStamp.createStatements(),
    groupStamp.updateOnWrite('groups'),
    'create index groups_capped on groups (folder) where cost_cap_cents_per_day is not null',
  ],
})

/** A folder with more messages today is reported with this number. */
export const MESSAGES_SHOWN_MAX = 1000

const FolderState = z.enum(['paused', 'running', 'waiting', 'idle'])
export type FolderState = z.output<typeof FolderState>

export const FolderActivity = Group.pick({
  folder: true,
  name: true,
  product: true,
  cost_cap_cents_per_day: true,
}).extend({
  messages_today: z.int().describe(`Messages since 00:00 UTC, ${MESSAGES_SHOWN_MAX} if more`),
  cost_today_cents: z.int(),
  last_at: z.string().optional().describe('When its last message arrived or changed its state'),
  state: FolderState.describe('paused: no turn starts for a while after several failed ones'),
})
export type FolderActivity = z.output<typeof FolderActivity>

/** Counts groups below a folder, at any depth. */
export async function countDescendants(tx: Tx, folder: string): Promise<number> {
  // "0" is the character after "/": it ends the range of keys that start with the folder and a slash.
  const sql = 'select count(*) as count from groups where folder >= $1 and folder < $2'
  return (await queryOne(tx, { count: integer }, sql, [`${folder}/`, `${folder}0`])).count
}

/** Names of the directories in a folder's workspace that contain the workspaces of groups below it. */
export async function childNames(tx: Tx, folder: string): Promise<ReadonlySet<string>> {
  const sql = 'select folder from groups where folder > $1 and folder < $2'
  const rows = await query(tx, { folder: textColumn }, sql, [`${folder}/`, `${folder}0`])
  return new Set(rows.map((row) => row.folder.slice(folder.length + 1).split('/')[0] ?? ''))
}
