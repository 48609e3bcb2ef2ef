// One mutation, one row, in the same transaction. Never a secret and never content: of what is write-only, is called like a
// secret or is marked as content, a row holds the length alone. What looks like a credential elsewhere is redacted.
import { z } from 'zod'
import { principalOf } from '../core/access/caller.ts'
import { Reach } from '../core/access/reach.ts'
import { containsContent, Timestamp } from '../core/values.ts'
import { timestamp } from '../lib/clock.ts'
import { redact, redactJson } from '../lib/log/redact.ts'
import type { Tx } from '../store/engine.ts'
import { Table } from '../store/table.ts'
import type { RequestContext } from './context.ts'
import { encodeKey } from './url-key.ts'

export const Audit = z
  .object({
    id: z.int().meta({ readOnly: true }),
    created_at: Timestamp.meta({ readOnly: true }),
    category: z.enum(['mutation', 'authz']),
    action: z.string().describe('<resource>.<verb>'),
    actor: z.string().describe('The principal that asked'),
    resource: z.string(),
    key: z.string().describe('What it was done to'),
    surface: z.enum(['rest', 'tool', 'cli', 'dash']),
    params_summary: z.string().describe('The arguments as JSON, without secrets and content, cut to a summary'),
    outcome: z.enum(['ok', 'denied']),
    error_msg: z.string().optional(),
    duration_ms: z.int(),
    folder: z.string().optional().describe('The folder that the caller acted from'),
    instance: z.string(),
    turn_id: z.string().optional(),
    request_id: z.string().optional(),
    source_ip: z.string().optional(),
    reach: Reach.optional().describe("Of the agent's turn"),
  })
  .meta({ id: 'Audit' })

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
    // Earlier versions kept what these calls said, which may hold links.
    `update audit set params_summary = '{}' where action in ('tools.send', 'tools.reply', 'tools.send_file',
       'tools.send_voice', 'tools.post', 'tools.forward', 'tools.quote', 'tools.edit', 'tools.delegate_group',
       'tools.escalate_group', 'tools.inject_message', 'tools.pane_set_prompts', 'tools.pane_set_title', 'tools.hold',
       'tools.find_messages', 'scheduled_tasks.schedule', 'scheduled_tasks.update', 'route_tokens.issue_chat',
       'route_tokens.issue_hook', 'route_tokens.issue_verified') or params_summary like '%/chat/%' or params_summary like '%/hook/%'
       or params_summary like '%/invite/%'`,
    `update audit set key = '' where action = 'tools.escalate_group' and outcome = 'denied'`,
    `update audit set key = substr(key, 1, 12) where action = 'invites.revoke'`,
  ],
})

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

/** What was asked, and what came of it. */
export interface AuditedCall {
  readonly input: object
  readonly reply?: unknown
  /** The folder that the caller acted from, where the caller has none of its own. */
  readonly folder?: string | undefined
}

const SECRET_NAME = /pass(word|phrase)|token$|secret|credential|authorization|cookie|dsn|api.?key|[_-]key$|^value$/i
const VALUE_MAX = 200
const SUMMARY_MAX = 512

export async function writeAudit(
  tx: Tx,
  asking: RequestContext,
  verb: AuditedVerb,
  deed: AuditedCall,
  outcome: AuditOutcome,
): Promise<void> {
  const { host, caller, face, requestId, sourceIp, turn, reach } = asking
  const own = caller.kind === 'agent' || caller.kind === 'person' ? caller.folder : undefined
  await audit.append(tx, {
    created_at: timestamp(host.clock.now()),
    category: outcome.result === 'denied' ? 'authz' : 'mutation',
    action: verb.id,
    actor: principalOf(caller),
    resource: verb.resource,
    key: keyOf(verb, deed),
    surface: face,
    params_summary: summary(deed.input, verb.input),
    outcome: outcome.result,
    error_msg: outcome.error === undefined ? undefined : redact(outcome.error),
    duration_ms: outcome.durationMs,
    folder: own ?? deed.folder,
    instance: host.instance,
    turn_id: turn?.id,
    request_id: requestId,
    source_ip: sourceIp,
    reach,
  })
}

/** The row's key, from what was asked or from what came of it; else the first thing that was named. */
function keyOf({ key, input: schema }: AuditedVerb, { input, reply }: AuditedCall): string {
  if (key.length === 0) return ''
  const asked = new Map(Object.entries(input).filter(([, value]) => value !== undefined))
  const known = new Map([...Object.entries(reply ?? {}), ...asked])
  const names = key.every((name) => known.has(name)) ? key : [...asked.keys()].slice(0, 1)
  if (names.some((name) => isHidden(name, schema) || typeof known.get(name) === 'object')) return ''
  return redact(encodeKey(names.map((name) => String(known.get(name))))).slice(0, VALUE_MAX)
}

function summary(input: object, schema: z.ZodObject): string {
  return summaryOf(input, (name) => isHidden(name, schema))
}

/** For the operator who approves a call, and must know what it says. */
export function summaryWithContent(input: object, schema: z.ZodObject): string {
  return summaryOf(input, (name) => isSecret(name, schema))
}

function summaryOf(input: object, hides: (name: string) => boolean): string {
  const shown = Object.entries(input)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, hides(name) ? `<redacted:${lengthOf(value)} chars>` : short(value)])
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

interface Fields {
  readonly writeOnly: ReadonlySet<string>
  readonly content: ReadonlySet<string>
}

const known = new WeakMap<z.ZodObject, Fields>()

/** Looked up once for a schema: what is marked is asked of every call. */
function fieldsOf(schema: z.ZodObject): Fields {
  const before = known.get(schema)
  if (before) return before
  const namesOf = (isMarked: (field: z.ZodType) => boolean): ReadonlySet<string> =>
    new Set(
      Object.entries(schema.shape).flatMap(([name, field]) =>
        field instanceof z.ZodType && isMarked(field) ? [name] : [],
      ),
    )
  const fields = { writeOnly: namesOf((field) => field.meta()?.writeOnly === true), content: namesOf(containsContent) }
  known.set(schema, fields)
  return fields
}

/** Redacted before it is cut: a part of a token would not be known as one. */
function short(value: unknown): unknown {
  if (typeof value === 'number' || typeof value === 'boolean') return value
  const text = typeof value === 'string' ? redact(value) : redactJson(JSON.stringify(value))
  if (text.length > VALUE_MAX) return `${text.slice(0, VALUE_MAX)}…`
  return typeof value === 'string' ? text : JSON.parse(text)
}
