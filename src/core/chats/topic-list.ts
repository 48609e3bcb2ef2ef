// Lists conversations of a chat, newest first: each topic with its branches as one.
import type { Tx } from '../../store/engine.ts'
import { bytes, integer, optional, query, text } from '../../store/statement.ts'
import { chatTopics, titleOf } from './chat-topics.ts'

export interface ListedTopic {
  readonly topic: string
  readonly title: string
  readonly updated_at: string
  /** The branch with the latest message, if that is not the topic itself. */
  readonly latest?: string
}

export interface FoundTopic extends ListedTopic {
  readonly last_seq: number
}

interface TopicsRequest {
  readonly jid: string
  readonly folder: string
  /** `last_seq`, exclusive. */
  readonly before?: number | undefined
  readonly limit: number
}

const ROW = {
  topic: text,
  root: text,
  last_seq: integer,
  updated_at: text,
  title: optional(text),
  start: optional(bytes),
}

/** A topic that has the latest message of its conversation. */
const LATEST = `select t.topic, t.root, t.last_seq, t.updated_at, coalesce(r.title, t.title) as title,
    coalesce(r.start, t.start) as start
  from chat_topics t left join chat_topics r on r.jid = t.jid and r.topic = t.root
  where t.jid = $1 and (t.folder is null or t.folder = $2) and t.last_seq > 0 and not exists (
    select 1 from chat_topics n where n.jid = t.jid and n.root = t.root and n.last_seq > t.last_seq)`

export async function listTopics(
  tx: Tx,
  { jid, folder, before = Number.MAX_SAFE_INTEGER, limit }: TopicsRequest,
): Promise<FoundTopic[]> {
  const sql = `${LATEST} and t.last_seq < $3 order by t.last_seq desc limit $4`
  return (await query(tx, ROW, sql, [jid, folder, before, limit])).map(toListed)
}

/** The conversation that has this topic. */
export async function findListedTopic(tx: Tx, jid: string, folder: string, topic: string): Promise<FoundTopic[]> {
  const row = await chatTopics.find(tx, { jid, topic })
  if (!row) return []
  return (await query(tx, ROW, `${LATEST} and t.root = $3`, [jid, folder, row.root])).map(toListed)
}

function toListed({
  topic,
  root,
  last_seq,
  updated_at,
  title,
  start,
}: {
  readonly topic: string
  readonly root: string
  readonly last_seq: number
  readonly updated_at: string
  readonly title: string | undefined
  readonly start: Uint8Array | undefined
}): FoundTopic {
  const latest = topic === root ? {} : { latest: topic }
  return { topic: root, title: titleOf({ title, start }), updated_at, last_seq, ...latest }
}

export interface BranchTopic {
  readonly topic: string
  readonly parent?: string | undefined
  /** Number of the event of the parent before which the branch begins. */
  readonly fork_seq?: number | undefined
  readonly first_seq: number
  readonly last_seq: number
}

/** A topic with all branches of its conversation that belong to the folder, oldest first. */
export async function listVersions(tx: Tx, jid: string, folder: string, topic: string): Promise<BranchTopic[]> {
  const row = await chatTopics.find(tx, { jid, topic })
  if (!row || (row.folder !== undefined && row.folder !== folder)) return []
  const schema = {
    topic: text,
    parent: optional(text),
    fork_seq: optional(integer),
    first_seq: integer,
    last_seq: integer,
  }
  const sql = `select topic, parent, fork_seq, first_seq, last_seq from chat_topics
    where jid = $1 and root = $2 and (folder is null or folder = $3)`
  const rows = await query(tx, schema, sql, [jid, row.root, folder])
  return rows.sort((a, b) => a.first_seq - b.first_seq)
}
