// Turns: messages of one conversation that an agent handles together. A process runs a turn with a lease and a fence: a dead
// process loses it, and a process whose lease expired is rejected. See docs/decisions.md#concurrent-turns.
import { z } from 'zod'
import { timestamp } from '../../lib/clock.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { equal } from '../../store/sql-conditions.ts'
import { execute, placeholders, query, queryForValues, text } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { defaultReach, Reach } from '../access/reach.ts'
import { isLinkChat } from '../delivery/channel.ts'
import { recordOutbound } from '../delivery/outbox.ts'
import { findAnswerTarget } from '../links/route-tokens.ts'
import { type InboxOutcome, inbox } from '../messages/inbox.ts'
import { lockMessageOrder } from '../messages/messages.ts'
import { recordTaskTurn } from '../schedule/task-firing.ts'
import { ChatName, Folder, Timestamp } from '../values.ts'
import { takeBudgetNotice } from './budget.ts'
import { conversations, folderTurns, sessionLog, sessionOf, workSessions } from './conversations.ts'
import { recordCost, roundCosts } from './costs.ts'
import { endRounds, keepFrames, rounds, type WriteContext } from './rounds.ts'
import { FAILURE_MESSAGES, sentenceOf, type TurnFailure } from './turn-failures.ts'
import { IS_OPEN, type TurnRules } from './turn-rules.ts'

export const Turn = z.object({
  id: z.string().describe('Id of its last message; see `turnIdFor`'),
  folder: Folder,
  topic: z.string().describe('Topic of the conversation; empty for the main one'),
  jid: ChatName.describe('Chat that it replies to'),
  chat_topic: z.string(),
  sender: z.string().describe('Sender of its last message'),
  first_seq: z.int(),
  last_seq: z.int(),
  message_count: z.int(),
  state: z.enum(['running', 'retrying', 'done']),
  outcome: z.string().optional(),
  reason: z.string().optional(),
  attempts: z.int().describe('Number of runs of the agent'),
  fence: z.int(),
  leased_until: z.int(),
  run_after: z.int(),
  replies: z.int().describe('Number of messages sent, without status messages'),
  depth: z.int(),
  is_isolated: z.boolean(),
  is_timed: z.boolean(),
  is_guest: z.boolean().describe("It replies to another folder's chat, without engaging it"),
  task_id: z.string().optional(),
  user_sub: z.string().optional().describe('Person whose budget it counts against'),
  money_cents: z.int().optional().describe('Limit on its cost; what it has not cost yet is reserved'),
  submitted: z.enum(['success', 'error']).optional(),
  submitted_error: z.string().optional(),
  is_stopping: z.boolean(),
  started_at: Timestamp,
  ended_at: Timestamp.optional(),
  reach: Reach.optional().describe('Smallest reach of its messages; absent in turns of earlier versions'),
  deaths: z.int().optional().describe('Number of times its process died or lost the store for too long'),
  process: z.string().optional().describe('The process that runs it, or was the last to'),
  crashes: z.int().optional().describe('Number of times the process that ran it ended unexpectedly'),
  postponed: z.int().optional().describe('Number of times in a row that the host could not run it'),
})
export type Turn = z.output<typeof Turn>

