// Rooms of the sandbox: a chat platform within the instance, whose people are played from the command line. It supports
// every action, so routes, grants and tools can be tried without an account on a platform.
import { z } from 'zod'
import { timestamp } from '../../lib/clock.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { query } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { changeFromPlatform, type PlatformChange } from '../messages/platform-changes.ts'
import { reactionVerb, receiveFromPlatform } from '../messages/platform-inbound.ts'
import { notifyStreams, type WriteContext } from '../turns/rounds.ts'
import { Jid, Timestamp } from '../values.ts'
import { type DraftState, MessageButton, type PanePrompt, SENDING_ACTIONS, type TypingState } from './channel.ts'

export const SANDBOX = 'sandbox'

const SandboxFile = z.object({ filename: z.string(), path: z.string(), size: z.int(), mime: z.string().optional() })

export const SandboxEntry = z.object({
  seq: z.int(),
  jid: Jid,
  key: z.string().optional().describe('Idempotency key'),
  author: z.string(),
  is_from_me: z.boolean().describe('Whether the agent sent it'),
  kind: z.enum(SENDING_ACTIONS),
  content: z.string(),
  topic: z.string().optional(),
  reply_to: z.string().optional(),
  source_id: z.string().optional().describe('The message that it forwards, quotes or reposts'),
  source_jid: z.string().optional(),
  files: z.array(SandboxFile),
  reactions: z.record(z.string(), z.array(z.string())).describe('Names of people by emoji'),
  is_pinned: z.boolean(),
  buttons: z.array(MessageButton).optional(),
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
    'alter table sandbox_entries add column buttons text',
  ],
})

const SandboxRoom = z.object({
  jid: Jid,
  title: z.string().optional(),
  prompts: z.array(z.object({ title: z.string(), message: z.string() })).optional(),
  is_typing: z.boolean().describe('In the main topic'),
  typing_topics: z.array(z.string()).optional(),
  drafts: z
    .record(z.string(), z.object({ topic: z.string().optional(), content: z.string() }))
    .optional()
    .describe('Texts that agents are writing, by turn'),
})

export const sandboxRooms = new Table({
  name: 'sandbox_rooms',
  row: SandboxRoom,
  key: 'jid',
  storage: [
    'create table sandbox_rooms (jid text primary key, title text, prompts text, is_typing boolean not null)',
    'alter table sandbox_rooms add column typing_topics text',
    'alter table sandbox_rooms add column drafts text',
  ],
})

/** Accepts `lobby` or the full JID. */
export function roomJid(room: string): string {
  const jid = room.startsWith(`${SANDBOX}:`) ? room : `${SANDBOX}:${room}`
  return /^sandbox:[A-Za-z0-9][\w.-]{0,63}$/.test(jid)
    ? jid
    : refuse('invalid', 'a room is 1 to 64 letters, digits, ".", "_" or "-", such as lobby')
}

/** The platform id of an entry. */
export function entryId({ seq }: Pick<SandboxEntry, 'seq'>): string {
  return `s${seq}`
}

/** Finds an entry of this room by its platform id. */
export async function findEntry(tx: Tx, jid: string, id: string): Promise<SandboxEntry | undefined> {
  const digits = /^s(\d{1,15})$/.exec(id)?.[1]
  return digits === undefined ? undefined : sandboxEntries.find(tx, { seq: Number(digits), jid })
}

export interface NewEntry extends Partial<Omit<SandboxEntry, 'seq' | 'jid' | 'author' | 'content' | 'created_at'>> {
  readonly jid: string
  readonly author: string
  readonly content: string
}

/** Adds an entry, or returns the existing entry with its key. */
export async function addEntry(tx: Tx, { dialect, clock }: WriteContext, entry: NewEntry): Promise<SandboxEntry> {
  const existing = entry.key === undefined ? undefined : await sandboxEntries.find(tx, { key: entry.key })
  if (existing) return existing
  await sandboxRooms.insertIfMissing(tx, { jid: entry.jid, is_typing: false })
  const added = await sandboxEntries.insertReturning(tx, {
    is_from_me: false,
    kind: 'send',
    files: [],
    reactions: {},
    is_pinned: false,
    ...entry,
    created_at: timestamp(clock.now()),
  })
  await notifyStreams(tx, dialect, entryId(added), entry.jid)
  return added
}

interface SandboxMessage {
  readonly room: string
  readonly person: string
  readonly content: string
  readonly topic?: string | undefined
  readonly isMention?: boolean | undefined
  readonly replyTo?: string | undefined
}

export interface SandboxReceipt {
  readonly entry: SandboxEntry
  /** Id of the message that the instance received. */
  readonly messageId: string
}

