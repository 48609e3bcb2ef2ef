// What needs the attention of a person: failures of the last day and what waits for a decision. Each list reads an index of
// such rows or of that time, and ends after a fixed number of them.
import { z } from 'zod'
import { timestamp } from '../../lib/clock.ts'
import type { Tx, Value } from '../../store/engine.ts'
import { bytes, integer, optional, placeholders, query, text } from '../../store/statement.ts'
import { resolveAllowlist } from '../access/allowlist.ts'
import { listHeldCalls } from '../access/approvals.ts'
import { deniedHost, networkDenials, unallowableReason } from '../access/network-denials.ts'
import { channelRegistrations } from '../delivery/channel-registrations.ts'
import { describeConnection, NEEDS_PERSON } from '../delivery/health-reports.ts'
import { IS_UNSUCCESSFUL } from '../messages/inbox.ts'
import { contentStart, decodeContent } from '../messages/messages.ts'
import { firstInboxSeqSince } from './day-activity.ts'
import { listNearBudgets, NearBudget, type SpendScope } from './spend.ts'
import { STOPPED_REASON } from './turn-failures.ts'
import { IS_OPEN } from './turn-rules.ts'

const DAY_MS = 24 * 3_600_000
/** Entries of a list. */
export const ATTENTION_MAX = 20
/** A task is late when its time is this long ago. */
const LATE_MS = 60_000
const TEXT_BYTES = 300

const Fault = z.object({
  id: z.string(),
  folder: z.string().optional(),
  at: z.string(),
  text: z.string(),
  reason: z.string().optional(),
})
type Fault = z.output<typeof Fault>

const DeniedHost = z.object({
  folder: z.string(),
  host: z.string(),
  count: z.int(),
  at: z.string(),
  unallowable: z.string().optional().describe('Why no rule can allow it'),
})

export const Attention = z.object({
  failed_messages: z.array(Fault).describe('Messages that no agent could answer, of the last 24 hours, newest first'),
  failed_deliveries: z.array(Fault).describe('Replies that did not arrive, and those that are being tried again'),
  failed_tasks: z.array(Fault.extend({ task_id: z.string() })),
  late_tasks: z.array(Fault).describe('Tasks whose time has passed'),
  held_calls: z.array(Fault).describe('Tool calls that wait for an approval'),
  admissions: z.array(Fault).describe('Requests for a folder on which an operator decides'),
  denied_hosts: z.array(DeniedHost).describe('Hosts that agents could not reach, of the last 24 hours'),
  budgets: z.array(NearBudget),
  postponed_turns: z.array(Fault).describe('Turns that the host cannot run at present, oldest first'),
  paused_folders: z.array(Fault).describe('Folders that pause after failed turns'),
  adapters: z.array(Fault).describe('Adapters that do not answer health checks, or need a person to connect them'),
})
export type Attention = z.output<typeof Attention>

/** Undefined folders: the whole instance, with what belongs to no folder. */
export async function readAttention(tx: Tx, scope: SpendScope, now: number): Promise<Attention> {
  const { folders } = scope
  const since = now - DAY_MS
  const firstSeq = await firstInboxSeqSince(tx, since)
  const held = await listHeldCalls(tx, now)
  return {
    failed_messages: firstSeq === undefined ? [] : await listFailedMessages(tx, folders, firstSeq),
    failed_deliveries: await listFailedDeliveries(tx, folders, timestamp(since), firstSeq ?? 0),
    failed_tasks: await listFailedTasks(tx, folders, timestamp(since)),
    late_tasks: await listLateTasks(tx, folders, timestamp(now - LATE_MS)),
    held_calls: held
      .filter(({ folder }) => folders === undefined || folders.includes(folder))
      .slice(0, ATTENTION_MAX)
      .map(({ id, folder, held_at, tool, summary }) => ({ id, folder, at: held_at, text: tool, reason: summary })),
    admissions: folders === undefined ? await listAdmissions(tx) : [],
    denied_hosts: await listDeniedHosts(tx, folders, timestamp(since)),
    budgets: await listNearBudgets(tx, scope, timestamp(now)),
    postponed_turns: await listPostponedTurns(tx, folders),
    paused_folders: await listPausedFolders(tx, folders, now),
    adapters: folders === undefined ? await listFailingAdapters(tx) : [],
  }
}