export const turns = new Table({
  name: 'turns',
  row: Turn,
  key: 'id',
  storage: [
    `create table turns (
       id text primary key, folder text not null, topic text not null, jid text not null, chat_topic text not null,
       sender text not null, first_seq bigint not null, last_seq bigint not null, message_count integer not null,
       state text not null, outcome text, reason text, attempts integer not null, fence integer not null,
       leased_until bigint not null, run_after bigint not null, replies integer not null, depth integer not null,
       is_isolated boolean not null, is_timed boolean not null, is_guest boolean not null, task_id text, user_sub text, money_cents bigint,
       submitted text, submitted_error text, is_stopping boolean not null, started_at text not null, ended_at text)`,
    `create index turns_open on turns (state, folder) where state <> 'done'`,
    'create index turns_of_folder on turns (folder, last_seq)',
    'alter table turns add column reach text',
    'drop index turns_open',
    `create index turns_open on turns (folder) where state <> 'done'`,
    'drop index turns_of_folder',
    'create index turns_of_chat on turns (jid, folder, last_seq)',
    'alter table turns add column deaths integer',
    'create index turns_newest on turns (folder, id)',
    `create index turns_unanswered on turns (outcome, id) where outcome <> 'answered'`,
    `create index turns_unanswered_of_folder on turns (folder, outcome, id) where outcome <> 'answered'`,
    // With the plain column, SQLite would use it in place of turns_open.
    'drop index turns_newest',
    `create index turns_newest on turns ((folder || ''), id)`,
    'alter table turns add column process text',
    'alter table turns add column crashes integer',
    'alter table turns add column postponed integer',
    // With the plain columns, SQLite might use it in place of other indexes.
    `create index turns_of_conversation on turns ((topic || ''), folder, jid)`,
  ],
})

/** Those of these conversations with a session that have had no turn that replies to another chat. */
export async function conversationsOfChat(
  tx: Tx,
  { folder, jid }: Pick<Turn, 'folder' | 'jid'>,
  topics: readonly string[],
): Promise<string[]> {
  const sql = `select topic from conversations c where c.folder = $1 and c.topic in (${placeholders(topics.length, 2)})
    and (c.session_id is not null or c.parent_session is not null)
    and not exists (select 1 from turns t where (t.topic || '') = c.topic and t.folder = $1 and t.jid <> $2)`
  return (await query(tx, { topic: text }, sql, [folder, jid, ...topics])).map(({ topic }) => topic)
}

/** Changes to a turn need the fence of its current lease. */
export interface TurnLease {
  readonly id: string
  readonly fence: number
}

const TURN_LOST = 'the turn is over, or another process has claimed it'

/**
 * The turn that a connection to this folder's socket belongs to: the one that it names with its fence or, if it names none,
 * the only running turn. See docs/decisions.md#turn-of-a-tool-call.
 */
export async function findTurnOfConnection(
  tx: Tx,
  folder: string,
  named?: { id: string; fence?: number },
): Promise<Turn | undefined> {
  if (named) {
    const turn = await turns.find(tx, { id: named.id, folder, state: 'running' })
    return turn && (named.fence === undefined || named.fence === turn.fence) ? turn : refuse('conflict', TURN_LOST)
  }
  const running = await listRunningTurns(tx, { folder })
  return running.length === 1 ? running[0] : undefined
}

type TurnFilter = Partial<Pick<Turn, 'id' | 'folder' | 'topic' | 'jid' | 'chat_topic' | 'is_stopping'>>

export async function listRunningTurns(tx: Tx, where: TurnFilter): Promise<Turn[]> {
  const sql = `select ${turns.columns.join(', ')} from turns where ${runningSql(where)}`
  return query(tx, turns.decode, sql, Object.values(where))
}

function runningSql(where: TurnFilter): string {
  return [IS_OPEN, `state = 'running'`, ...equal(Object.keys(where))].join(' and ')
}

/** Returns the turn for another process to run. The interrupted attempt does not count. */
export async function releaseTurn(tx: Tx, { id, fence }: TurnLease): Promise<void> {
  await execute(
    tx,
    `update turns set state = 'retrying', run_after = 0, leased_until = 0, attempts = attempts - 1
     where id = $1 and fence = $2 and state = 'running'`,
    [id, fence],
  )
}

/** Schedules another attempt. The conversation waits for it, so that messages are answered in order. */
export async function retryTurn(tx: Tx, { id, fence }: TurnLease, at: number, reason: string): Promise<boolean> {
  const patch = { state: 'retrying' as const, run_after: at, leased_until: 0, reason, postponed: undefined }
  return (await turns.update(tx, { id, fence, state: 'running' }, patch)) > 0
}

/** Delay of a turn that the host cannot run yet; it doubles up to the maximum. */
const POSTPONE_MS = 2000

