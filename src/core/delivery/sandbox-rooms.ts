// The rooms of the sandbox: a chat platform within the instance, where people are typed at the command line. Everything that
// any platform can do can be done here, so that routes, grants and tools can be tried without an account anywhere.
import { z } from 'zod'
import { timestamp } from '../../lib/clock.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { query } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { reactionVerb, receiveFromPlatform } from '../messages/platform-inbound.ts'
import { notifyStreams, type WriteContext } from '../turns/rounds.ts'
import { Jid, Timestamp } from '../values.ts'
import { type PanePrompt, SENDING_ACTIONS } from './channel.ts'

export const SANDBOX = 'sandbox'

const SandboxFile = z.object({ filename: z.string(), path: z.string(), size: z.int(), mime: z.string().optional() })

export const SandboxEntry = z.object({
  seq: z.int(),
  jid: Jid,
  key: z.string().optional().describe('What is sent twice under the same key is there once'),
  author: z.string(),
  is_from_me: z.boolean().describe('Whether the agent said it'),
  kind: z.enum(SENDING_ACTIONS),
  content: z.string(),
  topic: z.string().optional(),
  reply_to: z.string().optional(),
  source_id: z.string().optional().describe('What is forwarded, quoted or reposted'),
  source_jid: z.string().optional(),
  files: z.array(SandboxFile),
  reactions: z.record(z.string(), z.array(z.string())).describe('Who gave which'),
  is_pinned: z.boolean(),
  edited_at: Timestamp.optional(),
  deleted_at: Timestamp.optional(),
  created_at: Timestamp,
})
export type SandboxEntry = z.output<typeof SandboxEntry>

export const sandboxEntries = new Table({
  name: 'sandbox_entries',
  row: SandboxEntry,
  key: 'seq',
  storage: [
    ({ counter }) =>
      `create table sandbox_entries (
         seq ${counter}, jid text not null, key text, author text not null, is_from_me boolean not null,
         kind text not null, content text not null, topic text, reply_to text, source_id text, source_jid text,
         files text not null, reactions text not null, is_pinned boolean not null, edited_at text, deleted_at text,
         created_at text not null)`,
    'create index sandbox_entries_of_room on sandbox_entries (jid, seq)',
    'create unique index sandbox_entries_of_key on sandbox_entries (key) where key is not null',
  ],
})

export const SandboxRoom = z.object({
  jid: Jid,
  title: z.string().optional(),
  prompts: z.array(z.object({ title: z.string(), message: z.string() })).optional(),
  is_typing: z.boolean(),
})
export type SandboxRoom = z.output<typeof SandboxRoom>

export const sandboxRooms = new Table({
  name: 'sandbox_rooms',
  row: SandboxRoom,
  key: 'jid',
  storage: ['create table sandbox_rooms (jid text primary key, title text, prompts text, is_typing boolean not null)'],
})

/** As people type it: `lobby`, or the whole JID. */
export function roomJid(room: string): string {
  const jid = room.startsWith(`${SANDBOX}:`) ? room : `${SANDBOX}:${room}`
  return /^sandbox:[A-Za-z0-9][\w.-]{0,63}$/.test(jid)
    ? jid
    : refuse('invalid', 'a room is 1 to 64 letters, digits, ".", "_" or "-", such as lobby')
}

/** The platform's id of an entry. */
export function entryId({ seq }: Pick<SandboxEntry, 'seq'>): string {
  return `s${seq}`
}

/** An entry of this room, by the platform's id. */
export async function findEntry(tx: Tx, jid: string, id: string): Promise<SandboxEntry | undefined> {
  const digits = /^s(\d{1,15})$/.exec(id)?.[1]
  return digits === undefined ? undefined : sandboxEntries.find(tx, { seq: Number(digits), jid })
}

export interface NewEntry extends Partial<Omit<SandboxEntry, 'seq' | 'jid' | 'author' | 'content' | 'created_at'>> {
  readonly jid: string
  readonly author: string
  readonly content: string
}

/** Adds an entry; one whose key is there already is not added again. */
export async function addEntry(tx: Tx, speaking: WriteContext, entry: NewEntry): Promise<SandboxEntry> {
  const known = entry.key === undefined ? undefined : await sandboxEntries.find(tx, { key: entry.key })
  if (known) return known
  await sandboxRooms.insertIfMissing(tx, { jid: entry.jid, is_typing: false })
  const added = await sandboxEntries.insertReturning(tx, {
    is_from_me: false,
    kind: 'send',
    files: [],
    reactions: {},
    is_pinned: false,
    ...entry,
    created_at: timestamp(speaking.clock.now()),
  })
  await notifyStreams(tx, speaking.dialect, entryId(added), entry.jid)
  return added
}

