// The channel of link chats. A saved message counts as delivered, because pages, polls and streams read the store.
import type { Channel } from '../../core/delivery/channel.ts'
import { hintFor } from '../../core/delivery/platforms.ts'

export function openChannel(): Channel {
  return {
    name: 'web',
    platform: 'web',
    isInternal: true,
    isIdempotent: true,
    actions: { send: async () => ({}), send_file: async () => ({}), send_voice: async () => ({}) },
    hint: (action) => hintFor('web', action),
  }
}
