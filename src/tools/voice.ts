// Sends voice messages.
import { z } from 'zod'
import { isLinkChat } from '../core/delivery/channel.ts'
import { openTrustedFile, stageTrustedFile } from '../core/delivery/staged-files.ts'
import type { MessageFiles } from '../core/files/chat-files.ts'
import { personaVoice } from '../core/groups/workspace-files.ts'
import { ChatName, line, multilineText } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import type { InstanceHost } from '../registry/context.ts'
import { defineTool } from '../registry/tool.ts'
import { resolveChatTarget } from './chat/channel-action.ts'
import { addLinkFiles, hasAnswerChat, storeLinkFile } from './chat/link-files.ts'
import { deliverMessage, recordMessage, requireSendAccess } from './chat/outgoing-message.ts'

const VOICE_NAME = 'voice.ogg'

/** `path`: a staged copy for a platform; `files`: the file in the chat of a link. */
interface PreparedVoice {
  readonly jid: string
  readonly mime: string
  readonly path?: string
  readonly files?: MessageFiles
}

const sendVoice = defineTool({
  name: 'send_voice',
  reach: 'chat',
  tiers: { granted: 2 },
  when: 'Send a text to a chat as a voice message.',
  activity: 'Sending a voice message',
  input: z.object({
    chatJid: ChatName,
    text: z
      .string()
      .trim()
      .min(1, 'must not be empty')
      .pipe(multilineText(5000))
      .describe('The text to speak; at most 5000 characters'),
    voice: line(64).optional().describe('Default: the voice of your PERSONA.md, else that of the instance'),
  }),
  authorize: requireSendAccess,
  appendsMessages: true,
  prepare: async (request, { chatJid, text, voice }): Promise<PreparedVoice> => {
    const { host, caller } = request
    const { jid, channel } = await resolveChatTarget(host, chatJid, 'send_voice')
    if (!host.speech)
      return refuse(
        'unsupported',
        `unsupported: send_voice on ${channel?.platform ?? 'this instance'}`,
        'send the text with send(chatJid, text); an operator can name a speech service with TTS_URL',
      )
    const own = host.layout && caller.kind === 'agent' ? await personaVoice(host.layout, caller.folder) : undefined
    const { path, mime } = await host.speech.synthesize(text, voice ?? own)
    const isLink = isLinkChat(jid)
    const staged = !isLink || (await hasAnswerChat(request, jid)) ? { path: await stageCopy(host, path) } : {}
    if (!isLink) return { jid, mime, ...staged }
    await using file = await openTrustedFile(path)
    return { jid, mime, ...staged, files: await storeLinkFile(request, file, { jid, name: VOICE_NAME }) }
  },
  run: async (ctx, { text }, { jid, path, mime, files }) => {
    const sent = { content: text, payload: { path, filename: VOICE_NAME, mime } }
    const voice = { jid, content: text, action: 'send_voice', isThreaded: true } as const
    const answerFile = path === undefined ? undefined : sent
    const recorded = await recordMessage(ctx, { ...voice, ...(files ? { answerFile } : sent) })
    if (files) await addLinkFiles(ctx, recorded, files)
    return recorded
  },
  finish: async ({ host }, recorded) => ({ ok: true, id: await deliverMessage(host, recorded) }),
})

/** Copies the file to the outbox, which backups include; the cache of synthesized speech is not backed up. */
async function stageCopy(host: InstanceHost, path: string): Promise<string> {
  return host.layout ? stageTrustedFile(host.layout, host, path) : path
}

export const voiceTools = [sendVoice]
