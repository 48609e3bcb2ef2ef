// Sending files of the workspace or of a visitors' chat, and posts that show some. The copy that is sent is made before anything is recorded, so
// a bad path leaves nothing behind.
import { basename } from 'node:path'
import { z } from 'zod'
import { stage } from '../core/staging.ts'
import { turnOf } from '../core/turns.ts'
import { ChatName, prose, Words } from '../core/values.ts'
import { FileName, openForVisitors, openInWorkspace, SentPath } from '../core/workspace.ts'
import { refuse } from '../lib/refusal.ts'
import { placeFor } from '../registry/acting.ts'
import type { Asking } from '../registry/context.ts'
import { say, sayOut, speaksIn } from '../registry/saying.ts'
import { hotTool } from '../registry/tool.ts'

const MEDIA_MAX = 10

const sendFile = hotTool({
  name: 'send_file',
  reach: 'chat',
  when: 'Send a file of your workspace to a chat. The caption is its message: do not send that again in words.',
  input: z.object({
    chatJid: ChatName,
    filepath: SentPath,
    filename: FileName.optional().describe('The name it is shown under; its own unless said'),
    caption: prose(4096).optional(),
  }),
  needs: speaksIn(({ chatJid }: { chatJid: string }) => chatJid),
  says: true,
  prepare: async (asking, { chatJid, filepath }) => {
    const { jid } = await placeFor(asking.host, chatJid, 'send_file')
    return { jid, path: await copied(asking, filepath) }
  },
  run: async (ctx, { filepath, filename = basename(filepath), caption: given }, { jid, path }) => {
    const caption = given?.trim() ? given : undefined
    return say(ctx, {
      jid,
      content: caption ?? `[file: ${filename}]`,
      action: 'send_file',
      isThreaded: true,
      payload: { path, filename, caption },
    })
  },
  finish: async ({ host }, recorded) => {
    await sayOut(host, recorded)
  },
})

const post = hotTool({
  name: 'post',
  reach: 'chat',
  when: 'Publish something new on a feed, with files of your workspace where it needs pictures.',
  input: z.object({
    chatJid: ChatName.describe('The feed'),
    content: Words,
    media: z.array(SentPath).max(MEDIA_MAX, `must be ${MEDIA_MAX} files at most`).default([]),
  }),
  needs: speaksIn(({ chatJid }: { chatJid: string }) => chatJid),
  says: true,
  prepare: async (asking, { chatJid, media }) => {
    const { jid } = await placeFor(asking.host, chatJid, 'post')
    const copies: string[] = []
    for (const path of media) copies.push(await copied(asking, path))
    return { jid, media: copies }
  },
  run: (ctx, { content, media: paths }, { jid, media }) => {
    const mediaNames = paths.map((path) => basename(path))
    return say(ctx, { jid, content, action: 'post', isThreaded: false, payload: { media, mediaNames } })
  },
  finish: async ({ host }, recorded) => ({ ok: true, id: await sayOut(host, recorded) }),
})

async function copied(asking: Asking, path: string): Promise<string> {
  const { host, caller } = asking
  const { layout } = host
  if (!layout) return refuse('unavailable', 'the files of the workspace are not in reach of this process')
  if (caller.kind !== 'agent') return refuse('forbidden', 'only an agent has a workspace to send files of')
  const { folder } = caller
  const jid = await visitorsChat(asking, folder)
  await using file = await (jid === undefined
    ? openInWorkspace(layout, folder, path)
    : openForVisitors(layout, { folder, jid }, path))
  // Awaited here: with the end of this the file is closed.
  return await stage(layout, host, file, basename(path))
}

/** The chat of a turn that visitors ask for; undefined in every other turn. */
async function visitorsChat({ host, reach, turn: named }: Asking, folder: string): Promise<string | undefined> {
  if (reach !== 'chat') return undefined
  const turn = await host.engine.read((tx) => turnOf(tx, folder, named))
  return turn?.jid ?? refuse('conflict', 'files are sent in a turn that runs')
}

export const fileTools = [sendFile, post]