type Folders = readonly string[] | undefined

/** The parameters of the folders follow the first `after`. */
function within(column: string, folders: Folders, after: number): string {
  if (folders === undefined) return ''
  return folders.length === 0 ? ' and false' : ` and ${column} in (${placeholders(folders.length, after)})`
}

const FAULT = { id: text, folder: optional(text), at: text, text: bytes, reason: optional(text) }

async function listFaults(tx: Tx, sql: string, values: readonly Value[]): Promise<Fault[]> {
  const rows = await query(tx, FAULT, `${sql} limit ${ATTENTION_MAX}`, values)
  // `substr` may have split the last character.
  return rows.map(({ text: start, ...row }) => toFault(row, decodeContent(start).replace(/\ufffd$/, '')))
}

type FaultRow = {
  readonly id: string
  readonly folder?: string | undefined
  readonly at: string
  readonly reason?: string | undefined
}

function toFault({ id, folder, at, reason }: FaultRow, shown: string): Fault {
  return {
    id,
    at,
    text: shown,
    ...(folder === undefined ? {} : { folder }),
    ...(reason === undefined ? {} : { reason }),
  }
}

const START = `${contentStart(TEXT_BYTES)} as text`

/** Without those that a person has stopped. */
function listFailedMessages(tx: Tx, folders: Folders, firstSeq: number): Promise<Fault[]> {
  return listFaults(
    tx,
    `select i.id, i.folder, i.updated_at as at, i.reason, ${START} from (
       select * from inbox where ${IS_UNSUCCESSFUL} and state = 'failed' and message_seq >= $1${within('folder', folders, 2)}
       order by message_seq desc limit 1000) as i
     join messages m on m.seq = i.message_seq where i.reason is null or i.reason <> $2
     order by i.message_seq desc`,
    [firstSeq, STOPPED_REASON, ...(folders ?? [])],
  )
}

/** Those that failed in the last day, then those that are being tried again. */
async function listFailedDeliveries(tx: Tx, folders: Folders, since: string, firstSeq: number): Promise<Fault[]> {
  const columns = `o.id, o.folder, o.updated_at as at, o.error as reason, ${START}`
  const failed = await listFaults(
    tx,
    `select ${columns} from outbox o join messages m on m.seq = o.message_seq
     where o.state in ('failed', 'unknown') and o.message_seq >= $1 and o.updated_at >= $2${within('o.folder', folders, 2)}
     order by o.message_seq desc`,
    [firstSeq, since, ...(folders ?? [])],
  )
  const retried = await listFaults(
    tx,
    `select ${columns} from (select * from outbox where state in ('pending', 'sending') order by next_at limit 1000) as o
     join messages m on m.seq = o.message_seq where o.error is not null${within('o.folder', folders, 0)}
     order by o.message_seq desc`,
    folders ?? [],
  )
  return [...failed, ...retried].slice(0, ATTENTION_MAX)
}

async function listFailedTasks(tx: Tx, folders: Folders, since: string): Promise<Attention['failed_tasks']> {
  const rows = await query(
    tx,
    { id: text, task_id: text, folder: text, at: text, prompt: text, reason: optional(text) },
    `select l.id, l.task_id, t.owner as folder, l.run_at as at, substr(t.prompt, 1, ${TEXT_BYTES}) as prompt, l.error as reason
     from task_run_logs l join scheduled_tasks t on t.id = l.task_id
     where l.status = 'error' and l.run_at >= $1${within('t.owner', folders, 1)}
     order by l.run_at desc, l.id desc limit ${ATTENTION_MAX}`,
    [since, ...(folders ?? [])],
  )
  return rows.map(({ task_id, prompt, ...row }) => ({ ...toFault(row, prompt), task_id }))
}