/** Posts as a person. The caller emits a signal after the commit. */
export async function postInRoom(tx: Tx, context: WriteContext, message: SandboxMessage): Promise<SandboxReceipt> {
  const { person, content, replyTo: reply_to, topic, isMention = false } = message
  const [jid, sender] = [roomJid(message.room), personSender(person)]
  if (content.trim() === '') refuse('invalid', 'the text is empty', 'give a text')
  if (reply_to !== undefined) await requireSandboxEntry(tx, jid, reply_to)
  const entry = await addEntry(tx, context, { jid, author: person, content, topic, reply_to })
  const received = await receiveFromPlatform(tx, context, {
    jid,
    sender,
    content,
    topic,
    verb: isMention ? 'mention' : 'message',
    source: SANDBOX,
    platform_id: entryId(entry),
    sender_name: person,
    reply_to_id: reply_to,
    chat_name: jid.slice(SANDBOX.length + 1),
    is_group: true,
  })
  return { entry, messageId: received?.id ?? refuse('conflict', 'the message already exists') }
}

/** Reacts to an entry as a person. The caller emits a signal after the commit. */
export async function reactInRoom(
  tx: Tx,
  context: WriteContext,
  { room, person, id, emoji }: { room: string; person: string; id: string; emoji: string },
): Promise<SandboxReceipt> {
  const [jid, sender] = [roomJid(room), personSender(person)]
  const entry = await addReaction(tx, { jid, id, person, emoji })
  const received = await receiveFromPlatform(tx, context, {
    jid,
    sender,
    content: emoji,
    verb: reactionVerb(emoji),
    source: SANDBOX,
    sender_name: person,
    reply_to_id: id,
  })
  await notifyStreams(tx, context.dialect, id, jid)
  return { entry, messageId: received?.id ?? refuse('conflict', 'the reaction already exists') }
}

/** Checks that a person sees this button. Buttons are pressed as on other platforms: see daemons/process/button-presses.ts. */
export async function findButton(
  tx: Tx,
  { room, person, id, button }: SandboxTarget & { readonly button: string },
): Promise<{ readonly jid: string; readonly sender: string }> {
  const [jid, sender] = [roomJid(room), personSender(person)]
  const { buttons = [] } = await requireSandboxEntry(tx, jid, id)
  if (buttons.some((each) => each.id === button)) return { jid, sender }
  const names = buttons.map((each) => each.id).join(', ')
  const hint = names === '' ? 'it has no buttons' : `its buttons are ${names}`
  return refuse('not_found', `the message ${id} has no button ${JSON.stringify(button)}`, hint)
}

interface SandboxTarget {
  readonly room: string
  readonly person: string
  readonly id: string
}

/** Replaces the text of a person's own entry. The caller emits a signal after the commit. */
export async function editInRoom(
  tx: Tx,
  context: WriteContext,
  { content, ...target }: SandboxTarget & { content: string },
): Promise<SandboxChange> {
  if (content.trim() === '') refuse('invalid', 'the text is empty', 'give a text, or delete the message')
  const patch = { content, edited_at: timestamp(context.clock.now()) }
  return changeInRoom(tx, context, target, { verb: 'edit', content }, patch)
}

/** Deletes a person's own entry. The caller emits a signal after the commit. */
export async function deleteInRoom(tx: Tx, context: WriteContext, target: SandboxTarget): Promise<SandboxChange> {
  return changeInRoom(tx, context, target, { verb: 'delete' }, deletedEntry(timestamp(context.clock.now())))
}

/** Removes a person's reaction. The caller emits a signal after the commit. */
export async function unreactInRoom(
  tx: Tx,
  context: WriteContext,
  { emoji, ...target }: SandboxTarget & { emoji: string },
): Promise<SandboxChange> {
  const { id, person } = target
  const { reactions } = await requireSandboxEntry(tx, roomJid(target.room), id)
  const people = reactions[emoji] ?? []
  if (!people.includes(person)) refuse('not_found', `${person} has not reacted to ${id} with ${emoji}`)
  const { [emoji]: _, ...others } = reactions
  const rest = people.filter((name) => name !== person)
  const patch = { reactions: rest.length === 0 ? others : { ...reactions, [emoji]: rest } }
  return changeInRoom(tx, context, target, { verb: 'unlike', content: emoji }, patch)
}

export interface SandboxChange {
  readonly entry: SandboxEntry
  /** Id of the message that was changed; absent if the instance no longer has it. */
  readonly messageId: string | undefined
}

