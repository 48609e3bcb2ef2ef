// Turns: messages of one conversation that an agent handles together. A turn is held with a lease and a fence, so that a
// process that died loses it, and one that was only slow is refused when it comes back (decision T2).
import { z } from 'zod'
import { timestamp } from '../../lib/clock.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { equal } from '../../store/sql-conditions.ts'
import { execute, query, queryForValues, text } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { defaultReach, Reach } from '../access/reach.ts'
import { isLinkChat } from '../delivery/channel.ts'
import { recordOutbound } from '../delivery/outbox.ts'
import { type InboxOutcome, inbox } from '../messages/inbox.ts'
import { lockMessageOrder } from '../messages/messages.ts'
import { recordTaskTurn } from '../schedule/task-firing.ts'
import { ChatName, Folder, Timestamp } from '../values.ts'
import { budgetNotice } from './budget.ts'
import { conversations, folderTurns, sessionLog } from './conversations.ts'
import { costLog } from './costs.ts'
import { endRounds, keepFrames, rounds, type WriteContext } from './rounds.ts'
import { FAILURE_MESSAGES, sentenceOf } from './turn-failures.ts'
import { IS_OPEN, type TurnRules } from './turn-rules.ts'

export const Turn = z.object({
  id: z.string().describe('The id of the last of its messages'),
  folder: Folder,
  topic: z.string().describe('The conversation; the main one is the empty text'),
  jid: ChatName.describe('The chat that it answers in'),
  chat_topic: z.string(),
  sender: z.string().describe('Who asked last'),
  first_seq: z.int(),
  last_seq: z.int(),
  message_count: z.int(),
  state: z.enum(['running', 'retrying', 'done']),
  outcome: z.string().optional(),
  reason: z.string().optional(),
  attempts: z.int().describe('How often the agent was asked'),
  fence: z.int(),
  leased_until: z.int(),
  run_after: z.int(),
  replies: z.int().describe('Messages said, without the ones that only tell how far it is'),
  depth: z.int(),
  is_isolated: z.boolean(),
  is_timed: z.boolean(),
  is_guest: z.boolean().describe("It answers in a chat that is another folder's, which does not become its own"),
  task_id: z.string().optional(),
  user_sub: z.string().optional().describe('The person whose budget it counts against'),
  money_cents: z.int().optional().describe('What it may cost at most; others of the same cap wait until it is over'),
  submitted: z.enum(['success', 'error']).optional(),
  submitted_error: z.string().optional(),
  is_stopping: z.boolean(),
  started_at: Timestamp,
  ended_at: Timestamp.optional(),
  reach: Reach.optional().describe(
    'The smallest reach of its messages; absent for what began before this was recorded',
  ),
  deaths: z.int().optional().describe('How often the process that ran it died, or lost the store for too long'),
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
  ],
})

/** What a turn is held by: only with the number that was given may anything be said of it. */
export interface TurnLease {
  readonly id: string
  readonly fence: number
}

/** Why a turn that says so is refused, in the tool's words. */
const OVER = 'the turn is over, or somebody else has taken it'

/**
 * The turn that a connection of this folder's socket belongs to (decision T10): the one that it names with its fence, or,
 * where it names none, the only one that runs.
 */
export async function findTurnOfConnection(
  tx: Tx,
  folder: string,
  named?: { id: string; fence?: number },
): Promise<Turn | undefined> {
  if (named) {
    const turn = await turns.find(tx, { id: named.id, folder, state: 'running' })
    return turn && (named.fence === undefined || named.fence === turn.fence) ? turn : refuse('conflict', OVER)
  }
  const running = await runningTurns(tx, { folder })
  return running.length === 1 ? running[0] : undefined
}

type WhichTurns = Partial<Pick<Turn, 'folder' | 'topic' | 'jid' | 'chat_topic' | 'is_stopping'>>

/** In no order: few run at a time. */
export async function runningTurns(tx: Tx, where: WhichTurns): Promise<Turn[]> {
  const sql = `select ${turns.columns.join(', ')} from turns where ${whichRun(where)}`
  return query(tx, turns.decode, sql, Object.values(where))
}

function whichRun(where: WhichTurns): string {
  return [IS_OPEN, `state = 'running'`, ...equal(Object.keys(where))].join(' and ')
}

/** Holds it for longer; false when somebody else has it, or when it is over. */
export async function renewTurn(tx: Tx, { id, fence }: TurnLease, until: number): Promise<Turn | undefined> {
  const changed = await turns.update(tx, { id, fence, state: 'running' }, { leased_until: until })
  return changed > 0 ? turns.find(tx, { id }) : undefined
}

/** Gives it back to whoever is next; a try that was broken off on purpose does not count. */
export async function releaseTurn(tx: Tx, { id, fence }: TurnLease): Promise<void> {
  await execute(
    tx,
    `update turns set state = 'retrying', run_after = 0, leased_until = 0, attempts = attempts - 1
     where id = $1 and fence = $2 and state = 'running'`,
    [id, fence],
  )
}