export interface SandboxMessage {
  readonly room: string
  readonly person: string
  readonly content: string
  readonly topic?: string | undefined
  readonly isMention?: boolean | undefined
  readonly replyTo?: string | undefined
}

export interface SandboxReceipt {
  readonly entry: SandboxEntry
  /** The message that the instance has made of it. */
  readonly messageId: string
}

/** A person speaks in a room. Whoever calls this emits a signal once it is committed. */
export async function postInRoom(tx: Tx, speaking: WriteContext, saying: SandboxMessage): Promise<SandboxReceipt> {
  const { content, replyTo: reply_to, topic, isMention = false } = saying
  const [jid, sender] = [roomJid(saying.room), personOf(saying.person)]
  if (content.trim() === '') refuse('invalid', 'there is nothing to say', 'give a text')
  if (reply_to !== undefined) await requireSandboxEntry(tx, jid, reply_to)
  const entry = await addEntry(tx, speaking, { jid, author: saying.person, content, topic, reply_to })
  const received = await receiveFromPlatform(tx, speaking, {
    jid,
    sender,
    content,
    topic,
    verb: isMention ? 'mention' : 'message',
    source: SANDBOX,
    platform_id: entryId(entry),
    sender_name: saying.person,
    reply_to_id: reply_to,
    chat_name: jid.slice(SANDBOX.length + 1),
    is_group: true,
  })
  return { entry, messageId: received?.id ?? refuse('conflict', 'the message is there already') }
}

/** A person reacts to what was said; the agent is told as by any platform. */
export async function reactInRoom(
  tx: Tx,
  speaking: WriteContext,
  { room, person, id, emoji }: { room: string; person: string; id: string; emoji: string },
): Promise<SandboxReceipt> {
  const [jid, sender] = [roomJid(room), personOf(person)]
  const entry = await addReaction(tx, { jid, id, who: person, emoji })
  const received = await receiveFromPlatform(tx, speaking, {
    jid,
    sender,
    content: emoji,
    verb: reactionVerb(emoji),
    source: SANDBOX,
    sender_name: person,
    reply_to_id: id,
  })
  await notifyStreams(tx, speaking.dialect, id, jid)
  return { entry, messageId: received?.id ?? refuse('conflict', 'the reaction is there already') }
}

export async function addReaction(
  tx: Tx,
  { jid, id, who, emoji }: { jid: string; id: string; who: string; emoji: string },
): Promise<SandboxEntry> {
  const entry = await requireSandboxEntry(tx, jid, id)
  if (!/^\S{1,32}$/u.test(emoji)) refuse('invalid', 'a reaction is an emoji such as 👍')
  const given = new Set(entry.reactions[emoji])
  const reactions = { ...entry.reactions, [emoji]: [...given.add(who)] }
  await sandboxEntries.update(tx, { seq: entry.seq }, { reactions })
  return { ...entry, reactions }
}

export async function requireSandboxEntry(tx: Tx, jid: string, id: string): Promise<SandboxEntry> {
  const entry = await findEntry(tx, jid, id)
  if (!entry) refuse('not_found', `there is no message ${id} in ${jid}`)
  return entry.deleted_at === undefined ? entry : refuse('not_found', `the message ${id} was deleted`)
}

export async function setEntry(tx: Tx, seq: number, patch: Partial<NewEntry>): Promise<void> {
  await sandboxEntries.update(tx, { seq }, patch)
}

export async function unpinAll(tx: Tx, jid: string): Promise<void> {
  await sandboxEntries.update(tx, { jid, is_pinned: true }, { is_pinned: false })
}

export async function setRoom(
  tx: Tx,
  jid: string,
  patch: { title?: string; prompts?: PanePrompt[]; is_typing?: boolean },
): Promise<void> {
  await sandboxRooms.insertIfMissing(tx, { jid, is_typing: false })
  await sandboxRooms.update(tx, { jid }, patch)
}

/** What was said in a room, oldest first: after a number, or the latest. */
export async function entriesOf(
  tx: Tx,
  jid: string,
  { after = 0, before, limit }: { after?: number; before?: string | undefined; limit: number },
): Promise<SandboxEntry[]> {
  const until = before === undefined ? '' : ' and created_at < $4'
  const rows = await query(
    tx,
    sandboxEntries.decode,
    `select ${sandboxEntries.columns.join(', ')} from sandbox_entries
     where jid = $1 and seq > $2${until} order by seq desc limit $3`,
    [jid, after, limit, ...(before === undefined ? [] : [before])],
  )
  return rows.reverse()
}

function personOf(person: string): string {
  if (/^[A-Za-z0-9][\w.-]{0,63}$/.test(person)) return `${SANDBOX}:${person}`
  return refuse('invalid', 'a person is 1 to 64 letters, digits, ".", "_" or "-", such as mia')
}
