// Which turn is next: whose conversation waits, whose folder was served least lately, and what the caps and the budget
// allow (decisions T2, T5). Everything is decided in one transaction, so any number of processes may ask.
import { timestamp } from '../../lib/clock.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Tx, Value } from '../../store/engine.ts'
import { execute, flag, integer, placeholders, query, queryOne, text } from '../../store/statement.ts'
import { defaultReach, smallestReach } from '../access/reach.ts'
import { isLinkChat } from '../delivery/channel.ts'
import { type Envelope, envelopes } from '../messages/envelopes.ts'
import { type InboxRow, inbox } from '../messages/inbox.ts'
import { type Message, messages } from '../messages/messages.ts'
import { engage, setLastReply } from '../routing/engagements.ts'
import { checkBudget, recheckBudget } from './budget.ts'
import { conversations, folderTurns } from './conversations.ts'
import { countBatch, type WaitingMessage } from './message-batch.ts'
import type { TurnRules } from './turn-rules.ts'
import { engagesChat, PAUSE_MAX_MS, type Turn, turns } from './turns.ts'

/** A message of a turn with all that is known of it. */
export interface ClaimedMessage {
  readonly row: InboxRow
  readonly message: Message
  readonly envelope: Envelope | undefined
}

export interface ClaimedTurn {
  readonly turn: Turn
  readonly messages: readonly ClaimedMessage[]
  /** Why it must not run: then it is ended at once. */
  readonly refusal?: string | undefined
}

export interface ClaimOptions {
  readonly now: number
  readonly leaseMs: number
  /** Turns that run in this process. Their leases may look expired, as when the clock was set forward; they are not lost. */
  readonly ownTurnIds?: ReadonlySet<string>
  /** Without it, every workspace is here. */
  readonly workspaces?: WorkspaceAvailability
}

/** Which folders' turns this process can run. Asked inside of a transaction, so it answers at once. */
export interface WorkspaceAvailability {
  has(folder: string): boolean
  /** Folders whose workspaces were not here when last looked for. */
  missing(): readonly string[]
}

/** How many messages are looked at for one turn. */
const LOOKED_AT = 200
/** So many conversations of people whose money is held are passed over; then their folder. */
const PLACES_PASSED = 20
/** How often an agent is asked, when it fails. */
export const ATTEMPTS_MAX = 3
/** How often a turn is taken up after its process died: one that itself kills the process must come to an end. */
export const DEATHS_MAX = 20

/** A time further ahead than any that is ever written was written before the clock was set back: it counts as over. */
const isAhead = (column: string): string => `(${column} > $1 and ${column} <= $2)`

/** Said so that the index of what is open serves. */
const HELD = `t.state <> 'done' and t.state = 'running'`

/** A turn that may be taken up: it is to be tried again, or its process died. After each death it waits for longer. */
const DUE = `((t.state = 'retrying' and not ${isAhead('t.run_after')})
  or (t.state = 'running' and t.leased_until + 1000 * coalesce(t.deaths * t.deaths, 0) <= $1))`

/** Of a folder whose agent failed again and again, nothing starts. */
const UNBROKEN = `(f.open_until is null or not ${isAhead('f.open_until')})`

/** The first two values of each of these statements. */
const times = (now: number): number[] => [now, now + PAUSE_MAX_MS]
const TIMES = 2

export interface ClaimAvailability {
  /** Something may be claimed, or a lease must be put right. */
  readonly hasClaimable: boolean
  /** Some folder is left alone because its agent failed. */
  readonly hasOpenBreaker: boolean
}

/** Whether there is anything to claim: asked often, so it writes nothing. */
export async function checkClaimable(tx: Tx, lease: ClaimOptions): Promise<ClaimAvailability> {
  const missing = lease.workspaces?.missing() ?? []
  const isHere = (alias: string): string => without(`${alias}.folder`, missing.length, TIMES + 1)
  const ready = await queryOne(
    tx,
    { is_ready: flag, is_broken: flag },
    `select exists (select 1 from conversations c left join folder_turns f on f.folder = c.folder
         where c.waiting > 0 and c.turn_id is null and ${UNBROKEN} ${isHere('c')})
       or exists (select 1 from turns t left join folder_turns f on f.folder = t.folder
         where t.state <> 'done' and ${DUE} and ${UNBROKEN} ${isHere('t')})
       or exists (select 1 from turns t where ${HELD} and t.leased_until > $3) as is_ready,
     exists (select 1 from folder_turns f where f.open_until > 0 and ${isAhead('f.open_until')}) as is_broken`,
    [...times(lease.now), lease.now + lease.leaseMs, ...missing],
  )
  return { hasClaimable: ready.is_ready, hasOpenBreaker: ready.is_broken }
}