/** The same messages again, later. The conversation waits for it: what was said first is answered first. */
export async function retryTurn(tx: Tx, { id, fence }: TurnLease, at: number, reason: string): Promise<boolean> {
  const patch = { state: 'retrying' as const, run_after: at, leased_until: 0, reason }
  return (await turns.update(tx, { id, fence, state: 'running' }, patch)) > 0
}

/** Asks whoever runs it to break off; whether there was one. */
export async function stopTurns(tx: Tx, where: WhichTurns): Promise<number> {
  const sql = `update turns set is_stopping = true where ${whichRun(where)}`
  return execute(tx, sql, Object.values(where))
}

export interface TurnEnd {
  readonly outcome: InboxOutcome
  /** For operators alone: it may repeat what a provider or a program printed. */
  readonly reason?: string | undefined
  /** What people who wait are told where it was no success; that the agent could not answer, unless said. */
  readonly publicReason?: string | undefined
  /** What the chat is told, where it would not learn of it otherwise. */
  readonly notice?: string | undefined
  /** Fingerprint of the configuration that a failed run had. */
  readonly configMark?: string | undefined
}

const SUCCESSES: readonly InboxOutcome[] = ['answered', 'silent', 'observed']
/** A turn is never put off for longer, nor is a folder left alone. */
export const PAUSE_MAX_MS = 60_000
/** So many in a row, and the folder is left alone for a while: what waits there waits for longer. */
const FAILURES_MAX = 3
const BREAK_MS = PAUSE_MAX_MS

/** Ends a turn, once: its messages, their rounds, its conversation. Whom it concerns; nothing when it was not held. */
export async function endTurn(
  tx: Tx,
  speaking: WriteContext,
  rules: TurnRules,
  held: TurnLease,
  end: TurnEnd,
): Promise<string[] | undefined> {
  await lockMessageOrder(tx, speaking.dialect)
  const { id, fence } = held
  const ended_at = timestamp(speaking.clock.now())
  const done = { state: 'done' as const, outcome: end.outcome, reason: end.reason, ended_at, leased_until: 0 }
  if ((await turns.update(tx, { id, fence, state: 'running' }, done)) === 0) return undefined
  const turn = (await turns.find(tx, { id })) ?? refuse('conflict', OVER)
  const keys: string[] = []
  if (end.outcome !== 'silent' || !(await handOver(tx, turn, ended_at))) {
    const sql = 'select id from inbox where turn_id = $1 order by message_seq'
    const ids = (await query(tx, { id: text }, sql, [id])).map((row) => row.id)
    if (end.notice !== undefined) keys.push(...(await notify(tx, speaking, rules, turn, ids, end.notice)))
    keys.push(...(await endMessages(tx, speaking, ids, end)))
  }
  await conversations.update(
    tx,
    { folder: turn.folder, topic: turn.topic, turn_id: id },
    { turn_id: undefined, updated_at: ended_at },
  )
  await countFailures(tx, turn.folder, end, speaking.clock.now())
  await recordTaskTurn(tx, turn, end)
  keys.push(...(await warnOfBudget(tx, speaking, rules, turn)))
  await sessionLog.append(tx, {
    folder: turn.folder,
    topic: turn.topic,
    session_id: (await conversations.find(tx, { folder: turn.folder, topic: turn.topic }))?.session_id,
    turn_id: id,
    event: 'turn',
    message_count: turn.message_count,
    result: end.outcome,
    error: SUCCESSES.includes(end.outcome) ? undefined : end.reason,
    started_at: turn.started_at,
    ended_at,
  })
  return keys
}

