// Branches of topics: a branch continues the conversation of another topic up to an event, its fork. It is read segment by
// segment, each by the index of its topic. The fork is before the first event of the branch, so the segments are in order and
// share no event. See docs/decisions.md#topics-and-branches.
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { flag, integer, query, queryOne } from '../../store/statement.ts'
import {
  type ChatEvent,
  cursorBeforeLatest,
  type EventsRequest,
  eventsAfter,
  lastEventNumbers,
  latestEvents,
  oldestOfLatest,
} from './chat-events.ts'
import { type ChatTopic, chatTopics } from './chat-topics.ts'

export const BRANCH_DEPTH_MAX = 32
/** Branches of one conversation, over all levels. */
export const BRANCHES_MAX = 200

export interface TopicSegment {
  /** Undefined for all topics. */
  readonly topic: string | undefined
  /** The fork: the number of the first event that does not belong to it. */
  readonly before?: number | undefined
}

/** The parts of a topic's conversation, oldest first: those of the topics that it continues, and its own. */
export async function segmentsOf(tx: Tx, jid: string, topic: string | undefined): Promise<TopicSegment[]> {
  const segments: TopicSegment[] = [{ topic }]
  let row = topic === undefined ? undefined : await chatTopics.find(tx, { jid, topic })
  while (row?.parent !== undefined && segments.length <= BRANCH_DEPTH_MAX) {
    segments.unshift({ topic: row.parent, before: row.fork_seq })
    row = await chatTopics.find(tx, { jid, topic: row.parent })
  }
  return segments
}

/** Like `eventsAfter`, with the events of a branch before its fork. */
export async function conversationEventsAfter(
  tx: Tx,
  { after, ...request }: Omit<EventsRequest, 'before'>,
): Promise<{ events: ChatEvent[]; isMore: boolean }> {
  const segments = await segmentsOf(tx, request.jid, request.topic)
  const own = segments.pop()
  for (const segment of segments) {
    if ((segment.before ?? 0) <= after + 1) continue
    const { events } = await eventsAfter(tx, { ...request, ...segment, after })
    if (events.length > 0) return { events, isMore: true }
  }
  return eventsAfter(tx, { ...request, ...own, after })
}

/** Like `cursorBeforeLatest`, with the events of a branch before its fork. */
export async function conversationCursorBeforeLatest(
  tx: Tx,
  { limit, ...request }: Omit<EventsRequest, 'after' | 'before'>,
): Promise<number | undefined> {
  if (request.topic === undefined) return cursorBeforeLatest(tx, { ...request, limit })
  let [cursor, left]: [number | undefined, number] = [undefined, limit]
  for (const segment of (await segmentsOf(tx, request.jid, request.topic)).reverse()) {
    if (left === 0) break
    const { oldest, count } = await oldestOfLatest(tx, { ...request, ...segment, limit: left })
    if (oldest !== undefined) cursor = oldest - 1
    left -= count
  }
  return cursor
}

/** Like `latestEvents`, with the events of a branch before its fork. */
export async function latestConversationEvents(
  tx: Tx,
  { limit, before = Number.MAX_SAFE_INTEGER, ...request }: Parameters<typeof latestEvents>[1],
): Promise<ChatEvent[]> {
  let found: ChatEvent[] = []
  for (const segment of (await segmentsOf(tx, request.jid, request.topic)).reverse()) {
    if (found.length === limit) break
    const end = Math.min(before, segment.before ?? before)
    const events = await latestEvents(tx, {
      ...request,
      topic: segment.topic,
      before: end,
      limit: limit - found.length,
    })
    found = [...events, ...found]
  }
  return found
}

export type NewBranch = Pick<ChatTopic, 'jid' | 'topic' | 'root' | 'depth'> & {
  readonly parent: string
  readonly fork_seq: number
  readonly branch_of: string
  /** The message that it replaces. */
  readonly message_seq: number
}

interface BranchRequest {
  readonly jid: string
  /** Name of the branch. */
  readonly topic: string
  /** The received message that it replaces. */
  readonly message: { readonly id: string; readonly seq: number; readonly topic?: string | undefined }
}