/** The folders that are left alone because their agents failed. */
export async function foldersWithOpenBreaker(tx: Tx, now: number): Promise<string[]> {
  const rows = await query(
    tx,
    { folder: text },
    `select folder from folder_turns where open_until > 0 and ${isAhead('open_until')}`,
    times(now),
  )
  return rows.map(({ folder }) => folder)
}

/** A condition that leaves these out, whose values follow the first `before` ones. */
function without(column: string, count: number, before: number): string {
  if (count === 0) return ''
  return `and ${column} not in (${placeholders(count, before)})`
}

/** The next turn, held; nothing where none may start now. */
export async function claimTurn(tx: Tx, rules: TurnRules, lease: ClaimOptions): Promise<ClaimedTurn | undefined> {
  const full = await fullFolders(tx, rules, lease)
  if (full === 'all') return undefined
  const passed = new Set([...full, ...(lease.workspaces?.missing() ?? [])])
  const again = await reclaimTurn(tx, lease, passed)
  if (again) return again
  const waiting: ConversationKey[] = []
  for (;;) {
    const place = await nextConversation(tx, lease, passed, waiting)
    if (!place) return undefined
    if (lease.workspaces && !lease.workspaces.has(place.folder)) {
      for (const folder of await foldersWaiting(tx)) if (!lease.workspaces.has(folder)) passed.add(folder)
      passed.add(place.folder)
      continue
    }
    const claimed = await form(tx, rules, lease, place)
    if (typeof claimed === 'object') return claimed
    // Its money is held by a turn that runs: it waits, and others go on.
    if (claimed === 'place' && waiting.length < PLACES_PASSED) waiting.push(place)
    else passed.add(place.folder)
  }
}

async function foldersWaiting(tx: Tx): Promise<string[]> {
  const sql = 'select distinct folder from conversations where waiting > 0 and turn_id is null'
  return (await query(tx, { folder: text }, sql)).map(({ folder }) => folder)
}

async function fullFolders(tx: Tx, rules: TurnRules, { now, leaseMs }: ClaimOptions): Promise<Set<string> | 'all'> {
  const rows = await query(
    tx,
    { folder: text, running: integer, latest: integer },
    `select t.folder, count(*) as running, max(t.leased_until) as latest from turns t
     where ${HELD} and t.leased_until > $1 group by t.folder`,
    [now],
  )
  // The clock was set back: a turn whose process died must not be waited for that much longer.
  if (rows.some(({ latest }) => latest > now + leaseMs))
    await execute(tx, `update turns as t set leased_until = $1 where ${HELD} and t.leased_until > $1`, [now + leaseMs])
  const running = rows.reduce((sum, row) => sum + row.running, 0)
  if (running >= rules.turnsMax) return 'all'
  return new Set(rows.filter((row) => row.running >= rules.turnsPerFolder).map((row) => row.folder))
}

/** A turn whose process died, or that is to be tried again. Adds to `passed` the folders whose workspaces are elsewhere. */
async function reclaimTurn(tx: Tx, lease: ClaimOptions, passed: Set<string>): Promise<ClaimedTurn | undefined> {
  const next = await nextAgain(tx, lease, passed)
  if (next === undefined) return undefined
  const { now, leaseMs } = lease
  const [turn] = await query(
    tx,
    turns.decode,
    `update turns set state = 'running', fence = fence + 1, leased_until = $2,
       attempts = attempts + case when state = 'retrying' then 1 else 0 end,
       deaths = coalesce(deaths, 0) + case when state = 'running' then 1 else 0 end
     where id = $1 returning ${turns.columns.join(', ')}`,
    [next, now + leaseMs],
  )
  if (!turn) return undefined
  const asked = await readClaimedMessages(tx, turn)
  // What the tries before have cost counts: a try is a start like any other.
  const allowance = await recheckBudget(tx, turn, timestamp(now))
  if (allowance.kind === 'exhausted') return { turn, messages: asked, refusal: allowance.sentence }
  const { money_cents } = allowance
  await turns.update(tx, { id: turn.id }, { money_cents })
  return { turn: { ...turn, money_cents }, messages: asked }
}