async function changeInRoom(
  tx: Tx,
  context: WriteContext,
  { room, person, id }: SandboxTarget,
  change: Pick<PlatformChange, 'verb' | 'content'>,
  patch: Partial<NewEntry>,
): Promise<SandboxChange> {
  const [jid, sender] = [roomJid(room), personSender(person)]
  const entry = await requireSandboxEntry(tx, jid, id)
  const isOwn = !entry.is_from_me && entry.author === person
  if (change.verb !== 'unlike' && !isOwn)
    refuse('forbidden', `the message ${id} is not from ${person}`, `only ${entry.author} can ${change.verb} it`)
  await updateEntry(tx, entry.seq, patch)
  const recorded = await changeFromPlatform(tx, context, {
    ...{ ...change, jid, sender, source: SANDBOX, sender_name: person, target_id: id },
    changed_at: timestamp(context.clock.now()),
  })
  await notifyStreams(tx, context.dialect, id, jid)
  return { entry: { ...entry, ...patch }, messageId: 'id' in recorded ? recorded.id : undefined }
}

/** What a deletion changes in an entry. */
export function deletedEntry(
  deleted_at: string,
): Pick<SandboxEntry, 'deleted_at' | 'is_pinned' | 'content' | 'buttons'> {
  return { deleted_at, is_pinned: false, content: '', buttons: undefined }
}

export async function addReaction(
  tx: Tx,
  { jid, id, person, emoji }: { jid: string; id: string; person: string; emoji: string },
): Promise<SandboxEntry> {
  const entry = await requireSandboxEntry(tx, jid, id)
  if (!/^\S{1,32}$/u.test(emoji)) refuse('invalid', 'a reaction is an emoji such as 👍')
  const people = new Set(entry.reactions[emoji])
  const reactions = { ...entry.reactions, [emoji]: [...people.add(person)] }
  await sandboxEntries.update(tx, { seq: entry.seq }, { reactions })
  return { ...entry, reactions }
}

export async function requireSandboxEntry(tx: Tx, jid: string, id: string): Promise<SandboxEntry> {
  const entry = await findEntry(tx, jid, id)
  if (!entry) refuse('not_found', `there is no message ${id} in ${jid}`)
  return entry.deleted_at === undefined ? entry : refuse('not_found', `the message ${id} was deleted`)
}

export async function updateEntry(tx: Tx, seq: number, patch: Partial<NewEntry>): Promise<void> {
  await sandboxEntries.update(tx, { seq }, patch)
}

export async function unpinAllEntries(tx: Tx, jid: string): Promise<void> {
  await sandboxEntries.update(tx, { jid, is_pinned: true }, { is_pinned: false })
}

export async function updateRoom(
  tx: Tx,
  jid: string,
  patch: { title?: string; prompts?: PanePrompt[]; is_typing?: boolean; typing_topics?: string[] | undefined },
): Promise<void> {
  await sandboxRooms.insertIfMissing(tx, { jid, is_typing: false })
  await sandboxRooms.update(tx, { jid }, patch)
}

export async function setTyping(tx: Tx, { jid, threadId, on }: TypingState): Promise<void> {
  if (threadId === undefined) return updateRoom(tx, jid, { is_typing: on })
  const topics = new Set((await sandboxRooms.find(tx, { jid }))?.typing_topics)
  if (on) topics.add(threadId)
  else topics.delete(threadId)
  await updateRoom(tx, jid, { typing_topics: topics.size === 0 ? undefined : [...topics] })
}

/** Of processes that have ended, some may be left. */
const DRAFTS_MAX = 10

export async function setDraft(tx: Tx, { jid, key, threadId: topic, content }: DraftState): Promise<void> {
  const others = Object.entries((await sandboxRooms.find(tx, { jid }))?.drafts ?? {}).filter(([turn]) => turn !== key)
  const drafts = Object.fromEntries([...others.slice(1 - DRAFTS_MAX), [key, { topic, content }]])
  await sandboxRooms.insertIfMissing(tx, { jid, is_typing: false })
  await sandboxRooms.update(tx, { jid }, { drafts })
}

/** `turn`: one that has sent its message, or sends none. */
export async function removeDraft(tx: Tx, jid: string, turn: string | undefined): Promise<void> {
  const { drafts } = (await sandboxRooms.find(tx, { jid })) ?? {}
  if (turn === undefined || drafts?.[turn] === undefined) return
  const { [turn]: _, ...others } = drafts
  await sandboxRooms.update(tx, { jid }, { drafts: Object.keys(others).length === 0 ? undefined : others })
}

/** The latest entries of a room after `after`, oldest first. */
export async function listRoomEntries(
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

function personSender(person: string): string {
  if (/^[A-Za-z0-9][\w.-]{0,63}$/.test(person)) return `${SANDBOX}:${person}`
  return refuse('invalid', 'a person is 1 to 64 letters, digits, ".", "_" or "-", such as mia')
}