/** Schedules another attempt of a turn that the host could not run. This one does not count. */
export async function postponeTurn(tx: Tx, turn: Turn, now: number, reason: string): Promise<boolean> {
  const { id, fence, attempts } = turn
  const postponed = (turn.postponed ?? 0) + 1
  const run_after = now + Math.min(POSTPONE_MS * 2 ** Math.min(postponed - 1, 30), TURN_PAUSE_MAX_MS)
  const patch = { state: 'retrying' as const, run_after, leased_until: 0, reason, attempts: attempts - 1, postponed }
  return (await turns.update(tx, { id, fence, state: 'running' }, patch)) > 0
}

/** Requests the turns that run or wait for another try to stop. A waiting one is due at once, and its runner ends it. */
export async function stopTurns(tx: Tx, where: TurnFilter): Promise<number> {
  const filter = [IS_OPEN, ...equal(Object.keys(where))].join(' and ')
  return execute(tx, `update turns set is_stopping = true, run_after = 0 where ${filter}`, Object.values(where))
}

export interface TurnEnd {
  readonly outcome: InboxOutcome
  /** For operators only: it may contain output of a provider. */
  readonly reason?: string | undefined
  /** Error shown in the rounds. Default: the agent could not answer. */
  readonly publicReason?: string | undefined
  /** Sent to the chat if no round shows the result. */
  readonly notice?: string | undefined
  /** Kind of a failure, for the metrics. */
  readonly failure?: TurnFailure | undefined
  /** What a stopped turn has said so far. */
  readonly partial?: string | undefined
  /** Fingerprint of the configuration of a failed run. */
  readonly configMark?: string | undefined
}

const SUCCESSES: readonly InboxOutcome[] = ['answered', 'silent', 'observed']
/** Longest pause before a retry. */
export const TURN_PAUSE_MAX_MS = 300_000
/** Pause of a folder after failures. */
export const FOLDER_PAUSE_MS = 60_000
/** After this many consecutive failures the folder pauses. */
const FAILURES_MAX = 3

const STOPPED_NOTE =
  'A person stopped the previous answer before it was complete. The history of the chat has the question and what was written.'

/** Ends a turn with its messages and rounds. Returns the keys to signal; undefined if the lease was lost. */
export async function endTurn(
  tx: Tx,
  context: WriteContext,
  rules: TurnRules,
  { id, fence }: TurnLease,
  end: TurnEnd,
): Promise<string[] | undefined> {
  await lockMessageOrder(tx, context.dialect)
  const ended_at = timestamp(context.clock.now())
  const done = { state: 'done' as const, outcome: end.outcome, reason: end.reason, ended_at, leased_until: 0 }
  if ((await turns.update(tx, { id, fence, state: 'running' }, done)) === 0) return undefined
  const turn = (await turns.find(tx, { id })) ?? refuse('conflict', TURN_LOST)
  const keys: string[] = []
  if (end.outcome !== 'silent' || !(await handOverToDelegate(tx, turn, ended_at))) {
    const sql = 'select id from inbox where turn_id = $1 order by message_seq'
    const ids = (await query(tx, { id: text }, sql, [id])).map((row) => row.id)
    keys.push(...(await keepPartial(tx, context, rules, turn, end)))
    if (end.notice !== undefined) keys.push(...(await notifyChat(tx, context, rules, turn, ids, end.notice)))
    keys.push(...(await endMessages(tx, context, ids, end)))
  }
  const { folder, topic, message_count, started_at } = turn
  // Most runtimes keep nothing of an answer that was stopped in their sessions.
  const note = end.failure === 'stopped' ? { note: STOPPED_NOTE } : {}
  await conversations.update(tx, { folder, topic, turn_id: id }, { turn_id: undefined, updated_at: ended_at, ...note })
  await countFailures(tx, folder, end, context.clock.now())
  await recordTaskTurn(tx, turn, end)
  keys.push(...(await warnAboutBudget(tx, context, rules, turn)))
  const session_id = await sessionOf(tx, turn, reachOfTurn(turn))
  const error = SUCCESSES.includes(end.outcome) ? undefined : end.reason
  await sessionLog.append(tx, {
    ...{ folder, topic, session_id, turn_id: id, event: 'turn', message_count },
    ...{ result: end.outcome, error, started_at, ended_at },
  })
  return keys
}

