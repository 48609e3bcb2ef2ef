// Reads the parts of a turn's prompt from the store. The caller reads the files of the workspace.
import type { Tx } from '../../store/engine.ts'
import { query } from '../../store/statement.ts'
import { folderBaseName } from '../access/tiers.ts'
import { platformOf } from '../delivery/channel.ts'
import { answerOutputStyle } from '../delivery/platforms.ts'
import { type AgentGroup, agentName } from '../groups/agent-identity.ts'
import { findAnswerTarget } from '../links/route-tokens.ts'
import { type Message, messages } from '../messages/messages.ts'
import type { RouteTable } from '../routing/route-table.ts'
import { displayTopic } from '../routing/routing-decision.ts'
import { type Conversation, conversations, type SessionLog, sessionLog, sessionOf } from '../turns/conversations.ts'
import type { ClaimedMessage, ClaimedTurn } from '../turns/turn-claim.ts'
import type { TurnRules } from '../turns/turn-rules.ts'
import { reachOfTurn, type Turn, turns } from '../turns/turns.ts'
import { readBranchedPart } from './branched-messages.ts'
import { readObservedMessages } from './observed-messages.ts'
import type { PromptParts, PromptRow, SystemEvent } from './prompt.ts'
import { attachChatFiles, type VisibleFile } from './prompt-files.ts'
import { createClaimedRow, createEarlierRow, createObservedRow } from './prompt-rows.ts'

/** Files of the folder's workspace. */
export interface PromptFiles {
  /** From the front matter of PERSONA.md, if it has a summary. */
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
  /** Of the turn's folder. */
  readonly group?: AgentGroup | undefined
  readonly files: PromptFiles
  /** The directory with the files of the turn's chat, as the run sees it. */
  readonly filesPath: string
}

export interface GatheredPrompt {
  readonly parts: PromptParts
  /** The files of the turn's messages, by message. */
  readonly filesOf: ReadonlyMap<number, readonly VisibleFile[]>
  readonly conversation: Conversation | undefined
  /** The session that the run resumes. */
  readonly session: string | undefined
  /** The last entry of the conversation's session log. */
  readonly lastSessionLog: SessionLog | undefined
  /** Written to the conversation when the turn is dispatched. */
  readonly observed_seq: number
}

export async function gatherPromptParts(tx: Tx, context: PromptContext, claimed: ClaimedTurn): Promise<GatheredPrompt> {
  const { turn, messages: claimedMessages } = claimed
  const { instance, now, files, routes, rules, assistantName } = context
  const conversation = await conversations.find(tx, { folder: turn.folder, topic: turn.topic })
  // A visitor must not learn about other chats or the agent's notes.
  const isVisitor = reachOfTurn(turn) === 'chat'
  const observed =
    turn.is_isolated || isVisitor
      ? { rows: [], seq: conversation?.observed_seq ?? 0 }
      : await readObservedMessages(tx, { folder: turn.folder, topic: turn.topic, routes, rules })
  const newest = claimedMessages.at(-1)
  const answerTo = await findAnswerTarget(tx, turn.jid, turn.id)
  const isPane = newest?.envelope?.verb === 'pane_open'
  const platform = platformOf(turn.jid) || 'internal'
  const session = turn.is_isolated ? undefined : await sessionOf(tx, turn, reachOfTurn(turn))
  const lastSessionLog = await findLastLogEntry(tx, turn)
  const lastTurnEntry = await findLastTurnEntry(tx, turn, lastSessionLog)
  // A first turn that failed may have left no session, so the next one has the earlier part again.
  const isFirst = session === undefined && (lastTurnEntry === undefined || lastTurnEntry.error !== undefined)
  const branched = isFirst && newest && !turn.is_isolated && (await readBranchedPart(tx, turn.folder, newest.message))
  const plain: PromptRow[] = []
  if (branched) for (const { message, text } of branched.rows) plain.push(await createEarlierRow(tx, message, text))
  for (const each of observed.rows) plain.push(await createObservedRow(tx, each))
  const isContinued = session !== undefined && lastTurnEntry !== undefined && lastTurnEntry.error === undefined
  const first = isContinued ? claimedMessages[0]?.message : undefined
  let system = first && (await findEarlierSystem(tx, first))
  for (const each of claimedMessages) {
    plain.push(withoutRepeatedSystem(await createClaimedRow(tx, assistantName, claimed, each), system))
    system = each.message.client_context?.system
  }
  const { rows, filesOf } = await attachChatFiles(tx, { turn, path: context.filesPath }, plain)
  return {
    conversation,
    filesOf,
    session,
    lastSessionLog,
    observed_seq: observed.seq,
    parts: {
      // The reason may name programs, hosts and models, and the agent could repeat it to a visitor.
      note: turn.attempts > 1 ? retryNote(turn.attempts, isVisitor ? undefined : turn.reason) : undefined,
      origin: newest && (await findOrigin(tx, newest)),
      events: turn.is_isolated
        ? []
        : [
            ...createEvents(context, turn, lastTurnEntry, conversation?.note, session),
            ...(branched ? [branched.event] : []),
          ],
      now,
      instance,
      folder: turn.folder,
      session,
      // An agent could repeat it to a visitor.
      moneyCents: isVisitor ? undefined : claimed.moneyCents,
      persona: files.persona && { ...files.persona, name: nameOf(context, turn.folder) },
      topic: displayTopic(turn.topic),
      surface: isPane ? `${platform}-pane` : platform,
      pane: isPane ? turn.jid : undefined,
      knowledge: isVisitor ? [] : knowledgeOf(files),
      outputStyle: answerTo === undefined ? undefined : answerOutputStyle(answerTo, { isVisitor }),
      linkContext: newest?.message.link_context,
      rows,
    },
  }
}

