// Claims the next turn: a retry or a turn of a dead process first, then the oldest waiting conversation of the folder served
// longest ago, within the limits of docs/decisions.md#concurrent-turns and the budget. Each claim is one transaction, so any
// number of processes can claim. Also renews the leases of claimed turns.
import { timestamp } from '../../lib/clock.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Tx, Value } from '../../store/engine.ts'
import { execute, flag, integer, optional, placeholders, query, queryOne, text } from '../../store/statement.ts'
import { defaultReach, smallestReach } from '../access/reach.ts'
import { containsFolder } from '../access/tiers.ts'
import { isLinkChat } from '../delivery/channel.ts'
import { type Envelope, envelopes } from '../messages/envelopes.ts'
import { type InboxRow, inbox, turnIdFor } from '../messages/inbox.ts'
import { type Message, messages } from '../messages/messages.ts'
import { engage, setLastReply } from '../routing/engagements.ts'
import { checkBudget, recheckBudget } from './budget.ts'
import { conversations, folderTurns } from './conversations.ts'
import type { ModelUsage } from './costs.ts'
import { countBatch, type WaitingMessage } from './message-batch.ts'
import { readTurnCosts, sumWholeCents } from './turn-cost.ts'
import type { TurnRules } from './turn-rules.ts'
import { engagesChat, FOLDER_PAUSE_MS, TURN_PAUSE_MAX_MS, type Turn, type TurnLease, turns } from './turns.ts'

export interface ClaimedMessage {
  readonly row: InboxRow
  readonly message: Message
  readonly envelope: Envelope | undefined
}

export interface ClaimedTurn {
  readonly turn: Turn
  readonly messages: readonly ClaimedMessage[]
  /** What the run may cost, in cents; absent without a cap. */
  readonly moneyCents?: number | undefined
  /** What earlier attempts have cost. */
  readonly earlierCosts?: readonly ModelUsage[] | undefined
  /** If set, the turn must not run; the runner ends it for this reason. */
  readonly refusal?: string | undefined
}

export interface ClaimOptions {
  readonly now: number
  readonly leaseMs: number
  /** Turns running in this process. If their leases look expired, the clock was set forward. */
  readonly ownTurnIds?: ReadonlySet<string>
  /** Default: every workspace is available. */
  readonly workspaces?: WorkspaceAvailability
  /** The process that claims. */
  readonly process?: string | undefined
  /** Which turns may be claimed; default: all. */
  readonly choice?: ClaimChoice | undefined
}

/** `innocent`: all but suspects, which run elsewhere. `turn`: only this one. */
export type ClaimChoice = { readonly kind: 'innocent' } | { readonly kind: 'turn'; readonly id: string }

/** Tells which folders' turns this process can run. Synchronous, because it is called inside a transaction. */
export interface WorkspaceAvailability {
  has(folder: string): boolean
  /** Folders whose workspaces were missing when last checked. */
  missing(): readonly string[]
}

const BATCH_ROWS_MAX = 200
/** Number of conversations skipped because a person's budget is reserved, before their folders are skipped. */
const SKIPPED_CONVERSATIONS_MAX = 20
/** Runs of a failing agent. */
export const ATTEMPTS_MAX = 3
/** Limit on reclaiming a turn after its process died, for turns that kill the process. */
export const DEATHS_MAX = 20

/** Whether the time is after `$1`. A time further ahead than the longest pause is ignored: the clock was set back. */
const isPendingSql = (column: string, maxMs: number): string => `(${column} > $1 and ${column} <= $1 + ${maxMs})`

/** Written so that the index `turns_open` is used. */
const IS_RUNNING = `t.state <> 'done' and t.state = 'running'`

/** A retry that is due, or a turn whose process died. The pause grows with each death. */
const DUE = `((t.state = 'retrying' and not ${isPendingSql('t.run_after', TURN_PAUSE_MAX_MS)})
  or (t.state = 'running' and t.leased_until + 1000 * coalesce(t.deaths * t.deaths, 0) <= $1))`

