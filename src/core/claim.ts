// Which turn is next: whose conversation waits, whose folder was served least lately, and what the caps and the budget
// allow (decisions T2, T5). Everything is decided in one transaction, so any number of processes may ask.
import { timestamp } from '../lib/clock.ts'
import { refuse } from '../lib/refusal.ts'
import type { Tx } from '../store/engine.ts'
import { run } from '../store/statement.ts'
import { allowanceAgain, allowanceOf } from './budget.ts'
import { isLinkChat } from './channel.ts'
import { conversations, folderTurns } from './conversations.ts'
import { engage, setLastReply } from './engagement.ts'
import { type Envelope, envelopes } from './envelopes.ts'
import { groupRun, type Waiting } from './grouping.ts'
import { type Inbox, inbox } from './inbox.ts'
import { type Message, messages } from './messages.ts'
import { defaultReach, smallestReach } from './reach.ts'
import type { TurnRules } from './turn-rules.ts'
import { engagesChat, type Turn, turns } from './turns.ts'

/** A message of a turn with all that is known of it. */
export interface Asked {
  readonly row: Inbox
  readonly message: Message
  readonly envelope: Envelope | undefined
}

export interface ClaimedTurn {
  readonly turn: Turn
  readonly asked: readonly Asked[]
  /** Why it must not run: then it is ended at once. */
  readonly refusal?: string | undefined
  /** It is refused only because earlier turns of its folder failed. */
  readonly isBroken?: boolean | undefined
}

export interface Lease {
  readonly now: number
  readonly forMs: number
}

/** How many messages are looked at for one turn. */
const LOOKED_AT = 200
/** So many conversations of people whose money is held are passed over; then their folder. */
const PLACES_PASSED = 20
/** How often a turn is tried. */
export const ATTEMPTS_MAX = 3

/** Whether there is anything to claim: asked often, so it writes nothing. */
export async function hasWaiting(tx: Tx, now: number): Promise<boolean> {
  const { rows } = await run(
    tx,
    `select 1 as one where exists (select 1 from conversations where waiting > 0 and turn_id is null)
       or exists (select 1 from turns where (state = 'retrying' and run_after <= $1)
         or (state = 'running' and leased_until <= $1))`,
    [now],
  )
  return rows.length > 0
}

/** The next turn, held; nothing where none may start now. */
export async function claimTurn(tx: Tx, rules: TurnRules, lease: Lease): Promise<ClaimedTurn | undefined> {
  const full = await fullFolders(tx, rules, lease.now)
  if (full === 'all') return undefined
  const again = await claimAgain(tx, lease, full)
  if (again) return again
  const passed = new Set(full)
  const waiting: Place[] = []
  for (;;) {
    const place = await nextPlace(tx, passed, waiting)
    if (!place) return undefined
    const claimed = await form(tx, rules, lease, place)
    if (typeof claimed === 'object') return claimed
    // Its money is held by a turn that runs: it waits, and others go on.
    if (claimed === 'place' && waiting.length < PLACES_PASSED) waiting.push(place)
    else passed.add(place.folder)
  }
}

async function fullFolders(tx: Tx, rules: TurnRules, now: number): Promise<Set<string> | 'all'> {
  const { rows } = await run(
    tx,
    `select folder, count(*) as running from turns where state = 'running' and leased_until > $1 group by folder`,
    [now],
  )
  const running = rows.reduce((sum, row) => sum + Number(row.running), 0)
  if (running >= rules.turnsMax) return 'all'
  return new Set(rows.filter((row) => Number(row.running) >= rules.turnsPerFolder).map((row) => String(row.folder)))
}

/** A turn whose process died, or that is to be tried again. */
async function claimAgain(tx: Tx, { now, forMs }: Lease, full: ReadonlySet<string>): Promise<ClaimedTurn | undefined> {
  const { rows } = await run(
    tx,
    `select id, folder from turns where (state = 'retrying' and run_after <= $1)
       or (state = 'running' and leased_until <= $1) order by first_seq limit 100`,
    [now],
  )
  const next = rows.find(({ folder }) => !full.has(String(folder)))
  if (!next) return undefined
  const { rows: held } = await run(
    tx,
    `update turns set state = 'running', fence = fence + 1, attempts = attempts + 1, leased_until = $2
     where id = $1 returning ${turns.columns.join(', ')}`,
    [String(next.id), now + forMs],
  )
  const turn = held[0] && turns.decode(held[0])
  if (!turn) return undefined
  const asked = await askedOf(tx, turn)
  // What the tries before have cost counts: a try is a start like any other.
  const allowance = await allowanceAgain(tx, turn, timestamp(now))
  if (allowance.kind === 'exhausted') return { turn, asked, refusal: allowance.sentence }
  const { money_cents } = allowance
  await turns.update(tx, { id: turn.id }, { money_cents })
  return { turn: { ...turn, money_cents }, asked }
}

interface Place {
  readonly folder: string
  readonly topic: string
}

