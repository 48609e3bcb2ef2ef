// Sending files of the workspace or of a visitors' chat, and posts that show some. The copy that is sent is made before anything is recorded, so
// a bad path leaves nothing behind.
import { basename } from 'node:path'
import { z } from 'zod'
import { stageFile } from '../core/delivery/staged-files.ts'
import { FileName, openVisitorFile, openWorkspaceFile, SendablePath } from '../core/groups/workspace-files.ts'
import { findTurnOfConnection } from '../core/turns/turns.ts'
import { ChatName, MessageText, multilineText } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import type { RequestContext } from '../registry/context.ts'
import { defineTool } from '../registry/tool.ts'
import { resolveChatTarget } from './chat/channel-action.ts'
import { deliverMessage, recordMessage, requireSendAccess } from './chat/outgoing-message.ts'

const MEDIA_MAX = 10

const sendFile = defineTool({
  name: 'send_file',
  reach: 'chat',
  tiers: { granted: 3 },
  when: 'Send a file of your workspace to a chat. The caption is its message: do not send that again in words.',
  input: z.object({
    chatJid: ChatName,
    filepath: SendablePath,
    filename: FileName.optional().describe('The name it is shown under; its own unless said'),
    caption: multilineText(4096).optional(),
  }),
  authorize: requireSendAccess(({ chatJid }: { chatJid: string }) => chatJid),
  appendsMessages: true,
  prepare: async (asking, { chatJid, filepath }) => {
    const { jid } = await resolveChatTarget(asking.host, chatJid, 'send_file')
    return { jid, path: await copied(asking, filepath) }
  },
  run: async (ctx, { filepath, filename = basename(filepath), caption: given }, { jid, path }) => {
    const caption = given?.trim() ? given : undefined
    return recordMessage(ctx, {
      jid,
      content: caption ?? `[file: ${filename}]`,
      action: 'send_file',
      isThreaded: true,
      payload: { path, filename, caption },
    })
  },
  finish: async ({ host }, recorded) => {
    await deliverMessage(host, recorded)
  },
})

const post = defineTool({
  name: 'post',
  reach: 'chat',
  tiers: { max: 2, granted: 2 },
  when: 'Publish something new on a feed, with files of your workspace where it needs pictures.',
  input: z.object({
    chatJid: ChatName.describe('The feed'),
    content: MessageText,
    media: z.array(SendablePath).max(MEDIA_MAX, `must be ${MEDIA_MAX} files at most`).default([]),
  }),
  authorize: requireSendAccess(({ chatJid }: { chatJid: string }) => chatJid),
  appendsMessages: true,
  prepare: async (asking, { chatJid, media }) => {
    const { jid } = await resolveChatTarget(asking.host, chatJid, 'post')
    const copies: string[] = []
    for (const path of media) copies.push(await copied(asking, path))
    return { jid, media: copies }
  },
  run: (ctx, { content, media: paths }, { jid, media }) => {
    const mediaNames = paths.map((path) => basename(path))
    return recordMessage(ctx, { jid, content, action: 'post', isThreaded: false, payload: { media, mediaNames } })
  },
  finish: async ({ host }, recorded) => ({ ok: true, id: await deliverMessage(host, recorded) }),
})

async function copied(asking: RequestContext, path: string): Promise<string> {
  const { host, caller } = asking
  const { layout } = host
  if (!layout) return refuse('unavailable', 'the files of the workspace are not in reach of this process')
  if (caller.kind !== 'agent') return refuse('forbidden', 'only an agent has a workspace to send files of')
  const { folder } = caller
  const jid = await visitorsChat(asking, folder)
  await using file = await (jid === undefined
    ? openWorkspaceFile(layout, folder, path)
    : openVisitorFile(layout, { folder, jid }, path))
  // Awaited here: with the end of this the file is closed.
  return await stageFile(layout, host, file, basename(path))
}

/** The chat of a turn that visitors ask for; undefined in every other turn. */
async function visitorsChat({ host, reach, turn: named }: RequestContext, folder: string): Promise<string | undefined> {
  if (reach !== 'chat') return undefined
  const turn = await host.engine.read((tx) => findTurnOfConnection(tx, folder, named))
  return turn?.jid ?? refuse('conflict', 'files are sent in a turn that runs')
}

export const fileTools = [sendFile, post]
