// One mutation, one row, in the same transaction. Never a secret: what is write-only, or is called like a secret, is left out.
import { z } from 'zod'
import { principalOf } from '../core/caller.ts'
import { Reach } from '../core/reach.ts'
import { Timestamp } from '../core/values.ts'
import { timestamp } from '../lib/clock.ts'
import type { Tx } from '../store/engine.ts'
import { Table } from '../store/table.ts'
import type { Asking } from './context.ts'
import { encodeKey } from './key.ts'

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
    params_summary: z.string().describe('The arguments as JSON, without secrets, cut to a summary'),
    outcome: z.enum(['ok', 'denied']),
    error_msg: z.string().optional(),
    duration_ms: z.int(),
    folder: z.string().optional().describe("The caller's folder"),
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
  ],
})

export interface Outcome {
  result: 'ok' | 'denied'
  durationMs: number
  error?: string
}

export interface Audited {
  readonly id: string
  readonly resource: string
  readonly key: readonly string[]
  readonly input: z.ZodObject
}

/** What was asked, and what came of it. */
export interface Deed {
  readonly input: object
  readonly reply?: unknown
}

const SECRET_NAME = /pass(word|phrase)|token$|secret|credential|authorization|cookie|dsn|api.?key|[_-]key$|^value$/i
const VALUE_MAX = 200
const SUMMARY_MAX = 512

export async function writeAudit(tx: Tx, asking: Asking, verb: Audited, deed: Deed, outcome: Outcome): Promise<void> {
  const { host, caller, face, requestId, sourceIp, turn, reach } = asking
  const folder = caller.kind === 'agent' || caller.kind === 'person' ? caller.folder : undefined
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
    error_msg: outcome.error,
    duration_ms: outcome.durationMs,
    folder,
    instance: host.instance,
    turn_id: turn?.id,
    request_id: requestId,
    source_ip: sourceIp,
    reach,
  })
}

/** The row's key, from what was asked or from what came of it; else the first thing that was named. */
function keyOf({ key }: Audited, { input, reply }: Deed): string {
  if (key.length === 0) return ''
  const asked = new Map(Object.entries(input).filter(([, value]) => value !== undefined))
  const known = new Map([...Object.entries(reply ?? {}), ...asked])
  const names = key.every((name) => known.has(name)) ? key : [...asked.keys()].slice(0, 1)
  if (names.some((name) => SECRET_NAME.test(name) || typeof known.get(name) === 'object')) return ''
  return encodeKey(names.map((name) => String(known.get(name)))).slice(0, VALUE_MAX)
}

export function summary(input: object, schema?: z.ZodObject): string {
  const shown = Object.entries(input)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => [name, isSecret(name, schema) ? `<redacted:${String(value).length} chars>` : short(value)])
  const text = JSON.stringify(Object.fromEntries(shown))
  return text.length > SUMMARY_MAX ? `${text.slice(0, SUMMARY_MAX)}…` : text
}

function isSecret(name: string, schema: z.ZodObject | undefined): boolean {
  return SECRET_NAME.test(name) || (schema !== undefined && writeOnlyIn(schema).has(name))
}

const writeOnly = new WeakMap<z.ZodObject, ReadonlySet<string>>()

/** Looked up once for a schema: what is marked is asked of every call. */
function writeOnlyIn(schema: z.ZodObject): ReadonlySet<string> {
  const known = writeOnly.get(schema)
  if (known) return known
  const marked = Object.entries(schema.shape).filter(
    ([, field]) => field instanceof z.ZodType && field.meta()?.writeOnly === true,
  )
  const names = new Set(marked.map(([name]) => name))
  writeOnly.set(schema, names)
  return names
}

function short(value: unknown): unknown {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length > VALUE_MAX ? `${text.slice(0, VALUE_MAX)}…` : value
}