/** The oldest conversation of the folder that was served least lately. */
async function nextPlace(tx: Tx, passed: ReadonlySet<string>, waiting: readonly Place[]): Promise<Place | undefined> {
  const folders = [...passed]
  const out = [...folders, ...waiting.flatMap(({ folder, topic }) => [folder, topic])]
  const marks = folders.map((_, at) => `$${at + 1}`).join(', ')
  const places = waiting.map((_, at) => {
    const mark = folders.length + 2 * at + 1
    return `and not (c.folder = $${mark} and c.topic = $${mark + 1})`
  })
  const not = [...(folders.length === 0 ? [] : [`and c.folder not in (${marks})`]), ...places].join(' ')
  const { rows } = await run(
    tx,
    `select c.folder from conversations c left join folder_turns f on f.folder = c.folder
     where c.waiting > 0 and c.turn_id is null ${not} order by coalesce(f.served, 0), c.folder limit 1`,
    out,
  )
  const folder = rows[0] && String(rows[0].folder)
  if (folder === undefined) return undefined
  const { rows: oldest } = await run(
    tx,
    `select c.topic from conversations c where c.folder = $${out.length + 1} and c.waiting > 0 and c.turn_id is null
     ${not} order by (select min(i.message_seq) from inbox i where i.folder = c.folder and i.topic = c.topic
       and i.state = 'waiting') limit 1`,
    [...out, folder],
  )
  return oldest[0] && { folder, topic: String(oldest[0].topic) }
}

const WAITING = `select ${inbox.columns.map((name) => `i.${name}`).join(', ')}, length(m.content) as bytes from inbox i
  join messages m on m.seq = i.message_seq where i.folder = $1 and i.topic = $2 and i.state = 'waiting'
  order by i.message_seq limit ${LOOKED_AT}`

async function form(
  tx: Tx,
  rules: TurnRules,
  { now, forMs }: Lease,
  { folder, topic }: Place,
): Promise<ClaimedTurn | 'folder' | 'place'> {
  const { rows } = await run(tx, WAITING, [folder, topic])
  const waiting: Waiting[] = []
  for (const { bytes, ...rest } of rows) {
    const row = inbox.decode(rest)
    const envelope = await envelopes.find(tx, { message_seq: row.message_seq })
    waiting.push({ row, envelope, bytes: Number(bytes) })
  }
  const chosen = waiting.slice(0, groupRun(waiting))
  const asked = await withParts(
    tx,
    chosen.map(({ row }) => row),
  )
  const [first, last] = [asked[0], asked.at(-1)]
  const started_at = timestamp(now)
  if (!first || !last) {
    // The count says that something waits, and nothing does: put right rather than asked for ever.
    await conversations.update(tx, { folder, topic }, { waiting: 0 })
    return 'place'
  }
  const { envelope } = last
  const allowance = await allowanceOf(tx, { folder, sender: last.row.sender, now: started_at })
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
    leased_until: now + forMs,
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
  for (const { row } of asked) {
    await inbox.update(tx, { id: row.id }, { state: 'running', turn_id: turn.id, updated_at: started_at })
    await inbox.update(tx, { waits_for: row.id }, { turn_id: turn.id, updated_at: started_at })
  }
  await run(
    tx,
    'update conversations set waiting = waiting - $3, turn_id = $4, updated_at = $5 where folder = $1 and topic = $2',
    [folder, topic, asked.length, turn.id, started_at],
  )
  const served = await markServed(tx, folder)
  if (engagesChat(turn) && !isLinkChat(jid) && jid.includes(':'))
    await engage(tx, { jid, topic: chat_topic, folder, until: now + rules.engagementMs })
  if (envelope?.return_jid === undefined && !is_timed)
    await setLastReply(tx, jid, chat_topic, envelope?.platform_id ?? last.row.id)
  if (allowance.kind === 'exhausted') return { turn, asked, refusal: allowance.sentence }
  if (served.open_until <= now) return { turn, asked }
  const seconds = Math.ceil((served.open_until - now) / 1000)
  const refusal = `the agent here has failed several times in a row; try again in ${seconds} seconds`
  return { turn, asked, refusal, isBroken: true }
}

async function markServed(tx: Tx, folder: string): Promise<{ open_until: number }> {
  const { rows } = await run(tx, 'select coalesce(max(served), 0) + 1 as next from folder_turns')
  const served = Number(rows[0]?.next ?? 1)
  const known = await folderTurns.find(tx, { folder })
  if (known) await folderTurns.update(tx, { folder }, { served })
  else await folderTurns.insert(tx, { folder, served, failures: 0, open_until: 0, warned_on: '' })
  return { open_until: known?.open_until ?? 0 }
}

/** The messages of a turn, oldest first; those that only wait for its answer are not among them. */
export async function askedOf(tx: Tx, turn: Pick<Turn, 'id' | 'folder' | 'topic'>): Promise<Asked[]> {
  const rows = await inbox.list(tx, { turn_id: turn.id, folder: turn.folder, topic: turn.topic, state: 'running' }, [
    ['message_seq', 'asc'],
  ])
  return withParts(tx, rows)
}

async function withParts(tx: Tx, rows: readonly Inbox[]): Promise<Asked[]> {
  const asked: Asked[] = []
  for (const row of rows) {
    const message = await messages.find(tx, { seq: row.message_seq })
    if (message) asked.push({ row, message, envelope: await envelopes.find(tx, { message_seq: row.message_seq }) })
  }
  return asked
}
