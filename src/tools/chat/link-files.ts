// Files that agents send to chats of links. The copy is in the directory of the chat before the message is recorded, and its row
// is written with the message; `stray-files.ts` removes a copy without a row.
import type { FileHandle } from 'node:fs/promises'
import type { AgentLimits } from '../../core/access/agent-limits.ts'
import { findTargetFolder, type RecordedOutbound } from '../../core/delivery/outbox.ts'
import { FILE_BYTES_MAX, refuseSize } from '../../core/delivery/staged-files.ts'
import { ChatFileWriter } from '../../core/files/chat-file-writer.ts'
import { addChatFiles, type MessageFiles } from '../../core/files/chat-files.ts'
import { showableFileName } from '../../core/files/file-names.ts'
import { findAnswerTarget, isAnswerUrl } from '../../core/links/route-tokens.ts'
import { mustHaveStorage } from '../../core/links/storage-use.ts'
import { findTurnOfConnection } from '../../core/turns/turns.ts'
import { timestamp, uuidv7 } from '../../lib/clock.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Context, RequestContext } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'

interface LinkFile {
  readonly jid: string
  readonly name: string
}

/** Copies a file into the directory of the chat. */
export async function storeLinkFile(
  request: RequestContext,
  file: FileHandle,
  { jid, name }: LinkFile,
): Promise<MessageFiles> {
  const { host } = request
  const { layout } = host
  if (!layout) return refuse('unavailable', 'this process has no access to the files of chats')
  const { size } = await file.stat()
  if (size > FILE_BYTES_MAX) refuseSize(FILE_BYTES_MAX)
  const place = { folder: await folderOfMessage(request, jid), jid }
  // Checked again with the message.
  await host.engine.read((tx) => mustHaveSpace(tx, host.limits, place, size))
  const writer = await ChatFileWriter.open(layout, {
    id: uuidv7(host.clock, host.random),
    name: showableFileName(name),
  })
  try {
    const source = file.createReadStream({ autoClose: false, start: 0 })
    for await (const bytes of source) {
      if (writer.size + bytes.length > FILE_BYTES_MAX) refuseSize(FILE_BYTES_MAX)
      await writer.write(bytes)
    }
    const stored = await writer.finish()
    await writer.place(place)
    return { place, stored: [stored] }
  } catch (error) {
    await writer.remove()
    throw error
  }
}

/** Whether a file in this chat is also sent to the chat that its webhook answers to. */
export async function hasAnswerChat({ host, caller, turn: named }: RequestContext, jid: string): Promise<boolean> {
  if (caller.kind !== 'agent') return false
  const to = await host.engine.read(async (tx) => {
    const turn = await findTurnOfConnection(tx, caller.folder, named)
    return findAnswerTarget(tx, jid, turn?.id)
  })
  return to !== undefined && !isAnswerUrl(to)
}

async function folderOfMessage(request: RequestContext, jid: string): Promise<string> {
  const { host, caller } = request
  const folder = caller.kind === 'agent' ? caller.folder : undefined
  const found = await host.engine.read(async (tx) => {
    const turn = folder === undefined ? undefined : await findTurnOfConnection(tx, folder, request.turn)
    return findTargetFolder(tx, { jid, turn_id: turn?.id, folder })
  })
  return found ?? refuse('unprocessable', `the chat ${jid} belongs to no folder`)
}

/** Adds the files to a message that was recorded in the same transaction. */
export async function addLinkFiles(ctx: Context, { seq }: RecordedOutbound, files: MessageFiles): Promise<void> {
  const bytes = files.stored.reduce((sum, { size }) => sum + size, 0)
  await mustHaveSpace(ctx.tx, ctx.limits, files.place, bytes)
  await addChatFiles(ctx.tx, files, { message_seq: seq, created_at: timestamp(ctx.clock.now()) })
}

/** Only visitors fill the quota of a chat. */
function mustHaveSpace(
  tx: Tx,
  { folderQuotaBytes }: Pick<AgentLimits, 'folderQuotaBytes'>,
  place: MessageFiles['place'],
  bytes: number,
): Promise<void> {
  return mustHaveStorage(tx, { chat: 0, folder: folderQuotaBytes }, { ...place, bytes })
}
