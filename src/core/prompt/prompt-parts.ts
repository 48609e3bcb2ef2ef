// What the prompt of a claimed turn is made of, read from the store. What lies in files is handed in.
import type { Tx } from '../../store/engine.ts'
import { query } from '../../store/statement.ts'
import { platformOf } from '../delivery/channel.ts'
import type { RouteTable } from '../routing/route-table.ts'
import { displayTopic } from '../routing/routing-decision.ts'
import { type Conversation, findConversation, type SessionLog, sessionLog } from '../turns/conversations.ts'
import type { ClaimedMessage, ClaimedTurn } from '../turns/turn-claim.ts'
import type { TurnRules } from '../turns/turn-rules.ts'
import { reachOfTurn, type Turn, turns } from '../turns/turns.ts'
import { readObservedMessages } from './observed-messages.ts'
import type { PromptParts, PromptRow, SystemEvent } from './prompt.ts'
import { claimedMessageRow, observedRow } from './prompt-rows.ts'

/** What lies in the folder's workspace; read by whoever has the disk. */
export interface PromptFiles {
  /** Of the front matter of PERSONA.md, where it has a summary. */
  readonly persona?: { readonly name: string; readonly summary: string } | undefined
  readonly work?: string | undefined
  /** The newest entries, oldest first. */
  readonly diary?: readonly { readonly name: string; readonly text: string }[] | undefined
}

export interface PromptContext {
  readonly instance: string
  readonly now: number
  readonly timeZone: string
  readonly rules: TurnRules
  readonly routes: RouteTable
  readonly assistantName?: string | undefined
  readonly files: PromptFiles
}

export interface GatheredPrompt {
  readonly parts: PromptParts
  readonly conversation: Conversation | undefined
  /** What the log of its sessions ends with. */
  readonly lastSessionLog: SessionLog | undefined
  /** To be written to the conversation's `observed_seq` when the turn is dispatched. */
  readonly observed_seq: number
}

export async function gatherPromptParts(tx: Tx, world: PromptContext, claimed: ClaimedTurn): Promise<GatheredPrompt> {
  const { turn, messages } = claimed
  const { instance, now, files } = world
  const conversation = await findConversation(tx, turn.folder, turn.topic)
  // What was said in other chats, and what the agent is at, is none of a visitor's business.
  const isVisitor = reachOfTurn(turn) === 'chat'
  const observed =
    turn.is_isolated || isVisitor
      ? { rows: [], seq: conversation?.observed_seq ?? 0 }
      : await readObservedMessages(tx, {
          folder: turn.folder,
          topic: turn.topic,
          routes: world.routes,
          rules: world.rules,
        })
  const newest = messages.at(-1)
  const isPane = newest?.envelope?.verb === 'pane_open'
  const platform = platformOf(turn.jid) || 'internal'
  const rows: PromptRow[] = []
  for (const each of observed.rows) rows.push(await observedRow(tx, each))
  for (const each of messages) rows.push(await claimedMessageRow(tx, world.assistantName, claimed, each))
  const session = turn.is_isolated ? undefined : conversation?.session_id
  const lastLogged = await lastOfLog(tx, turn)
  return {
    conversation,
    lastSessionLog: lastLogged,
    observed_seq: observed.seq,
    parts: {
      // Causes name programs, hosts and models, and the agent can repeat what it is told.
      note: turn.attempts > 1 ? retryNote(turn.attempts, isVisitor ? undefined : turn.reason) : undefined,
      origin: newest && (await originOf(tx, newest)),
      events: turn.is_isolated
        ? []
        : eventsOf(world, turn, await lastTurnOf(tx, turn, lastLogged), conversation?.note, session),
      now,
      instance,
      folder: turn.folder,
      session,
      moneyCents: turn.money_cents,
      // A persona of a product has no name: the instance names its agents.
      persona: files.persona && { ...files.persona, name: files.persona.name || (world.assistantName ?? '') },
      topic: displayTopic(turn.topic),
      surface: isPane ? `${platform}-pane` : platform,
      pane: isPane ? turn.jid : undefined,
      knowledge: isVisitor ? [] : knowledgeOf(files),
      linkContext: newest?.message.link_context,
      rows,
    },
  }
}

function retryNote(attempts: number, reason: string | undefined): string {
  const why = reason === undefined ? '' : ` (${reason})`
  return `This is try ${attempts} of the same messages: the one before broke off${why}. What it has sent already is sent; do not send it again.`
}

function knowledgeOf({ work, diary = [] }: PromptFiles): PromptParts['knowledge'] {
  const entries = diary.map(({ name, text }) => `${name}\n${text}`).join('\n\n')
  return [
    ...(work === undefined || work.trim() === '' ? [] : [{ layer: 'work', text: work }]),
    ...(entries === '' ? [] : [{ layer: 'diary', text: entries }]),
  ]
}

async function originOf(tx: Tx, { envelope }: ClaimedMessage): Promise<PromptParts['origin']> {
  if (envelope?.verb !== 'delegate' && envelope?.verb !== 'escalate') return undefined
  const from = envelope.from_turn === undefined ? undefined : await turns.find(tx, { id: envelope.from_turn })
  return {
    kind: envelope.verb === 'delegate' ? 'delegation' : 'escalation',
    folder: from?.folder,
    jid: envelope.return_jid,
    depth: envelope.depth,
  }
}

async function lastOfLog(tx: Tx, { folder, topic }: Turn, only = ''): Promise<SessionLog | undefined> {
  const [last] = await query(
    tx,
    sessionLog.decode,
    `select ${sessionLog.columns.join(', ')} from session_log where folder = $1 and topic = $2${only}
     order by id desc limit 1`,
    [folder, topic],
  )
  return last
}

/** Mostly the log ends with one. */
async function lastTurnOf(tx: Tx, turn: Turn, last: SessionLog | undefined): Promise<SessionLog | undefined> {
  return last === undefined || last.event === 'turn' ? last : lastOfLog(tx, turn, ` and event = 'turn'`)
}

/** What has changed since `last`, the turn before. */
function eventsOf(
  { now, timeZone }: PromptContext,
  turn: Turn,
  last: SessionLog | undefined,
  note: string | undefined,
  session: string | undefined,
): SystemEvent[] {
  const events: SystemEvent[] = []
  const [today, before] = [dayOf(now, timeZone), last && dayOf(Date.parse(last.ended_at), timeZone)]
  if (before !== undefined && before !== today) events.push({ event: 'new_day', text: `It is ${today} now.` })
  if (session === undefined && last)
    events.push({
      event: 'new_session',
      text: note,
      previousSession: {
        id: last.session_id,
        started: last.started_at,
        ended: last.ended_at,
        msgs: last.message_count,
        result: (reachOfTurn(turn) === 'chat' ? undefined : last.error) ?? last.result,
      },
    })
  else if (note !== undefined) events.push({ event: session === undefined ? 'new_session' : 'session', text: note })
  return events
}

/** To make one takes longer than all else of a prompt, and an instance has one zone. */
const formats = new Map<string, Intl.DateTimeFormat>()

/** The form of Sweden's dates is the year, the month and the day. */
function dayOf(ms: number, timeZone: string): string {
  const format = formats.get(timeZone) ?? new Intl.DateTimeFormat('sv-SE', { timeZone })
  formats.set(timeZone, format)
  return format.format(ms)
}
