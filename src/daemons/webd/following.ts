// What can be followed at a link, as events: a round with its frames and its end, and a whole chat.
import { type ChatEvent, eventsAfter, lastEvents } from '../../core/chats.ts'
import { type Message, textOf } from '../../core/messages.ts'
import { type Frame, framesAfter, type Round, roundHeads, rounds } from '../../core/rounds.ts'
import { eventText } from '../../lib/event-stream.ts'
import type { Tx } from '../../store/engine.ts'
import type { Followed, Happening } from './streams.ts'

const AT_ONCE = 200

/** How a round ended, as `round_done` says it (decision L13). */
export function endOf({ id, status, error }: Pick<Round, 'id' | 'status' | 'error'>) {
  return { turn_id: id, status, ...(error === undefined ? {} : { error }) }
}

export function followRound(id: string): Followed {
  return {
    kind: 'round',
    name: id,
    read: async (tx, after) => {
      const round = await rounds.find(tx, { id })
      if (!round) return { events: [], until: after, isMore: false, isOver: true }
      const found = await framesAfter(tx, id, after, AT_ONCE)
      const events = found.map(frameEvent)
      const isMore = (found.at(-1)?.seq ?? after) < round.last_seq
      const isOver = !isMore && round.status !== 'pending'
      const end = round.last_seq + 1
      if (isOver) events.push({ seq: end, text: eventText(end, 'round_done', endOf(round)) })
      return { events, until: events.at(-1)?.seq ?? after, isMore, isOver }
    },
  }
}

function frameEvent(frame: Frame): Happening {
  return { seq: frame.seq, text: eventText(frame.seq, frame.kind, frame) }
}

export function followChat(jid: string): Followed {
  return {
    kind: 'chat',
    name: jid,
    read: async (tx, after, topic) => {
      const { events, isMore } = await eventsAfter(tx, { jid, after, limit: AT_ONCE, topic })
      const read = events.at(-1)?.seq ?? after
      const until = isMore || topic === undefined ? read : ((await lastEvents(tx, [jid])).get(jid) ?? read)
      return { events: await happenings(tx, events), until, isMore, isOver: false }
    },
  }
}

/** A chat's events as they go over the wire. */
async function happenings(tx: Tx, events: readonly ChatEvent[]): Promise<Happening[]> {
  const all: Happening[] = []
  const known = await roundsAmong(tx, events)
  for (const event of events) {
    const { seq, kind, topic, turn_id } = event
    if (kind === 'round_done') {
      const round = await rounds.find(tx, { id: turn_id ?? '' })
      if (!round) continue
      const data = { ...endOf(round), ...(topic === undefined ? {} : { topic }) }
      all.push({ seq, topic, folder: round.target_folder, text: eventText(seq, 'round_done', data) })
    } else if (event.message && !isOwnPrompt(event.message)) {
      const folder = event.message.target_folder
      all.push({ seq, topic, folder, text: eventText(seq, kind, chatFrame(event, known)) })
    }
  }
  return all
}

/** What a schedule tells the agent is not for whoever reads the chat; what the agent says to it is. */
function isOwnPrompt({ jid, direction, sender }: Message): boolean {
  return direction === 'in' && jid.startsWith('web:') && /^timed(-isolated:|$)/.test(sender)
}

/** Which of their turns are rounds: what a schedule or a webhook asks has none, and no end to wait for. */
async function roundsAmong(tx: Tx, events: readonly ChatEvent[]): Promise<ReadonlySet<string>> {
  const ids = [...new Set(events.flatMap(({ turn_id }) => turn_id ?? []))]
  return ids.length === 0 ? new Set() : new Set((await roundHeads(tx, ids)).keys())
}

function chatFrame({ seq, kind, turn_id, topic, message }: ChatEvent, known: ReadonlySet<string>) {
  return {
    seq,
    id: message?.id,
    kind,
    role: message?.direction === 'out' ? 'assistant' : 'user',
    sender: message?.sender,
    content: message ? textOf(message.content) : '',
    created_at: message?.created_at,
    ...(turn_id !== undefined && known.has(turn_id) ? { turn_id } : {}),
    ...(topic === undefined ? {} : { topic }),
  }
}