/** Refuses a branch beyond the limits. Another version of the first message of a branch begins at the same fork as that branch. */
export async function planBranch(tx: Tx, { jid, topic, message }: BranchRequest): Promise<NewBranch> {
  const from = message.topic ?? ''
  const fork = await eventNumberOf(tx, jid, message.seq)
  if (fork === undefined) return refuse('unavailable', 'the message is not in its chat yet', 'try again in a second')
  const row = await chatTopics.find(tx, { jid, topic: from })
  const common = { jid, topic, root: row?.root ?? from, branch_of: message.id, message_seq: message.seq }
  const isFirst = row?.parent !== undefined && !(await hasEventBefore(tx, jid, from, fork))
  const depth = (row?.depth ?? 0) + (isFirst ? 0 : 1)
  if (depth > BRANCH_DEPTH_MAX || (await countBranches(tx, jid, common.root)) >= BRANCHES_MAX)
    refuse('unprocessable', 'this conversation has too many branches', 'start a new topic')
  return isFirst
    ? { ...common, depth, parent: row.parent ?? '', fork_seq: row.fork_seq ?? 0 }
    : { ...common, depth, parent: from, fork_seq: fork }
}

/** `gone`: its conversation was deleted after it was planned; `taken`: there is a topic with this name. */
export type BranchResult = 'created' | 'gone' | 'taken'

/** Call before its first message is added. */
export async function createBranch(tx: Tx, branch: NewBranch, updated_at: string): Promise<BranchResult> {
  const { message_seq: _, ...row } = branch
  if (!(await isForkLeft(tx, branch))) return 'gone'
  if (!(await isTopicFree(tx, branch.jid, branch.topic))) return 'taken'
  if (!(await chatTopics.insertIfMissing(tx, { ...row, first_seq: 0, last_seq: 0, updated_at }))) return 'taken'
  // The main topic has a row from its first branch on, for its place in the list.
  const { jid, root, fork_seq: last_seq } = branch
  if (root === '')
    await chatTopics.insertIfMissing(tx, { jid, topic: '', root, first_seq: 0, last_seq, updated_at, depth: 0 })
  return 'created'
}

/** A topic that has its name again after it was deleted is another one. */
async function isForkLeft(tx: Tx, { jid, parent, root, fork_seq, message_seq }: NewBranch): Promise<boolean> {
  const sql = 'select exists (select 1 from messages where seq = $1 and jid = $2) as found'
  if (!(await queryOne(tx, { found: flag }, sql, [message_seq, jid])).found) return false
  if (parent === '') return true
  const row = await chatTopics.find(tx, { jid, topic: parent })
  return row?.root === root && row.first_seq <= fork_seq
}

/** Also of messages that are not in their chat yet. */
async function isTopicFree(tx: Tx, jid: string, topic: string): Promise<boolean> {
  if (await hasEventBefore(tx, jid, topic, Number.MAX_SAFE_INTEGER)) return false
  const sql = `select exists (
    select 1 from messages where seq > (select last_seq from filing where id = 1) and direction = 'in' and jid = $1 and topic = $2) as found`
  return !(await queryOne(tx, { found: flag }, sql, [jid, topic])).found
}

async function countBranches(tx: Tx, jid: string, root: string): Promise<number> {
  const sql = 'select count(*) as count from chat_topics where jid = $1 and root = $2'
  return (await queryOne(tx, { count: integer }, sql, [jid, root])).count
}

async function hasEventBefore(tx: Tx, jid: string, topic: string, before: number): Promise<boolean> {
  return (await oldestOfLatest(tx, { jid, topic, before, limit: 1 })).count > 0
}

/**
 * The number of the event of a received message, by binary search, as events have no index of messages. Received messages are
 * numbered in their order; those that were sent are not, because theirs are numbered at once.
 */
async function eventNumberOf(tx: Tx, jid: string, message_seq: number): Promise<number | undefined> {
  let low = 1
  let high = (await lastEventNumbers(tx, [jid])).get(jid) ?? 0
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    if ((await receivedAtOrBefore(tx, jid, middle)) >= message_seq) high = middle
    else low = middle + 1
  }
  return (await receivedAtOrBefore(tx, jid, low)) === message_seq ? low : undefined
}

/** 0 if there is none. */
async function receivedAtOrBefore(tx: Tx, jid: string, event: number): Promise<number> {
  const [row] = await query(
    tx,
    { message_seq: integer },
    `select e.message_seq from chat_events e join messages m on m.seq = e.message_seq
     where e.jid = $1 and e.seq <= $2 and m.direction = 'in' order by e.seq desc limit 1`,
    [jid, event],
  )
  return row?.message_seq ?? 0
}
