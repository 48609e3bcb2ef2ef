// The chats of links. What is recorded there is delivered: pages, polls and streams read the store.
import type { ActionName, Channel } from '../../core/channel.ts'

const HINTS: Partial<Record<ActionName, string>> = {
  send_file: 'say what is in it with send(chatJid, text)',
  send_voice: 'send the text with send(chatJid, text)',
}

export const web: Channel = {
  name: 'web',
  platform: 'web',
  isInternal: true,
  isKeyed: true,
  actions: { send: async () => ({}) },
  hint: (action) => HINTS[action] ?? 'say it in words with send(chatJid, text)',
}
