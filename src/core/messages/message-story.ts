// Everything that the store knows about one message, for operators: how it arrived, why its folder has it, earlier attempts,
// the frames of its round, and its delivery. Message texts are cut, because a person reads them.
import type { Tx } from '../../store/engine.ts'
import { integer, optional, query, text } from '../../store/statement.ts'
import { isLinkChat, platformOf } from '../delivery/channel.ts'
import { outbox } from '../delivery/outbox.ts'
import { filesMember, readFilesOfMessages, type ShownFile } from '../files/chat-files.ts'
import { routeTokens } from '../links/route-tokens.ts'
import { linkJidOf } from '../links/visitor-chats.ts'
import type { RouteTable } from '../routing/route-table.ts'
import { readFrames } from '../turns/rounds.ts'
import { turns } from '../turns/turns.ts'
import type { Envelope } from './envelopes.ts'
import { inbox } from './inbox.ts'
import { messageRetries } from './message-retries.ts'
import { readMessageDetails } from './message-states.ts'
import { decodeContent, type Message, messages } from './messages.ts'

const TEXT_MAX = 64_000
const FRAMES_MAX = 200
const SIBLINGS_MAX = 100

export type MessageEntry =
  | { readonly kind: 'link'; readonly owner?: string | undefined; readonly context?: string | undefined }
  | { readonly kind: 'platform'; readonly platform: string; readonly channel?: string | undefined }
  | { readonly kind: 'task'; readonly task_id: string }
  /** Written by an agent for another folder, or injected into a chat. */
  | { readonly kind: 'turn'; readonly from_turn: string }
  | { readonly kind: 'folder' }

export interface RoutingExplanation {
  readonly sentence: string
  /** Whether it follows from the routes of now, which may have changed since the message was routed. */
  readonly is_by_current_routes: boolean
  readonly route_id?: number | undefined
}

/** The story of a received message; undefined if the id is unknown. */
export async function readReceivedStory(tx: Tx, routes: () => Promise<RouteTable>, id: string) {
  const details = await readMessageDetails(tx, id)
  if (!details) return undefined
  const seq = details.seq ?? 0
  const message = await messages.find(tx, { seq })
  const { envelope, turn } = details
  return {
    ...details,
    direction: 'in' as const,
    ...cutText(details.text),
    ...(await readFiles(tx, seq)),
    entry: message && (await describeEntry(tx, message, envelope)),
    routing: message && (await explainRouting(routes, message, details)),
    retries: await messageRetries.list(tx, { message_seq: seq }),
    frames: (await readFrames(tx, id, 0, FRAMES_MAX)).map((frame) => ({ ...frame, ...cutText(frame.content) })),
    siblings: turn ? await listSiblings(tx, turn.id, id) : [],
  }
}
export type ReceivedStory = NonNullable<Awaited<ReturnType<typeof readReceivedStory>>>

/** The story of a sent message, with the messages that its turn answered; undefined if the id is unknown. */
export async function readSentStory(tx: Tx, id: string) {
  const row = await outbox.find(tx, { id })
  const message = row && (await messages.find(tx, { seq: row.message_seq }))
  if (!row || !message) return undefined
  const { turn_id, jid: chat, payload: _, leased_until: __, next_at, ...delivery } = row
  return {
    ...delivery,
    direction: 'out' as const,
    chat,
    sender: message.sender,
    kind: message.kind,
    ...cutText(decodeContent(message.content)),
    ...(await readFiles(tx, message.seq)),
    next_at: row.state === 'pending' ? next_at : undefined,
    turn: turn_id === undefined ? undefined : await turns.find(tx, { id: turn_id }),
    turn_id,
    answered: turn_id === undefined ? [] : await listSiblings(tx, turn_id, ''),
  }
}
export type SentStory = NonNullable<Awaited<ReturnType<typeof readSentStory>>>

/** The folder that a message belongs to; undefined if no folder has it, or the id is unknown. */
export async function findFolderOfMessage(tx: Tx, id: string): Promise<string | undefined> {
  const row = (await inbox.find(tx, { id })) ?? (await outbox.find(tx, { id }))
  return row ? row.folder : (await readMessageDetails(tx, id))?.folder
}

async function readFiles(tx: Tx, seq: number): Promise<{ readonly files?: readonly ShownFile[] }> {
  return filesMember((await readFilesOfMessages(tx, [seq])).get(seq))
}

function cutText(whole: string): { text: string; text_length: number } {
  return { text: whole.slice(0, TEXT_MAX).replace(/[\ud800-\udbff]$/, ''), text_length: whole.length }
}

/** Other messages of a turn. */
async function listSiblings(tx: Tx, turn_id: string, except: string) {
  return query(
    tx,
    { id: text, state: text, sender: text, folder: optional(text), message_seq: integer },
    `select id, state, sender, folder, message_seq from inbox where turn_id = $1 and id <> $2 order by message_seq
     limit ${SIBLINGS_MAX}`,
    [turn_id, except],
  )
}

async function describeEntry(tx: Tx, message: Message, envelope: Envelope | undefined): Promise<MessageEntry> {
  const { jid, link_context: context } = message
  if (envelope?.task_id !== undefined) return { kind: 'task', task_id: envelope.task_id }
  if (envelope?.from_turn !== undefined) return { kind: 'turn', from_turn: envelope.from_turn }
  if (isLinkChat(jid)) {
    const link = await routeTokens.find(tx, { jid: linkJidOf(jid) })
    return { kind: 'link', owner: link?.owner_folder, context }
  }
  if (!jid.includes(':')) return { kind: 'folder' }
  return { kind: 'platform', platform: platformOf(jid), channel: envelope?.source }
}

interface RoutedDetails {
  readonly folder?: string | undefined
  readonly envelope?: Envelope | undefined
  readonly state?: string | undefined
  readonly updated_at?: string | undefined
}

/** Reasons are stored only for messages that reached no folder; for others the route table of now is asked. */
async function explainRouting(
  routes: () => Promise<RouteTable>,
  { jid, sender, target_folder }: Message,
  { folder, envelope, updated_at }: RoutedDetails,
): Promise<RoutingExplanation> {
  const stored = (sentence: string): RoutingExplanation => ({ sentence, is_by_current_routes: false })
  if (updated_at === undefined) return stored('The router has not reached it yet.')
  if (envelope?.as_folder !== undefined)
    return stored(`It was written for the folder ${envelope.as_folder}; routes are not used.`)
  if (target_folder !== undefined && isLinkChat(jid))
    return stored(
      folder === undefined || folder === target_folder
        ? `Its link leads to the folder ${target_folder}.`
        : `Its link leads to the folder ${target_folder}, and the message names ${folder} below it.`,
    )
  if (!jid.includes(':')) return stored(`Its chat is the folder ${jid}.`)
  const matched = (await routes()).match({ jid, sender, verb: envelope?.verb ?? 'message' })
  if (!matched)
    return {
      is_by_current_routes: true,
      sentence:
        folder === undefined
          ? 'By the routes of now, none matches its chat.'
          : `By the routes of now, none matches its chat. It went to ${folder} by a reply, a running conversation or an earlier route.`,
    }
  const { id: route_id, match, target } = matched.route
  const isSame = matched.target.name === folder
  const route = `route ${route_id} (${match || 'every message'}) leads to ${target}`
  const other =
    folder === undefined
      ? ''
      : ` It went to ${folder} by a reply, a running conversation, a directive or an earlier route.`
  return { is_by_current_routes: true, route_id, sentence: `By the routes of now, ${route}.${isSame ? '' : other}` }
}