async function nextAgain(tx: Tx, lease: ClaimOptions, passed: Set<string>): Promise<string | undefined> {
  const own = [...(lease.ownTurnIds ?? [])]
  for (;;) {
    const folders = [...passed]
    const [next] = await query(
      tx,
      { id: text, folder: text },
      `select t.id, t.folder from turns t left join folder_turns f on f.folder = t.folder
       where t.state <> 'done' and ${DUE} and ${UNBROKEN} ${without('t.id', own.length, TIMES)}
         ${without('t.folder', folders.length, TIMES + own.length)} order by t.first_seq limit 1`,
      [...times(lease.now), ...own, ...folders],
    )
    if (!next) return undefined
    if (lease.workspaces?.has(next.folder) ?? true) return next.id
    passed.add(next.folder)
  }
}

interface ConversationKey {
  readonly folder: string
  readonly topic: string
}

/** The oldest conversation of the folder that was served least lately. */
async function nextConversation(
  tx: Tx,
  { now }: ClaimOptions,
  passed: ReadonlySet<string>,
  waiting: readonly ConversationKey[],
): Promise<ConversationKey | undefined> {
  const out = [...times(now), ...passed, ...waiting.flatMap(({ folder, topic }) => [folder, topic])]
  const places = waiting.map((_, at) => {
    const mark = TIMES + passed.size + 2 * at + 1
    return `and not (c.folder = $${mark} and c.topic = $${mark + 1})`
  })
  const not = [without('c.folder', passed.size, TIMES), ...places].join(' ')
  const [next] = await query(
    tx,
    { folder: text },
    `select c.folder from conversations c left join folder_turns f on f.folder = c.folder
     where c.waiting > 0 and c.turn_id is null and ${UNBROKEN} ${not}
     order by coalesce(f.served, 0), c.folder limit 1`,
    out,
  )
  if (!next) return undefined
  const { folder } = next
  const others = waiting.filter((each) => each.folder === folder).map(({ topic }) => topic)
  const [oldest] = await query(
    tx,
    { topic: text },
    `select c.topic from conversations c where c.folder = $1 and c.waiting > 0 and c.turn_id is null
     ${without('c.topic', others.length, 1)} order by (select min(i.message_seq) from inbox i where i.folder = c.folder
       and i.topic = c.topic and i.state = 'waiting') limit 1`,
    [folder, ...others],
  )
  return oldest && { folder, topic: oldest.topic }
}

const WAITING = `select ${inbox.columns.map((name) => `i.${name}`).join(', ')}, length(m.content) as bytes,
    e.message_seq as has_envelope
  from inbox i join messages m on m.seq = i.message_seq left join envelopes e on e.message_seq = i.message_seq
  where i.folder = $1 and i.topic = $2 and i.state = 'waiting' order by i.message_seq limit ${LOOKED_AT}`
/** Of a conversation that waits, up to a message. */
const UP_TO = `folder = $1 and topic = $2 and state = 'waiting' and message_seq <= $3`