/** A turn that has sent messages itself has said what it wanted to. */
async function keepPartial(
  tx: Tx,
  context: WriteContext,
  rules: TurnRules,
  turn: Turn,
  { partial = '' }: TurnEnd,
): Promise<readonly string[]> {
  if (partial === '' || turn.replies > 0) return []
  const { jid, chat_topic: topic, folder, id: turn_id } = turn
  const reply = { jid, topic, folder, turn_id, content: partial, isPartial: true, engages: engagesChat(turn) }
  return (await recordOutbound(tx, context, rules, reply)).keys
}

/** Ends messages, their rounds, and the messages that wait for them. Returns the keys to signal. Needs `lockMessageOrder`. */
export async function endMessages(
  tx: Tx,
  context: WriteContext,
  ids: readonly string[],
  { outcome, reason, publicReason = FAILURE_MESSAGES.failed }: TurnEnd,
): Promise<string[]> {
  if (ids.length === 0) return []
  const updated_at = timestamp(context.clock.now())
  await queryForValues(
    tx,
    {},
    ids,
    (marks) => `update inbox set state = $1, reason = $2, waits_for = null, updated_at = $3 where id in (${marks})`,
    [outcome, reason ?? null, updated_at],
  )
  const isSuccess = SUCCESSES.includes(outcome)
  const keys = await endRounds(tx, context, ids, {
    status: isSuccess ? 'success' : 'failed',
    error: isSuccess ? undefined : publicReason,
  })
  const waiting = await queryForValues(
    tx,
    { id: text },
    ids,
    (marks) => `select id from inbox where waits_for is not null and waits_for in (${marks}) order by message_seq`,
  )
  const others = waiting.map(({ id }) => id)
  return [...keys, ...(await endMessages(tx, context, others, { outcome, reason, publicReason }))]
}

/** Leaves the messages and rounds of a silent turn to the question that it delegated. False if none is open. */
async function handOverToDelegate(tx: Tx, { id }: Turn, now: string): Promise<boolean> {
  const [delegated] = await query(
    tx,
    { id: text },
    `select m.id from envelopes e join messages m on m.seq = e.message_seq
     left join inbox i on i.message_seq = e.message_seq
     where e.from_turn = $1 and e.return_jid is not null
       and (i.state is null or i.state in ('waiting', 'running', 'delegated')) order by e.message_seq desc limit 1`,
    [id],
  )
  if (!delegated) return false
  await keepFrames(tx, id)
  const running = await inbox.find(tx, { id: delegated.id, state: 'running' })
  const patch = { state: 'delegated', waits_for: delegated.id, turn_id: running?.turn_id, updated_at: now } as const
  await inbox.update(tx, { turn_id: id }, patch)
  return true
}

/** Sends the notice to the chat, unless a pending round will show the result. */
async function notifyChat(
  tx: Tx,
  context: WriteContext,
  rules: TurnRules,
  turn: Turn,
  ids: readonly string[],
  content: string,
): Promise<readonly string[]> {
  const { jid, chat_topic: topic, id: turn_id } = turn
  // A receiver of the answers does not see the round.
  if (isLinkChat(jid) && (await findAnswerTarget(tx, jid, turn_id)) === undefined)
    for (const id of ids) if (await rounds.find(tx, { id, status: 'pending' })) return []
  return (await recordOutbound(tx, context, rules, { jid, topic, turn_id, content, engages: false })).keys
}

async function warnAboutBudget(
  tx: Tx,
  context: WriteContext,
  rules: TurnRules,
  turn: Turn,
): Promise<readonly string[]> {
  const { jid, chat_topic: topic } = turn
  // Visitors learn nothing about the budget but that the agent pauses.
  if (!jid.includes(':') || reachOfTurn(turn) === 'chat') return []
  const notice = await takeBudgetNotice(tx, turn, timestamp(context.clock.now()))
  if (notice === undefined) return []
  const content = sentenceOf(notice)
  return (await recordOutbound(tx, context, rules, { jid, topic, content, engages: false })).keys
}

