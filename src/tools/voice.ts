// Saying something aloud.
import { z } from 'zod'
import { ChatName, line, prose } from '../core/values.ts'
import { personaVoice } from '../core/workspace.ts'
import { refuse } from '../lib/refusal.ts'
import { placeFor } from '../registry/acting.ts'
import { say, sayOut, speaksIn } from '../registry/saying.ts'
import { hotTool } from '../registry/tool.ts'

const sendVoice = hotTool({
  name: 'send_voice',
  reach: 'chat',
  when: 'Say a text aloud in a chat, as a voice message.',
  input: z.object({
    chatJid: ChatName,
    text: z
      .string()
      .trim()
      .min(1, 'must not be empty')
      .pipe(prose(5000))
      .describe('What is said; at most 5000 characters'),
    voice: line(64).optional().describe('Who speaks; the voice of your PERSONA.md or of the instance unless said'),
  }),
  needs: speaksIn(({ chatJid }: { chatJid: string }) => chatJid),
  says: true,
  prepare: async ({ host, caller }, { chatJid, text, voice }) => {
    const { jid, channel } = await placeFor(host, chatJid, 'send_voice')
    if (!host.speech)
      return refuse(
        'unsupported',
        `unsupported: send_voice on ${channel?.platform ?? 'this instance'}`,
        'send the text with send(chatJid, text); an operator can name a speech service with TTS_URL',
      )
    const own = host.layout && caller.kind === 'agent' ? await personaVoice(host.layout, caller.folder) : undefined
    return { jid, spoken: await host.speech.say(text, voice ?? own) }
  },
  run: (ctx, { text }, { jid, spoken: { path, mime } }) =>
    say(ctx, {
      jid,
      content: text,
      action: 'send_voice',
      isThreaded: true,
      payload: { path, filename: 'voice.ogg', mime },
    }),
  finish: async ({ host }, recorded) => ({ ok: true, id: await sayOut(host, recorded) }),
})

export const voiceTools = [sendVoice]
