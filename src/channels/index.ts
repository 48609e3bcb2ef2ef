// The list of channels that are built in, by the platform of the chats that they have; and how the adapters that have
// registered are spoken to.
import type { Channel, ChannelGround } from '../core/channel.ts'
import type { Adapter } from './adapter-address.ts'
import type { AddressRule } from './adapter-lookup.ts'

export const channels: Readonly<Record<string, (ground: ChannelGround) => Promise<Channel>>> = {
  web: async () => (await import('./web/adapter.ts')).web,
  hook: async () => (await import('./web/adapter.ts')).web,
  sandbox: async (ground) => (await import('./sandbox/adapter.ts')).sandbox(ground),
}

export const checkHealth = async (url: string, addresses: AddressRule, stop: AbortSignal): Promise<boolean> =>
  (await import('./http/adapter.ts')).checkHealth(url, addresses, stop)

export const registered = async (adapter: Adapter): Promise<Channel> =>
  (await import('./http/adapter.ts')).httpChannel(adapter)