/** Its process has ended unexpectedly once. */
const IS_SUSPECT = 'coalesce(t.crashes, 0) = 1'

/** The circuit breaker of a folder opens after repeated failures. */
const IS_BREAKER_CLOSED = `(f.open_until is null or not ${isPendingSql('f.open_until', FOLDER_PAUSE_MS)})`

interface ClaimAvailability {
  /** Whether a turn may be claimed or a lease must be corrected. */
  readonly hasClaimable: boolean
  /** Whether a folder pauses because its agent failed. */
  readonly hasOpenBreaker: boolean
}

/** Called often, so it only reads. */
export async function checkClaimable(tx: Tx, options: ClaimOptions): Promise<ClaimAvailability> {
  const { now, leaseMs, workspaces, choice } = options
  const missing = workspaces?.missing() ?? []
  const notMissing = (alias: string): string => excludeSql(`${alias}.folder`, missing.length, 2)
  const ready = await queryOne(
    tx,
    { is_ready: flag, is_broken: flag },
    `select exists (select 1 from conversations c left join folder_turns f on f.folder = c.folder
         where c.waiting > 0 and c.turn_id is null and ${IS_BREAKER_CLOSED} ${notMissing('c')})
       or exists (select 1 from turns t left join folder_turns f on f.folder = t.folder
         where t.state <> 'done' and ${DUE} and ${IS_BREAKER_CLOSED} ${notMissing('t')}
           ${choice?.kind === 'innocent' ? `and not (${IS_SUSPECT})` : ''})
       or exists (select 1 from turns t where ${IS_RUNNING} and t.leased_until > $2) as is_ready,
     exists (select 1 from folder_turns f where f.open_until > 0 and ${isPendingSql('f.open_until', FOLDER_PAUSE_MS)}) as is_broken`,
    [now, now + leaseMs, ...missing],
  )
  return { hasClaimable: ready.is_ready, hasOpenBreaker: ready.is_broken }
}

export async function listFoldersWithOpenBreaker(tx: Tx, now: number): Promise<string[]> {
  const rows = await query(
    tx,
    { folder: text },
    `select folder from folder_turns where open_until > 0 and ${isPendingSql('open_until', FOLDER_PAUSE_MS)}`,
    [now],
  )
  return rows.map(({ folder }) => folder)
}

/** Excludes `count` values, whose placeholders follow the first `before` ones. */
function excludeSql(column: string, count: number, before: number): string {
  if (count === 0) return ''
  return `and ${column} not in (${placeholders(count, before)})`
}

/** Undefined if no turn can start now. */
export async function claimTurn(tx: Tx, rules: TurnRules, options: ClaimOptions): Promise<ClaimedTurn | undefined> {
  const { workspaces } = options
  const full = await findFullFolders(tx, rules, options)
  if (full === 'all') return undefined
  const skippedFolders = new Set([...full, ...(workspaces?.missing() ?? [])])
  const reclaimed = await reclaimTurn(tx, options, skippedFolders)
  if (reclaimed || options.choice?.kind === 'turn') return reclaimed
  const skipped: ConversationKey[] = []
  for (;;) {
    const next = await findNextConversation(tx, options, skippedFolders, skipped)
    if (!next) return undefined
    if (workspaces && !workspaces.has(next.folder)) {
      for (const folder of await listWaitingFolders(tx)) if (!workspaces.has(folder)) skippedFolders.add(folder)
      skippedFolders.add(next.folder)
      continue
    }
    const claimed = await formTurn(tx, rules, options, next)
    if ('turn' in claimed) return claimed
    // Running turns have reserved the budget, so this conversation, or all folders under the cap, wait.
    const { waits } = claimed
    if (waits === 'conversation' && skipped.length < SKIPPED_CONVERSATIONS_MAX) skipped.push(next)
    else skippedFolders.add(next.folder)
    if (typeof waits === 'object')
      for (const folder of await listWaitingFolders(tx))
        if (containsFolder(waits.folder, folder)) skippedFolders.add(folder)
  }
}