async function form(
  tx: Tx,
  rules: TurnRules,
  { now, leaseMs }: ClaimOptions,
  { folder, topic }: ConversationKey,
): Promise<ClaimedTurn | 'folder' | 'place'> {
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
  const chosen = waiting.slice(0, countBatch(waiting))
  const asked = await withMessages(tx, chosen, UP_TO, [folder, topic, chosen.at(-1)?.row.message_seq ?? 0])
  const [first, last] = [asked[0], asked.at(-1)]
  const started_at = timestamp(now)
  if (!first || !last) {
    // The count says that something waits, and nothing does: put right rather than asked for ever.
    await conversations.update(tx, { folder, topic }, { waiting: 0 })
    return 'place'
  }
  const { envelope } = last
  const allowance = await checkBudget(tx, { folder, sender: last.row.sender, now: started_at })
  if (allowance.kind === 'reserved') return allowance.by === 'folder' ? 'folder' : 'place'
  const jid = envelope?.return_jid ?? last.row.jid
  const chat_topic = envelope?.return_jid === undefined ? last.row.chat_topic : (envelope.return_topic ?? '')
  const is_timed = envelope?.task_id !== undefined
  const turn: Turn = {
    id: last.row.id,
    folder,
    topic,
    jid,
    chat_topic,
    sender: last.row.sender,
    first_seq: first.row.message_seq,
    last_seq: last.row.message_seq,
    message_count: asked.length,
    state: 'running',
    attempts: 1,
    fence: 1,
    leased_until: now + leaseMs,
    run_after: 0,
    replies: 0,
    depth: Math.max(...asked.map((each) => each.envelope?.depth ?? 0)),
    is_isolated: envelope?.is_isolated ?? false,
    is_timed,
    is_guest: envelope?.return_jid !== undefined || last.row.verb === 'root',
    task_id: envelope?.task_id,
    // Also where it is refused: whoever takes it up when its process died measures it by the same caps.
    user_sub: allowance.user_sub,
    money_cents: allowance.kind === 'granted' ? allowance.money_cents : undefined,
    is_stopping: false,
    started_at,
    reach: smallestReach(asked.map(({ row }) => row.reach ?? defaultReach(row.jid))),
  }
  // Another may claim it in this very moment: as an insert that minds, PostgreSQL would call that a conflict and not a crossing,
  // and the transaction would not be tried again.
  if (!(await turns.insertIfMissing(tx, turn))) refuse('conflict', `the turn ${turn.id} is there already`)
  await execute(tx, `update inbox set state = 'running', turn_id = $4, updated_at = $5 where ${UP_TO}`, [
    ...[folder, topic, last.row.message_seq],
    ...[turn.id, started_at],
  ])
  // Those that wait for the answer to one of them.
  await execute(
    tx,
    `update inbox set turn_id = $1, updated_at = $2
     where waits_for is not null and waits_for in (select i.id from inbox i where i.turn_id = $1)`,
    [turn.id, started_at],
  )
  await execute(
    tx,
    'update conversations set waiting = waiting - $3, turn_id = $4, updated_at = $5 where folder = $1 and topic = $2',
    [folder, topic, asked.length, turn.id, started_at],
  )
  await markServed(tx, folder)
  if (engagesChat(turn) && !isLinkChat(jid) && jid.includes(':'))
    await engage(tx, { jid, topic: chat_topic, folder, until: now + rules.engagementMs })
  if (envelope?.return_jid === undefined && !is_timed)
    await setLastReply(tx, jid, chat_topic, envelope?.platform_id ?? last.row.id)
  return allowance.kind === 'exhausted'
    ? { turn, messages: asked, refusal: allowance.sentence }
    : { turn, messages: asked }
}

async function markServed(tx: Tx, folder: string): Promise<void> {
  const sql = 'select coalesce(max(served), 0) + 1 as served from folder_turns'
  const { served } = await queryOne(tx, { served: integer }, sql)
  const known = await folderTurns.find(tx, { folder })
  if (known) await folderTurns.update(tx, { folder }, { served })
  else await folderTurns.insert(tx, { folder, served, failures: 0, open_until: 0, warned_on: '' })
}

/** The messages of a turn, oldest first; those that only wait for its answer are not among them. */
export async function readClaimedMessages(
  tx: Tx,
  turn: Pick<Turn, 'id' | 'folder' | 'topic'>,
): Promise<ClaimedMessage[]> {
  const { id: turn_id, folder, topic } = turn
  const rows = await inbox.list(tx, { turn_id, folder, topic, state: 'running' }, [['message_seq', 'asc']])
  const found: Omit<WaitingMessage, 'bytes'>[] = []
  for (const row of rows) found.push({ row, envelope: await envelopes.find(tx, { message_seq: row.message_seq }) })
  const which = `turn_id = $1 and folder = $2 and topic = $3 and state = 'running'`
  return withMessages(tx, found, which, [turn_id, folder, topic])
}

/** These rows of the inbox, which `which` finds too, with their messages. */
async function withMessages(
  tx: Tx,
  rows: readonly Omit<WaitingMessage, 'bytes'>[],
  which: string,
  values: readonly Value[],
): Promise<ClaimedMessage[]> {
  const found = await query(
    tx,
    messages.decode,
    `select ${messages.columns.map((name) => `m.${name}`).join(', ')}
     from (select message_seq from inbox where ${which}) as i join messages m on m.seq = i.message_seq`,
    values,
  )
  const known = new Map(found.map((message) => [message.seq, message]))
  return rows.flatMap(({ row, envelope }) => {
    const message = known.get(row.message_seq)
    return message ? [{ row, message, envelope }] : []
  })
}
