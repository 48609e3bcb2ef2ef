// The audit log: one row per mutation, in the same transaction, and one per refusal and minute. Of arguments that are write-only, are named like a secret or
// are marked as content, a row has only the length; other values are redacted where they look like credentials.
import { z } from 'zod'
import { principalOf } from '../core/access/caller.ts'
import { Reach } from '../core/access/reach.ts'
import { containsContent, Timestamp } from '../core/values.ts'
import { timestamp } from '../lib/clock.ts'
import { redact, redactJson } from '../lib/log/redact.ts'
import type { StoredRow, Tx } from '../store/engine.ts'
import { execute, query } from '../store/statement.ts'
import { Table } from '../store/table.ts'
import type { RequestContext } from './context.ts'
import { encodeKey } from './url-key.ts'

export const Audit = z
  .object({
    id: z.int().meta({ readOnly: true }),
    created_at: Timestamp.meta({ readOnly: true }),
    category: z.enum(['mutation', 'authz']),
    action: z.string().describe('<resource>.<verb>'),
    actor: z.string().describe('Principal that made the call'),
    resource: z.string(),
    key: z.string().describe('Key of the row that the call changed'),
    surface: z.enum(['rest', 'tool', 'cli', 'dash']),
    params_summary: z.string().describe('Arguments as JSON, shortened, without secrets and message content'),
    outcome: z.enum(['ok', 'denied']),
    error_msg: z.string().optional(),
    duration_ms: z.int(),
    folder: z.string().optional().describe('Folder that the caller acted from'),
    instance: z.string(),
    turn_id: z.string().optional(),
    request_id: z.string().optional(),
    source_ip: z.string().optional(),
    reach: Reach.optional().describe("Reach of the agent's turn"),
    count: z.int().optional().describe('Number of equal refusals within a minute, if there was more than one'),
  })
  .meta({ id: 'Audit' })

type AuditRow = z.output<typeof Audit>

export const audit = new Table({
  name: 'audit',
  row: Audit,
  key: 'id',
  storage: [
    (dialect) => [
      `create table audit (
         id ${dialect.counter}, created_at text not null, category text not null, action text not null,
         actor text not null, resource text not null, key text not null, surface text not null,
         params_summary text not null, outcome text not null, error_msg text, duration_ms integer not null, folder text,
         instance text not null, turn_id text, request_id text, source_ip text)`,
    ],
    'alter table audit add column reach text',
    // Earlier versions stored message texts of these calls, which may contain links.
    `update audit set params_summary = '{}' where action in ('tools.send', 'tools.reply', 'tools.send_file',
       'tools.send_voice', 'tools.post', 'tools.forward', 'tools.quote', 'tools.edit', 'tools.delegate_group',
       'tools.escalate_group', 'tools.inject_message', 'tools.pane_set_prompts', 'tools.pane_set_title', 'tools.hold',
       'tools.find_messages', 'scheduled_tasks.schedule', 'scheduled_tasks.update', 'route_tokens.issue_chat',
       'route_tokens.issue_hook', 'route_tokens.issue_verified') or params_summary like '%/chat/%' or params_summary like '%/hook/%'
       or params_summary like '%/invite/%'`,
    `update audit set key = '' where action = 'tools.escalate_group' and outcome = 'denied'`,
    `update audit set key = substr(key, 1, 12) where action = 'invites.revoke'`,
    'create index audit_of_turn on audit (turn_id, id) where turn_id is not null',
    'create index audit_of_actor on audit (actor, id)',
    'create index audit_of_category on audit (category, id)',
    'create index audit_of_folder on audit (folder, category, id)',
    'alter table audit add column count integer',
  ],
})

/** A change that the agent of a turn made or was refused. */
export const TurnCall = Audit.pick({
  id: true,
  created_at: true,
  action: true,
  params_summary: true,
  outcome: true,
  error_msg: true,
  duration_ms: true,
})
type TurnCall = z.output<typeof TurnCall>

const CALL_COLUMNS = Object.keys(TurnCall.shape).join(', ')

/** The last calls of a turn, oldest first. Reads are not audited. */
export async function listTurnCalls(tx: Tx, turn_id: string, limit: number): Promise<TurnCall[]> {
  const sql = `select ${CALL_COLUMNS} from audit where turn_id = $1 order by id desc limit $2`
  return (await query(tx, decodeCall, sql, [turn_id, limit])).toReversed()
}

function decodeCall(row: StoredRow): TurnCall {
  return audit.decode(row)
}

export interface AuditOutcome {
  result: 'ok' | 'denied'
  durationMs: number
  error?: string
}

export interface AuditedVerb {
  readonly id: string
  readonly resource: string
  readonly key: readonly string[]
  readonly input: z.ZodObject
}

export interface AuditedCall {
  readonly input: object
  readonly reply?: unknown
  /** The folder that the caller acted from, if the caller itself has none. */
  readonly folder?: string | undefined
}

const SECRET_NAME = /pass(word|phrase)|token$|secret|credential|authorization|cookie|dsn|api.?key|[_-]key$|^value$/i
const VALUE_MAX = 200
const SUMMARY_MAX = 512