/** Ends messages, their rounds, and those that were waiting for one of them. Behind `queueUp`; whom it concerns. */
export async function endMessages(
  tx: Tx,
  speaking: WriteContext,
  ids: readonly string[],
  { outcome, reason, publicReason = FAILURE_MESSAGES.failed }: TurnEnd,
): Promise<string[]> {
  if (ids.length === 0) return []
  const updated_at = timestamp(speaking.clock.now())
  await queryForValues(
    tx,
    {},
    ids,
    (marks) => `update inbox set state = $1, reason = $2, waits_for = null, updated_at = $3 where id in (${marks})`,
    [outcome, reason ?? null, updated_at],
  )
  const isSuccess = SUCCESSES.includes(outcome)
  const keys = await endRounds(tx, speaking, ids, {
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
  return [...keys, ...(await endMessages(tx, speaking, others, { outcome, reason, publicReason }))]
}

/**
 * Whoever delegated a question and said nothing itself leaves it, and its rounds, to whoever it was delegated to. False
 * where nothing of it is under way.
 */
async function handOver(tx: Tx, { id }: Turn, now: string): Promise<boolean> {
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
  const patch = { state: 'delegated' as const, waits_for: delegated.id, turn_id: undefined, updated_at: now }
  const adopter = await inbox.find(tx, { id: delegated.id, state: 'running' })
  await inbox.update(tx, { turn_id: id }, { ...patch, turn_id: adopter?.turn_id })
  return true
}

/** Whoever waits at a round reads there how it ended; all others are told in the chat. */
async function notify(
  tx: Tx,
  speaking: WriteContext,
  rules: TurnRules,
  turn: Turn,
  ids: readonly string[],
  content: string,
): Promise<readonly string[]> {
  if (isLinkChat(turn.jid)) {
    for (const id of ids) if (await rounds.find(tx, { id, status: 'pending' })) return []
  }
  const { jid, chat_topic: topic, id: turn_id } = turn
  return (await recordOutbound(tx, speaking, rules, { jid, topic, turn_id, content, engages: false })).keys
}

/** Whoever reads the chat learns in time that there will be no more answers today. */
async function warnOfBudget(tx: Tx, speaking: WriteContext, rules: TurnRules, turn: Turn): Promise<readonly string[]> {
  const notice = await budgetNotice(tx, turn, timestamp(speaking.clock.now()))
  const { jid, chat_topic: topic } = turn
  if (notice === undefined || !jid.includes(':')) return []
  const content = sentenceOf(notice)
  return (await recordOutbound(tx, speaking, rules, { jid, topic, content, engages: false })).keys
}

async function countFailures(tx: Tx, folder: string, { outcome, configMark }: TurnEnd, now: number): Promise<void> {
  if (outcome === 'refused') return
  if (outcome !== 'failed') return resetFailures(tx, folder)
  const known = await folderTurns.find(tx, { folder })
  // Failures with another configuration say nothing about this one.
  const failures = (known && known.config_mark === configMark ? known.failures : 0) + 1
  const open_until = failures >= FAILURES_MAX ? now + BREAK_MS : 0
  await folderTurns.update(tx, { folder }, { failures, open_until, config_mark: configMark })
}

export async function resetFailures(tx: Tx, folder: string): Promise<void> {
  await folderTurns.update(tx, { folder }, { failures: 0, open_until: 0 })
}

/** The topic of the chat that the turn answers in; of any other chat, the main one. */
export function topicIn(turn: Turn | undefined, jid: string): string {
  return turn?.jid === jid ? turn.chat_topic : ''
}

/** Whether a chat stays with the folder that speaks there in this turn. */
export function engagesChat({ is_timed, is_guest }: Pick<Turn, 'is_timed' | 'is_guest'>): boolean {
  return !is_timed && !is_guest
}

/** What the tools of a turn may do. */
export function reachOfTurn({ reach, jid }: Pick<Turn, 'reach' | 'jid'>): Reach {
  return reach ?? defaultReach(jid)
}

/** What a run says of itself, once. */
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
  readonly cost_cents: number
}

/**
 * Records how a run went (idempotent on folder and turn: the first record wins, and a repeat changes nothing). `result` is
 * said in the chat only where the turn has said nothing itself. It does not end the turn: whoever runs it does, when the
 * run has returned. Whom it concerns.
 */
export async function submitTurn(
  tx: Tx,
  speaking: WriteContext,
  rules: TurnRules,
  folder: string,
  submission: TurnSubmission,
): Promise<readonly string[]> {
  await lockMessageOrder(tx, speaking.dialect)
  const { turn_id, fence, session_id, status = 'success', result = '', error } = submission
  const turn =
    (await turns.find(tx, { id: turn_id, folder })) ?? refuse('not_found', `there is no turn ${turn_id} here`)
  if (turn.submitted !== undefined) return []
  if (turn.state !== 'running' || (fence !== undefined && fence !== turn.fence)) refuse('conflict', OVER)
  const now = timestamp(speaking.clock.now())
  await turns.update(
    tx,
    { id: turn_id },
    { submitted: status, submitted_error: status === 'error' ? error : undefined },
  )
  const kept = session_id && (await conversations.find(tx, { folder, topic: turn.topic }))?.reset_turn !== turn_id
  if (kept) await conversations.update(tx, { folder, topic: turn.topic }, { session_id, updated_at: now })
  for (const { model, ...cost } of submission.models ?? [])
    await costLog.insertIfMissing(tx, {
      folder,
      turn_id,
      model,
      user_sub: turn.user_sub,
      chat_jid: turn.jid,
      ...cost,
      recorded_at: now,
    })
  if (status === 'error' || result === '' || turn.replies > 0 || turn.is_isolated) return []
  const { jid, chat_topic: topic } = turn
  const recorded = await recordOutbound(tx, speaking, rules, {
    jid,
    topic,
    folder,
    turn_id,
    content: result,
    engages: engagesChat(turn),
  })
  return recorded.keys
}