async function listWaitingFolders(tx: Tx): Promise<string[]> {
  const sql = 'select distinct folder from conversations where waiting > 0 and turn_id is null'
  return (await query(tx, { folder: text }, sql)).map(({ folder }) => folder)
}

/**
 * Extends the lease. Undefined if the turn is over, another process has claimed it, or the lease has expired and turns
 * claimed since then use up the limits.
 */
export async function renewTurn(
  tx: Tx,
  rules: TurnRules,
  options: ClaimOptions,
  { id, fence }: TurnLease,
): Promise<Turn | undefined> {
  const turn = await turns.find(tx, { id, fence, state: 'running' })
  if (!turn) return undefined
  const { now, leaseMs, ownTurnIds } = options
  if (turn.leased_until <= now) {
    const others = new Set([...(ownTurnIds ?? [])].filter((own) => own !== id))
    const full = await findFullFolders(tx, rules, { ...options, ownTurnIds: others })
    if (full === 'all' || full.has(turn.folder)) return undefined
  }
  await turns.update(tx, { id }, { leased_until: now + leaseMs })
  return turn
}

/** Own turns count even if their leases look expired. */
async function findFullFolders(
  tx: Tx,
  rules: TurnRules,
  { now, leaseMs, ownTurnIds }: ClaimOptions,
): Promise<Set<string> | 'all'> {
  const own = [...(ownTurnIds ?? [])]
  const ownSql = own.length === 0 ? '' : `or t.id in (${placeholders(own.length, 1)})`
  const rows = await query(
    tx,
    { folder: text, running: integer, latest: integer },
    `select t.folder, count(*) as running, max(t.leased_until) as latest from turns t
     where ${IS_RUNNING} and (t.leased_until > $1 ${ownSql}) group by t.folder`,
    [now, ...own],
  )
  // The clock was set back: shorten the leases, so that turns of dead processes are reclaimed in time.
  if (rows.some(({ latest }) => latest > now + leaseMs))
    await execute(tx, `update turns as t set leased_until = $1 where ${IS_RUNNING} and t.leased_until > $1`, [
      now + leaseMs,
    ])
  const running = rows.reduce((sum, row) => sum + row.running, 0)
  if (running >= rules.turnsMax) return 'all'
  return new Set(rows.filter((row) => row.running >= rules.turnsPerFolder).map((row) => row.folder))
}

/** Claims a retry or a turn of a dead process. Adds folders without a workspace here to `skippedFolders`. */
async function reclaimTurn(
  tx: Tx,
  options: ClaimOptions,
  skippedFolders: Set<string>,
): Promise<ClaimedTurn | undefined> {
  const next = await findReclaimable(tx, options, skippedFolders)
  if (next === undefined) return undefined
  const { now, leaseMs, process } = options
  const [turn] = await query(
    tx,
    turns.decode,
    `update turns set state = 'running', fence = fence + 1, leased_until = $2, process = $3,
       attempts = attempts + case when state = 'retrying' then 1 else 0 end,
       deaths = coalesce(deaths, 0) + case when state = 'running' then 1 else 0 end
     where id = $1 returning ${turns.columns.join(', ')}`,
    [next, now + leaseMs, process ?? null],
  )
  if (!turn) return undefined
  const turnMessages = await readClaimedMessages(tx, turn)
  const budget = await recheckBudget(tx, turn, timestamp(now))
  if (budget.kind === 'exhausted') return { turn, messages: turnMessages, refusal: budget.message }
  const earlierCosts = await readTurnCosts(tx, turn)
  const { money_cents: moneyCents } = budget
  // The limit of the whole turn, so that what is booked can be subtracted from it.
  const money_cents = moneyCents === undefined ? undefined : moneyCents + sumWholeCents(earlierCosts)
  await turns.update(tx, { id: turn.id }, { money_cents })
  return { turn: { ...turn, money_cents }, messages: turnMessages, moneyCents, earlierCosts }
}

