// Sends files of the workspace or of a visitors' chat, and posts with media. The file is copied before the message is
// recorded, so that a bad path leaves no record.
import type { FileHandle } from 'node:fs/promises'
import { basename } from 'node:path'
import { z } from 'zod'
import { isLinkChat } from '../core/delivery/channel.ts'
import { stageFile } from '../core/delivery/staged-files.ts'
import type { MessageFiles } from '../core/files/chat-files.ts'
import { FileName, openChatFile, openWorkspaceFile, SendablePath } from '../core/groups/workspace-files.ts'
import type { ChatPlace } from '../core/layout.ts'
import { findTurnOfConnection } from '../core/turns/turns.ts'
import { ChatName, MessageText, multilineText } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import type { RequestContext } from '../registry/context.ts'
import { defineTool } from '../registry/tool.ts'
import { resolveChatTarget } from './chat/channel-action.ts'
import { addLinkFiles, hasAnswerChat, storeLinkFile } from './chat/link-files.ts'
import { deliverMessage, recordMessage, requireSendAccess } from './chat/outgoing-message.ts'

const MEDIA_MAX = 10

/** `path`: a staged copy for a platform; `files`: the file in the chat of a link. Both for a webhook that answers to a platform. */
interface PreparedFile {
  readonly jid: string
  readonly path?: string
  readonly files?: MessageFiles
}

const sendFile = defineTool({
  name: 'send_file',
  reach: 'chat',
  tiers: { granted: 3 },
  when: 'Send a file of your workspace to a chat. The caption is the message: do not repeat it with send.',
  activity: 'Sending a file',
  input: z.object({
    chatJid: ChatName,
    filepath: SendablePath,
    filename: FileName.optional().describe("Name to show; default: the file's own name"),
    caption: multilineText(4096).optional(),
  }),
  authorize: requireSendAccess,
  appendsMessages: true,
  prepare: async (request, { chatJid, filepath, filename = basename(filepath) }): Promise<PreparedFile> => {
    const { jid } = await resolveChatTarget(request.host, chatJid, 'send_file')
    const isLink = isLinkChat(jid)
    const staged = !isLink || (await hasAnswerChat(request, jid)) ? { path: await stageCopy(request, filepath) } : {}
    if (!isLink) return { jid, ...staged }
    await using file = await openSendable(request, filepath)
    return { jid, ...staged, files: await storeLinkFile(request, file, { jid, name: filename }) }
  },
  run: async (ctx, { filepath, filename = basename(filepath), caption: given }, { jid, path, files }) => {
    const caption = given?.trim() ? given : undefined
    const sent = { content: caption ?? `[file: ${filename}]`, payload: { path, filename, caption } }
    const message = { jid, action: 'send_file', isThreaded: true } as const
    if (!files) return recordMessage(ctx, { ...message, ...sent })
    const answerFile = path === undefined ? undefined : sent
    const recorded = await recordMessage(ctx, { ...message, content: caption ?? '', answerFile })
    await addLinkFiles(ctx, recorded, files)
    return recorded
  },
  finish: async ({ host }, recorded) => {
    await deliverMessage(host, recorded)
  },
})

const post = defineTool({
  name: 'post',
  reach: 'chat',
  tiers: { max: 2, granted: 2 },
  when: 'Publish a new post on a feed, optionally with files of your workspace as media.',
  activity: 'Publishing a post',
  input: z.object({
    chatJid: ChatName.describe('The feed'),
    content: MessageText,
    media: z.array(SendablePath).max(MEDIA_MAX, `must be ${MEDIA_MAX} files at most`).default([]),
  }),
  authorize: requireSendAccess,
  appendsMessages: true,
  prepare: async (request, { chatJid, media }) => {
    const { jid } = await resolveChatTarget(request.host, chatJid, 'post')
    const copies: string[] = []
    for (const path of media) copies.push(await stageCopy(request, path))
    return { jid, media: copies }
  },
  run: (ctx, { content, media: paths }, { jid, media }) => {
    const mediaNames = paths.map((path) => basename(path))
    return recordMessage(ctx, { jid, content, action: 'post', isThreaded: false, payload: { media, mediaNames } })
  },
  finish: async ({ host }, recorded) => ({ ok: true, id: await deliverMessage(host, recorded) }),
})

async function stageCopy(request: RequestContext, path: string): Promise<string> {
  await using file = await openSendable(request, path)
  const { layout } = request.host
  if (!layout) return refuse('unavailable', 'this process has no access to the workspace files')
  // Awaited, because the file is closed when this function returns.
  return await stageFile(layout, request.host, file, basename(path))
}

async function openSendable(request: RequestContext, path: string): Promise<FileHandle> {
  const { host, caller } = request
  const { layout } = host
  if (!layout) return refuse('unavailable', 'this process has no access to the workspace files')
  if (caller.kind !== 'agent') return refuse('forbidden', 'only an agent has a workspace to send files from')
  const { folder } = caller
  const place = await chatOfTurn(request, folder)
  return place ? openChatFile(layout, place, path) : openWorkspaceFile(layout, folder, path)
}

/** The chat whose directory is the HOME of the turn; undefined at reach `all`. */
async function chatOfTurn(request: RequestContext, folder: string): Promise<ChatPlace | undefined> {
  const { reach } = request
  if (reach !== 'chat' && reach !== 'work') return undefined
  const turn = await request.host.engine.read((tx) => findTurnOfConnection(tx, folder, request.turn))
  if (!turn) return refuse('conflict', 'files can be sent only during a running turn')
  return { folder, jid: turn.jid, reach }
}

export const fileTools = [sendFile, post]