/** Clients send their system prompt with each message; the session already has it. */
function withoutRepeatedSystem(row: PromptRow, earlier: string | undefined): PromptRow {
  if (row.clientContext?.system === undefined || row.clientContext.system !== earlier) return row
  const { system: _, is_system_cut: __, ...rest } = row.clientContext
  return { ...row, clientContext: rest }
}

/** Of the message before, in its topic. */
export async function findEarlierSystem(
  tx: Tx,
  { jid, topic, seq, client_context }: Pick<Message, 'jid' | 'topic' | 'seq' | 'client_context'>,
): Promise<string | undefined> {
  if (topic === undefined || client_context?.system === undefined) return undefined
  const columns = messages.columns.map((name) => `m.${name}`).join(', ')
  const [earlier] = await query(
    tx,
    messages.decode,
    `select ${columns} from chat_events e join messages m on m.seq = e.message_seq
     where e.jid = $1 and e.topic = $2 and m.seq < $3 and m.direction = 'in' order by e.seq desc limit 1`,
    [jid, topic, seq],
  )
  return earlier?.client_context?.system
}

/** As people see it. */
function nameOf({ group, files, assistantName = '' }: PromptContext, folder: string): string {
  const named = group ?? { folder, name: folderBaseName(folder) }
  return agentName(named, files.persona?.name ?? '', assistantName)
}

function retryNote(attempts: number, reason: string | undefined): string {
  const cause = reason === undefined ? '' : ` (${reason})`
  return `This is attempt ${attempts} at the same messages: the previous attempt failed${cause}. Messages that it sent were delivered; do not send them again.`
}

function knowledgeOf({ work, diary = [] }: PromptFiles): PromptParts['knowledge'] {
  const entries = diary.map(({ name, text }) => `${name}\n${text}`).join('\n\n')
  return [
    ...(work === undefined || work.trim() === '' ? [] : [{ layer: 'work', text: work }]),
    ...(entries === '' ? [] : [{ layer: 'diary', text: entries }]),
  ]
}

async function findOrigin(tx: Tx, { envelope }: ClaimedMessage): Promise<PromptParts['origin']> {
  if (envelope?.verb !== 'delegate' && envelope?.verb !== 'escalate') return undefined
  const from = envelope.from_turn === undefined ? undefined : await turns.find(tx, { id: envelope.from_turn })
  return {
    kind: envelope.verb === 'delegate' ? 'delegation' : 'escalation',
    folder: from?.folder,
    jid: envelope.return_jid,
    depth: envelope.depth,
  }
}

async function findLastLogEntry(tx: Tx, { folder, topic }: Turn, condition = ''): Promise<SessionLog | undefined> {
  const [last] = await query(
    tx,
    sessionLog.decode,
    `select ${sessionLog.columns.join(', ')} from session_log where folder = $1 and topic = $2${condition}
     order by id desc limit 1`,
    [folder, topic],
  )
  return last
}

/** Usually the last entry is one, and no query is needed. */
async function findLastTurnEntry(tx: Tx, turn: Turn, last: SessionLog | undefined): Promise<SessionLog | undefined> {
  return last === undefined || last.event === 'turn' ? last : findLastLogEntry(tx, turn, ` and event = 'turn'`)
}

/** Events since the previous turn, `last`. */
function createEvents(
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

/** Creating a format takes longer than the rest of the prompt. */
const dateFormats = new Map<string, Intl.DateTimeFormat>()

/** The Swedish date format is YYYY-MM-DD. */
function dayOf(ms: number, timeZone: string): string {
  const format = dateFormats.get(timeZone) ?? new Intl.DateTimeFormat('sv-SE', { timeZone })
  dateFormats.set(timeZone, format)
  return format.format(ms)
}