async function findReclaimable(
  tx: Tx,
  { now, ownTurnIds, workspaces, choice }: ClaimOptions,
  skippedFolders: Set<string>,
): Promise<string | undefined> {
  const own = [...(ownTurnIds ?? [])]
  for (;;) {
    const folders = [...skippedFolders]
    const chosen = choice?.kind === 'turn' ? [choice.id] : []
    const chosenSql = {
      all: '',
      innocent: `and not (${IS_SUSPECT})`,
      turn: `and t.id = $${1 + own.length + folders.length + 1}`,
    }[choice?.kind ?? 'all']
    const [next] = await query(
      tx,
      { id: text, folder: text },
      `select t.id, t.folder from turns t left join folder_turns f on f.folder = t.folder
       where t.state <> 'done' and ${DUE} and ${IS_BREAKER_CLOSED} ${excludeSql('t.id', own.length, 1)}
         ${excludeSql('t.folder', folders.length, 1 + own.length)} ${chosenSql} order by t.first_seq limit 1`,
      [now, ...own, ...folders, ...chosen],
    )
    if (!next) return undefined
    if (workspaces?.has(next.folder) ?? true) return next.id
    skippedFolders.add(next.folder)
  }
}

/** Suspects that can run now, oldest first. Called often, so it only reads. */
export async function listDueSuspects(tx: Tx, rules: TurnRules, options: ClaimOptions): Promise<string[]> {
  const running = `select count(*) from turns r where r.state <> 'done' and r.state = 'running' and r.leased_until > $1`
  const rows = await query(
    tx,
    { id: text, folder: text, in_folder: integer, in_all: integer },
    `select t.id, t.folder, (${running} and r.folder = t.folder) as in_folder, (${running}) as in_all
     from turns t left join folder_turns f on f.folder = t.folder
     where t.state <> 'done' and ${DUE} and ${IS_BREAKER_CLOSED} and ${IS_SUSPECT} order by t.first_seq`,
    [options.now],
  )
  const { workspaces } = options
  return rows
    .filter(({ in_folder, in_all }) => in_folder < rules.turnsPerFolder && in_all < rules.turnsMax)
    .filter(({ folder }) => workspaces?.has(folder) ?? true)
    .map(({ id }) => id)
}

const NO_WORKSPACE = 'the directory of its folder is missing'

/** Of these folders, those whose newest waiting message has no reason yet. Called often, so it only reads. */
export async function listUnexplainedFolders(tx: Tx, folders: readonly string[]): Promise<string[]> {
  const sql = `select reason from inbox where folder = $1 and state = 'waiting' order by message_seq desc limit 1`
  const unexplained: string[] = []
  for (const folder of folders) {
    const [newest] = await query(tx, { reason: optional(text) }, sql, [folder])
    if (newest && newest.reason === undefined) unexplained.push(folder)
  }
  return unexplained
}

/** Stores why the messages of a folder without a workspace wait; the claim of their turn removes it. */
export async function explainMissingWorkspace(tx: Tx, folder: string): Promise<void> {
  const sql = `update inbox set reason = $1 where folder = $2 and state = 'waiting' and reason is null`
  await execute(tx, sql, [NO_WORKSPACE, folder])
}

interface ConversationKey {
  readonly folder: string
  readonly topic: string
}

