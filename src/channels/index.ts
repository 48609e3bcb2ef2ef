// Opens channels: the built-in ones that core/delivery/platforms.ts names, and those of registered adapters. Each is loaded
// when first used.
import { extname } from 'node:path'
import type { Channel, ChannelContext } from '../core/delivery/channel.ts'
import { builtInChannelOf } from '../core/delivery/platforms.ts'
import type { AddressPolicy } from './address-policy.ts'
import type { Adapter } from './registered-adapter.ts'

/** What `adapter.ts` of a built-in channel exports. */
interface ChannelModule {
  openChannel(context: ChannelContext): Channel
}

/** The built-in channel of a platform; undefined where there is none. */
export function openBuiltInChannel(platform: string, context: ChannelContext): Promise<Channel> | undefined {
  const folder = builtInChannelOf(platform)
  if (folder === undefined) return undefined
  return load(folder).then(({ openChannel }) => openChannel(context))
}

/** As source or as compiled code, like this file. */
async function load(folder: string): Promise<ChannelModule> {
  return import(new URL(`./${folder}/adapter${extname(import.meta.url)}`, import.meta.url).href)
}

export const checkHealth = async (url: string, addresses: AddressPolicy, stop: AbortSignal): Promise<boolean> =>
  (await import('./http/adapter.ts')).probeHealth(url, addresses, stop)

export const openAdapterChannel = async (adapter: Adapter): Promise<Channel> =>
  (await import('./http/adapter.ts')).httpChannel(adapter)