export async function writeAudit(
  tx: Tx,
  request: RequestContext,
  verb: AuditedVerb,
  call: AuditedCall,
  outcome: AuditOutcome,
): Promise<void> {
  const { host, caller, face, requestId, sourceIp, turn, reach } = request
  const callerFolder = caller.kind === 'agent' || caller.kind === 'person' ? caller.folder : undefined
  const row: Omit<AuditRow, 'id'> = {
    created_at: timestamp(host.clock.now()),
    category: outcome.result === 'denied' ? 'authz' : 'mutation',
    action: verb.id,
    actor: principalOf(caller),
    resource: verb.resource,
    key: keyOf(verb, call),
    surface: face,
    params_summary: summarize(call.input, (name) => isHidden(name, verb.input)),
    outcome: outcome.result,
    error_msg: outcome.error === undefined ? undefined : redact(outcome.error),
    duration_ms: outcome.durationMs,
    folder: callerFolder ?? call.folder,
    instance: host.instance,
    turn_id: turn?.id,
    request_id: requestId,
    source_ip: sourceIp,
    reach,
  }
  // Changes are never merged: each has its own row.
  if (outcome.result === 'denied' && (await countRepeat(tx, row, host.clock.now()))) return
  await audit.append(tx, row)
}

/** Equal refusals within this time of the first one share its row. */
const REPEAT_MS = 60_000
/** How many of the last rows of the caller are compared. */
const RECENT_ROWS = 200
/** What equal refusals have in common. */
const REPEATED = [
  'category',
  'action',
  'key',
  'surface',
  'params_summary',
  'error_msg',
  'folder',
  'turn_id',
  'source_ip',
  'reach',
] as const

/** Counts a refusal in the row of an equal one, of any process. Returns whether there is one. */
async function countRepeat(tx: Tx, row: Omit<AuditRow, 'id'>, nowMs: number): Promise<boolean> {
  const same = REPEATED.map((column, index) => `coalesce(${column}, '') = $${index + 3}`).join(' and ')
  const recent = `select id, created_at, ${REPEATED.join(', ')} from audit where actor = $1 order by id desc limit ${RECENT_ROWS}`
  const changed = await execute(
    tx,
    `update audit set count = coalesce(count, 1) + 1
     where id = (select max(id) from (${recent}) recent where created_at > $2 and ${same})`,
    [row.actor, timestamp(nowMs - REPEAT_MS), ...REPEATED.map((column) => row[column] ?? '')],
  )
  return changed > 0
}

/** The row's key from the input or the reply; else the first argument. */
function keyOf({ key, input: schema }: AuditedVerb, { input, reply }: AuditedCall): string {
  if (key.length === 0) return ''
  const args = new Map(Object.entries(input).filter(([, value]) => value !== undefined))
  const values = new Map([...Object.entries(reply ?? {}), ...args])
  const names = key.every((name) => values.has(name)) ? key : [...args.keys()].slice(0, 1)
  if (names.some((name) => isHidden(name, schema) || typeof values.get(name) === 'object')) return ''
  return redact(encodeKey(names.map((name) => String(values.get(name))))).slice(0, VALUE_MAX)
}

/** For people who must see the content: those who approve a call, or watch a turn. */
export function summaryWithContent(input: object, schema: z.ZodObject): string {
  return summarize(input, (name) => isSecret(name, schema))
}

function summarize(input: object, isRedacted: (name: string) => boolean): string {
  const shown = Object.entries(input)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, isRedacted(name) ? `<redacted:${lengthOf(value)} chars>` : shortenValue(value)])
  const text = JSON.stringify(Object.fromEntries(shown))
  return text.length > SUMMARY_MAX ? `${text.slice(0, SUMMARY_MAX)}…` : text
}

function lengthOf(value: unknown): number {
  return typeof value === 'object' ? JSON.stringify(value).length : String(value).length
}

function isHidden(name: string, schema: z.ZodObject): boolean {
  return isSecret(name, schema) || fieldsOf(schema).content.has(name)
}

function isSecret(name: string, schema: z.ZodObject): boolean {
  return SECRET_NAME.test(name) || fieldsOf(schema).writeOnly.has(name)
}

interface MarkedFields {
  readonly writeOnly: ReadonlySet<string>
  readonly content: ReadonlySet<string>
}

/** One lookup per schema, because every call needs it. */
const fieldCache = new WeakMap<z.ZodObject, MarkedFields>()

function fieldsOf(schema: z.ZodObject): MarkedFields {
  const cached = fieldCache.get(schema)
  if (cached) return cached
  const namesOf = (isMarked: (field: z.ZodType) => boolean): ReadonlySet<string> =>
    new Set(
      Object.entries(schema.shape).flatMap(([name, field]) =>
        field instanceof z.ZodType && isMarked(field) ? [name] : [],
      ),
    )
  const fields = { writeOnly: namesOf((field) => field.meta()?.writeOnly === true), content: namesOf(containsContent) }
  fieldCache.set(schema, fields)
  return fields
}

/** Redacts before cutting, because a truncated token is not recognized. */
function shortenValue(value: unknown): unknown {
  if (typeof value === 'number' || typeof value === 'boolean') return value
  const text = typeof value === 'string' ? redact(value) : redactJson(JSON.stringify(value))
  if (text.length > VALUE_MAX) return `${text.slice(0, VALUE_MAX)}…`
  return typeof value === 'string' ? text : JSON.parse(text)
}
