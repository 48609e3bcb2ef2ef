// A post that starts a branch: it replaces an earlier message of the chat in a new topic, which continues the conversation up
// to that message. See docs/decisions.md#topics-and-branches.
import { type NewBranch, planBranch } from '../../core/chats/topic-branches.ts'
import { type ChatFile, readFilesOfMessages } from '../../core/files/chat-files.ts'
import { routeTokens } from '../../core/links/route-tokens.ts'
import { decodeContent, type Message, messages } from '../../core/messages/messages.ts'
import { findRound } from '../../core/turns/rounds.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import type { MessageInput } from './chat-body.ts'
import { type CachedLink, linkFolder } from './link-cache.ts'
import { NO_LINK } from './link-visitor.ts'

export type BranchInput = MessageInput & { readonly branch_of: string }

export function isBranch(message: MessageInput): message is BranchInput {
  return message.branch_of !== undefined
}

interface BranchChat extends Pick<CachedLink, 'hash' | 'jid'> {
  /** Whether the post has files of its own. */
  readonly hasFiles: boolean
}

/** `id` of the post is the name of the branch if the client gives none. `files` are those of the message that it repeats. */
export async function readBranchPost(
  tx: Tx,
  { hash: token_hash, jid, hasFiles }: BranchChat,
  { branch_of, ...input }: BranchInput,
  id: string,
): Promise<{ message: MessageInput; branch: NewBranch; files: readonly ChatFile[] }> {
  const row = await routeTokens.find(tx, { token_hash })
  if (!row) throw NO_LINK
  const original = await findReceived(tx, { jid, folder: linkFolder(row) ?? '' }, branch_of)
  const files = hasFiles ? [] : await readFilesOf(tx, original)
  const topic = input.topic ?? id
  const branch = await planBranch(tx, { jid, topic, message: original })
  const { content, content_type = null } = original
  const isGiven = hasFiles || input.content.byteLength > 0
  return { message: { ...(isGiven ? input : { content, content_type }), topic }, branch, files }
}

/** Messages of people at a link open a round with their id; answers do not. Another folder may have had the chat before. */
async function findReceived(
  tx: Tx,
  { jid, folder }: { readonly jid: string; readonly folder: string },
  id: string,
): Promise<Message> {
  const round = await findRound(tx, id, jid)
  const isOwn = round !== undefined && (round.target_folder === undefined || round.target_folder === folder)
  const message = isOwn ? await messages.find(tx, { seq: round.message_seq }) : undefined
  return message ?? refuseMissingMessage()
}

export function refuseMissingMessage(): never {
  const hint = 'branch_of names a message that was sent through this link, not an answer'
  return refuse('not_found', 'there is no such message to start a branch from', hint)
}

/** What the response says about a stored branch post. */
export async function readStoredBranchPost(
  tx: Tx,
  jid: string,
  id: string,
): Promise<{ content: string; topic: string; files: readonly ChatFile[] }> {
  const round = await findRound(tx, id, jid)
  const message = round && (await messages.find(tx, { seq: round.message_seq }))
  if (!message) return { content: '', topic: '', files: [] }
  const { content, topic = '' } = message
  return { content: decodeContent(content), topic, files: await readFilesOf(tx, message) }
}

async function readFilesOf(tx: Tx, { seq }: Message): Promise<readonly ChatFile[]> {
  return (await readFilesOfMessages(tx, [seq])).get(seq) ?? []
}