/** The oldest waiting conversation of the folder served longest ago. */
async function findNextConversation(
  tx: Tx,
  { now }: ClaimOptions,
  skippedFolders: ReadonlySet<string>,
  skipped: readonly ConversationKey[],
): Promise<ConversationKey | undefined> {
  const values = [now, ...skippedFolders, ...skipped.flatMap(({ folder, topic }) => [folder, topic])]
  const skippedSql = skipped.map((_, at) => {
    const index = 2 + skippedFolders.size + 2 * at
    return `and not (c.folder = $${index} and c.topic = $${index + 1})`
  })
  const exclusions = [excludeSql('c.folder', skippedFolders.size, 1), ...skippedSql].join(' ')
  const [next] = await query(
    tx,
    { folder: text },
    `select c.folder from conversations c left join folder_turns f on f.folder = c.folder
     where c.waiting > 0 and c.turn_id is null and ${IS_BREAKER_CLOSED} ${exclusions}
     order by coalesce(f.served, 0), c.folder limit 1`,
    values,
  )
  if (!next) return undefined
  const { folder } = next
  const topics = skipped.filter((each) => each.folder === folder).map(({ topic }) => topic)
  const [oldest] = await query(
    tx,
    { topic: text },
    `select c.topic from conversations c where c.folder = $1 and c.waiting > 0 and c.turn_id is null
     ${excludeSql('c.topic', topics.length, 1)} order by (select min(i.message_seq) from inbox i where i.folder = c.folder
       and i.topic = c.topic and i.state = 'waiting') limit 1`,
    [folder, ...topics],
  )
  return oldest && { folder, topic: oldest.topic }
}

const WAITING = `select ${inbox.columns.map((name) => `i.${name}`).join(', ')}, length(m.content) as bytes,
    e.message_seq as has_envelope
  from inbox i join messages m on m.seq = i.message_seq left join envelopes e on e.message_seq = i.message_seq
  where i.folder = $1 and i.topic = $2 and i.state = 'waiting' order by i.message_seq limit ${BATCH_ROWS_MAX}`
const WAITING_UP_TO = `folder = $1 and topic = $2 and state = 'waiting' and message_seq <= $3`

/** What to skip because running turns have reserved the budget: the conversation, or a folder with all below it. */
interface WaitingForBudget {
  readonly waits: 'conversation' | { readonly folder: string }
}

async function formTurn(
  tx: Tx,
  rules: TurnRules,
  { now, leaseMs, process }: ClaimOptions,
  { folder, topic }: ConversationKey,
): Promise<ClaimedTurn | WaitingForBudget> {
  const rows = await query(
    tx,
    (row) => ({
      row: inbox.decode(row),
      bytes: integer(row.bytes, 'bytes'),
      hasEnvelope: row.has_envelope !== null,
    }),
    WAITING,
    [folder, topic],
  )
  const waiting: WaitingMessage[] = []
  for (const { row, bytes, hasEnvelope } of rows) {
    const envelope = hasEnvelope ? await envelopes.find(tx, { message_seq: row.message_seq }) : undefined
    waiting.push({ row, envelope, bytes })
  }
  const batch = waiting.slice(0, countBatch(waiting))
  const turnMessages = await joinMessages(tx, batch, WAITING_UP_TO, [folder, topic, batch.at(-1)?.row.message_seq ?? 0])
  const [first, last] = [turnMessages[0], turnMessages.at(-1)]
  const started_at = timestamp(now)
  if (!first || !last) {
    // The count is wrong. Correct it, or this conversation would be tried forever.
    await conversations.update(tx, { folder, topic }, { waiting: 0 })
    return { waits: 'conversation' }
  }
  const { envelope } = last
  const budget = await checkBudget(tx, { folder, sender: last.row.sender, now: started_at })
  if (budget.kind === 'reserved') {
    const { by, who } = budget.cap
    return { waits: by === 'folder' ? { folder: who } : 'conversation' }
  }
  const jid = envelope?.return_jid ?? last.row.jid
  const chat_topic = envelope?.return_jid === undefined ? last.row.chat_topic : (envelope.return_topic ?? '')
  const is_timed = envelope?.task_id !== undefined
  const turn: Turn = {
    id: turnIdFor(last.row),
    folder,
    topic,
    jid,
    chat_topic,
    sender: last.row.sender,
    first_seq: first.row.message_seq,
    last_seq: last.row.message_seq,
    message_count: turnMessages.length,
    state: 'running',
    attempts: 1,
    fence: 1,
    leased_until: now + leaseMs,
    run_after: 0,
    replies: 0,
    depth: Math.max(...turnMessages.map((each) => each.envelope?.depth ?? 0)),
    is_isolated: envelope?.is_isolated ?? false,
    is_timed,
    is_guest: envelope?.return_jid !== undefined || last.row.verb === 'root',
    task_id: envelope?.task_id,
    // Set even if the turn is refused: after a crash it is checked against the same caps.
    user_sub: budget.user_sub,
    money_cents: budget.kind === 'granted' ? budget.money_cents : 0,
    is_stopping: false,
    started_at,
    process,
    reach: smallestReach(turnMessages.map(({ row }) => row.reach ?? defaultReach(row.jid))),
  }
  // Not a plain insert: if another process claims the turn now, PostgreSQL would report a duplicate key instead of a
  // serialization failure, and the transaction would not be retried.
  if (!(await turns.insertIfMissing(tx, turn))) refuse('conflict', `turn ${turn.id} already exists`)
  await execute(
    tx,
    `update inbox set state = 'running', turn_id = $4, reason = null, updated_at = $5 where ${WAITING_UP_TO}`,
    [...[folder, topic, last.row.message_seq], ...[turn.id, started_at]],
  )
  // Messages that wait for the answer to one of these.
  await execute(
    tx,
    `update inbox set turn_id = $1, updated_at = $2
     where waits_for is not null and waits_for in (select i.id from inbox i where i.turn_id = $1)`,
    [turn.id, started_at],
  )
  await execute(
    tx,
    'update conversations set waiting = waiting - $3, turn_id = $4, updated_at = $5 where folder = $1 and topic = $2',
    [folder, topic, turnMessages.length, turn.id, started_at],
  )
  await markServed(tx, folder)
  if (engagesChat(turn) && !isLinkChat(jid) && jid.includes(':'))
    await engage(tx, { jid, topic: chat_topic, folder, until: now + rules.engagementMs })
  if (envelope?.return_jid === undefined && !is_timed)
    await setLastReply(tx, jid, chat_topic, envelope?.platform_id ?? last.row.id)
  if (budget.kind === 'exhausted') return { turn, messages: turnMessages, refusal: budget.message }
  return { turn, messages: turnMessages, moneyCents: budget.money_cents }
}

