// The event feeds of a link: one round (its frames and its end) or a whole chat. See docs/decisions.md#event-streams.
import { type ChatEvent, lastEventNumbers } from '../../core/chats/chat-events.ts'
import { conversationEventsAfter } from '../../core/chats/topic-branches.ts'
import { filesMember, readFilesOfMessages } from '../../core/files/chat-files.ts'
import { decodeContent, isTaskPrompt } from '../../core/messages/messages.ts'
import { findRound, type ReplyFrame, type Round, readFrames, readRoundHeads } from '../../core/turns/rounds.ts'
import { formatSseEvent } from '../../lib/http/sse-writer.ts'
import type { Tx } from '../../store/engine.ts'
import type { EventFeed, FeedEvent } from './streams.ts'

const PAGE_SIZE = 200

/** Data of the event `round_done`. */
export function roundOutcome({ id, status, error }: Pick<Round, 'id' | 'status' | 'error'>) {
  return { turn_id: id, status, ...(error === undefined ? {} : { error }) }
}

export function roundFeed(id: string): EventFeed {
  return {
    kind: 'round',
    name: id,
    read: async (tx, after) => {
      const round = await findRound(tx, id)
      if (!round) return { events: [], until: after, isMore: false, isOver: true }
      const frames = await readFrames(tx, id, after, PAGE_SIZE)
      const events = frames.map(frameEvent)
      // An empty page is the end even below last_seq: frames of removed messages are gone.
      const isMore = frames.length > 0 && (frames.at(-1)?.seq ?? after) < round.last_seq
      const isOver = !isMore && round.status !== 'pending'
      const end = round.last_seq + 1
      if (isOver) events.push({ seq: end, text: formatSseEvent(end, 'round_done', roundOutcome(round)) })
      return { events, until: events.at(-1)?.seq ?? after, isMore, isOver }
    },
  }
}

function frameEvent(frame: ReplyFrame): FeedEvent {
  return { seq: frame.seq, text: formatSseEvent(frame.seq, frame.kind, frame) }
}

export function chatFeed(jid: string): EventFeed {
  return {
    kind: 'chat',
    name: jid,
    read: async (tx, after, topic) => {
      const { events, isMore } = await conversationEventsAfter(tx, { jid, after, limit: PAGE_SIZE, topic })
      const read = events.at(-1)?.seq ?? after
      const until = isMore || topic === undefined ? read : ((await lastEventNumbers(tx, [jid])).get(jid) ?? read)
      const formatted = await formatChatEvents(tx, events)
      // A stream of a branch also gets the events of other topics that the branch continues.
      const about = topic === undefined ? {} : { topic }
      return { events: formatted.map((event) => ({ ...event, ...about })), until, isMore, isOver: false }
    },
  }
}

async function formatChatEvents(tx: Tx, events: readonly ChatEvent[]): Promise<FeedEvent[]> {
  const formatted: FeedEvent[] = []
  const rounds = await findRounds(tx, events)
  const files = await readFilesOfMessages(
    tx,
    events.flatMap(({ message }) => message?.seq ?? []),
  )
  for (const event of events) {
    const { seq, kind, topic, turn_id } = event
    if (kind === 'round_done') {
      const round = await findRound(tx, turn_id ?? '')
      if (!round) continue
      const data = { ...roundOutcome(round), ...(topic === undefined ? {} : { topic }) }
      formatted.push({ seq, topic, folder: round.target_folder, text: formatSseEvent(seq, 'round_done', data) })
    } else if (event.message && !isTaskPrompt(event.message)) {
      const folder = event.message.target_folder
      const data = { ...chatFrame(event, rounds), ...filesMember(files.get(event.message.seq)) }
      formatted.push({ seq, topic, folder, text: formatSseEvent(seq, kind, data) })
    }
  }
  return formatted
}

/** The turns that are rounds. Turns of schedules and webhooks have none, so clients must not wait for their end. */
async function findRounds(tx: Tx, events: readonly ChatEvent[]): Promise<ReadonlySet<string>> {
  const ids = [...new Set(events.flatMap(({ turn_id }) => turn_id ?? []))]
  return ids.length === 0 ? new Set() : new Set((await readRoundHeads(tx, ids)).keys())
}

function chatFrame({ seq, kind, turn_id, topic, message }: ChatEvent, rounds: ReadonlySet<string>) {
  return {
    seq,
    id: message?.id,
    kind,
    role: message?.direction === 'out' ? 'assistant' : 'user',
    sender: message?.sender,
    content: message ? decodeContent(message.content) : '',
    created_at: message?.created_at,
    ...(message?.is_partial ? { partial: true } : {}),
    ...(turn_id !== undefined && rounds.has(turn_id) ? { turn_id } : {}),
    ...(topic === undefined ? {} : { topic }),
  }
}