async function listLateTasks(tx: Tx, folders: Folders, before: string): Promise<Fault[]> {
  const rows = await query(
    tx,
    { id: text, folder: text, at: text, prompt: text },
    `select id, owner as folder, next_run as at, substr(prompt, 1, ${TEXT_BYTES}) as prompt from scheduled_tasks
     where status = 'active' and next_run < $1${within('owner', folders, 1)} order by next_run limit ${ATTENTION_MAX}`,
    [before, ...(folders ?? [])],
  )
  return rows.map(({ prompt, ...row }) => toFault(row, prompt))
}

/** Gates admit all others. */
async function listAdmissions(tx: Tx): Promise<Fault[]> {
  const rows = await query(
    tx,
    { id: text, folder: optional(text), at: text, person: optional(text) },
    `select jid as id, folder, queued_at as at, user_sub as person from onboarding
     where status = 'queued' and gate is null and queued_at is not null order by position limit ${ATTENTION_MAX}`,
  )
  return rows.map(({ person, ...row }) => toFault(row, person ?? row.id))
}

/** Newest first, without hosts that a rule allows by now. */
async function listDeniedHosts(tx: Tx, folders: Folders, since: string): Promise<Attention['denied_hosts']> {
  const denials = await query(
    tx,
    networkDenials.decode,
    `select ${networkDenials.columns.join(', ')} from network_denials where last_at >= $1${within('folder', folders, 1)}
     order by last_at desc, folder, host, sni, port, reason limit ${ATTENTION_MAX}`,
    [since, ...(folders ?? [])],
  )
  const allowed = new Map<string, readonly string[]>()
  const found = new Map<string, Attention['denied_hosts'][number]>()
  for (const denial of denials) {
    const { folder, count, last_at: at } = denial
    const rules = allowed.get(folder) ?? (await resolveAllowlist(tx, folder))
    allowed.set(folder, rules)
    const host = deniedHost(denial)
    const unallowable = unallowableReason(denial)
    if (unallowable === undefined && rules.some((rule) => host === rule || host.endsWith(`.${rule}`))) continue
    // One entry for all ports and reasons.
    const key = `${folder} ${host}`
    const known = found.get(key)
    if (known) found.set(key, { ...known, count: known.count + count })
    else found.set(key, { folder, host, count, at, ...(unallowable === undefined ? {} : { unallowable }) })
  }
  return [...found.values()]
}

async function listPausedFolders(tx: Tx, folders: Folders, now: number): Promise<Fault[]> {
  const rows = await query(
    tx,
    { folder: text, failures: integer, open_until: integer },
    `select folder, failures, open_until from folder_turns where open_until > 0 and open_until > $1${within('folder', folders, 1)}
     order by open_until desc limit ${ATTENTION_MAX}`,
    [now, ...(folders ?? [])],
  )
  return rows.map(({ folder, failures, open_until }) => ({
    id: folder,
    folder,
    at: timestamp(open_until),
    text: `${failures} turns in a row failed`,
  }))
}

/** Also for the doctor. */
export async function listPostponedTurns(tx: Tx, folders: Folders): Promise<Fault[]> {
  return query(
    tx,
    { id: text, folder: text, at: text, text, reason: optional(text) },
    `select id, folder, started_at as at, jid as text, reason from turns
     where ${IS_OPEN} and state = 'retrying' and postponed > 0${within('folder', folders, 0)}
     order by first_seq limit ${ATTENTION_MAX}`,
    [...(folders ?? [])],
  )
}

/** Those that do not answer, and those that only a person can connect. */
async function listFailingAdapters(tx: Tx): Promise<Fault[]> {
  const rows = await query(
    tx,
    channelRegistrations.decode,
    `select ${channelRegistrations.columns.join(', ')} from channel_registrations
     where health_fails > 0 or state in (${placeholders(NEEDS_PERSON.length)}) order by name limit ${ATTENTION_MAX}`,
    [...NEEDS_PERSON],
  )
  return rows.map(({ name, seen_at, health_fails, state, detail, since }) =>
    health_fails > 0 || state === undefined
      ? { id: name, at: seen_at, text: name, reason: `${health_fails} health checks in a row failed` }
      : { id: name, at: since ?? seen_at, text: name, reason: describeConnection({ state, detail }) },
  )
}