async function countFailures(
  tx: Tx,
  folder: string,
  { outcome, failure, configMark }: TurnEnd,
  now: number,
): Promise<void> {
  if (outcome === 'refused' || failure === 'stopped') return
  if (outcome !== 'failed') return resetFailures(tx, folder)
  const known = await folderTurns.find(tx, { folder })
  // Failures with another configuration do not count.
  const failures = (known && known.config_mark === configMark ? known.failures : 0) + 1
  const open_until = failures >= FAILURES_MAX ? now + FOLDER_PAUSE_MS : 0
  await folderTurns.update(tx, { folder }, { failures, open_until, config_mark: configMark })
}

export async function resetFailures(tx: Tx, folder: string): Promise<void> {
  await folderTurns.update(tx, { folder }, { failures: 0, open_until: 0 })
}

/** The topic that the turn replies to in this chat; in any other chat, the main topic. */
export function topicIn(turn: Turn | undefined, jid: string): string {
  return turn?.jid === jid ? turn.chat_topic : ''
}

/** Whether messages of this turn engage the chat. */
export function engagesChat({ is_timed, is_guest }: Pick<Turn, 'is_timed' | 'is_guest'>): boolean {
  return !is_timed && !is_guest
}

export function reachOfTurn({ reach, jid }: Pick<Turn, 'reach' | 'jid'>): Reach {
  return reach ?? defaultReach(jid)
}

/** Result that a run reports. */
export interface TurnSubmission {
  readonly turn_id: string
  readonly fence?: number | undefined
  readonly session_id?: string | undefined
  readonly status?: 'success' | 'error' | undefined
  readonly result?: string | undefined
  readonly error?: string | undefined
  readonly models?: readonly ModelCost[] | undefined
}

export interface ModelCost {
  readonly model: string
  readonly input_tokens: number
  readonly output_tokens: number
  /** Fractions of a cent are rounded up once for all models. */
  readonly cost_cents: number
}

/**
 * Records the result of a run, once per turn. Sends `result` to the chat if the turn has sent nothing itself. Does not end
 * the turn; the runner does after the run. Returns the keys to signal.
 */
export async function submitTurn(
  tx: Tx,
  context: WriteContext,
  rules: TurnRules,
  folder: string,
  submission: TurnSubmission,
): Promise<readonly string[]> {
  await lockMessageOrder(tx, context.dialect)
  const { turn_id, fence, session_id, status = 'success', result = '', error } = submission
  const turn = (await turns.find(tx, { id: turn_id, folder })) ?? refuse('not_found', `no turn with id ${turn_id}`)
  if (turn.submitted !== undefined) return []
  if (turn.state !== 'running' || (fence !== undefined && fence !== turn.fence)) refuse('conflict', TURN_LOST)
  const now = timestamp(context.clock.now())
  const submitted_error = status === 'error' ? error : undefined
  await turns.update(tx, { id: turn_id }, { submitted: status, submitted_error })
  const conversation = { folder, topic: turn.topic }
  const isKept = session_id && (await conversations.find(tx, conversation))?.reset_turn !== turn_id
  const { jid, chat_topic: topic, user_sub } = turn
  if (isKept && reachOfTurn(turn) === 'work')
    await workSessions.upsert(tx, { ...conversation, jid, session_id, updated_at: now })
  else if (isKept) await conversations.update(tx, conversation, { session_id, updated_at: now })
  const used = (submission.models ?? []).map(({ model, input_tokens: input, output_tokens: output, cost_cents }) => ({
    ...{ model, input, output, cents: cost_cents },
  }))
  for (const cost of roundCosts(used))
    await recordCost(tx, context.metrics, { folder, turn_id, user_sub, chat_jid: jid, ...cost, recorded_at: now })
  if (status === 'error' || result === '' || turn.replies > 0 || turn.is_isolated) return []
  const reply = { jid, topic, folder, turn_id, content: result, engages: engagesChat(turn) }
  return (await recordOutbound(tx, context, rules, reply)).keys
}