async function markServed(tx: Tx, folder: string): Promise<void> {
  const sql = 'select coalesce(max(served), 0) + 1 as served from folder_turns'
  const { served } = await queryOne(tx, { served: integer }, sql)
  const changed = await folderTurns.update(tx, { folder }, { served })
  if (changed === 0) await folderTurns.insert(tx, { folder, served, failures: 0, open_until: 0, warned_on: '' })
}

/** The messages of a turn, oldest first, without delegated ones that wait for its answer. */
async function readClaimedMessages(tx: Tx, { id: turn_id, folder, topic }: Turn): Promise<ClaimedMessage[]> {
  const rows = await inbox.list(tx, { turn_id, folder, topic, state: 'running' }, [['message_seq', 'asc']])
  const found: Omit<WaitingMessage, 'bytes'>[] = []
  for (const row of rows) found.push({ row, envelope: await envelopes.find(tx, { message_seq: row.message_seq }) })
  const condition = `turn_id = $1 and folder = $2 and topic = $3 and state = 'running'`
  return joinMessages(tx, found, condition, [turn_id, folder, topic])
}

/** Adds the messages to inbox rows. `condition` selects the same rows. */
async function joinMessages(
  tx: Tx,
  rows: readonly Omit<WaitingMessage, 'bytes'>[],
  condition: string,
  values: readonly Value[],
): Promise<ClaimedMessage[]> {
  const found = await query(
    tx,
    messages.decode,
    `select ${messages.columns.map((name) => `m.${name}`).join(', ')}
     from (select message_seq from inbox where ${condition}) as i join messages m on m.seq = i.message_seq`,
    values,
  )
  const bySeq = new Map(found.map((message) => [message.seq, message]))
  return rows.flatMap(({ row, envelope }) => {
    const message = bySeq.get(row.message_seq)
    return message ? [{ row, message, envelope }] : []
  })
}
