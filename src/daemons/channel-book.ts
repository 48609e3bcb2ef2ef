// Which channel has a chat: the one that is named, else who delivered its latest message, else who owns its prefix. The
// adapters are kept in memory, so that a send asks the store for nothing it knows.
import type { AddressRule } from '../channels/adapter-lookup.ts'
import { channels as builtIn, registered } from '../channels/index.ts'
import { type Channel, type ChannelGround, type Channels, platformOf } from '../core/channel.ts'
import {
  CHANNELS_CHANGED,
  type ChannelRegistration,
  channelRegistrations,
  channelToken,
  ownedPrefix,
} from '../core/channel-registrations.ts'
import { chats } from '../core/chat-state.ts'
import type { Keyring } from '../core/seal.ts'

/** What other processes have changed is known here after so long. */
const KEPT_MS = 1000

export interface ChannelBookOptions extends ChannelGround {
  readonly keyring: Keyring
  /** Where adapters may be; on private addresses unless said. */
  readonly adapters?: AddressRule | undefined
}

interface Page {
  readonly readMs: number
  readonly adapters: Promise<readonly ChannelRegistration[]>
  readonly channels: Map<string, Promise<Channel>>
}

export function openChannels(options: ChannelBookOptions): Channels {
  const { engine, signals, keyring, adapters: addresses = { isPublicAllowed: false } } = options
  const own = new Map<string, Promise<Channel>>()
  let page: Page | undefined
  signals.on((keys) => {
    if (keys.includes(CHANNELS_CHANGED)) page = undefined
  })
  const look = (): Page => {
    const fresh: Page = {
      readMs: performance.now(),
      adapters: engine.read((tx) => channelRegistrations.list(tx)),
      channels: new Map(),
    }
    page = fresh
    // A store that does not answer is asked again by the next one.
    fresh.adapters.catch(() => {
      if (page === fresh) page = undefined
    })
    return fresh
  }
  const current = (): Page => (page && performance.now() - page.readMs < KEPT_MS ? page : look())
  const channelOf = (on: Page, registration: ChannelRegistration, platform: string): Promise<Channel> => {
    const key = `${registration.name} ${platform}`
    const known = on.channels.get(key)
    if (known) return known
    const { name, url, capabilities } = registration
    const made = registered({
      name,
      url,
      capabilities,
      platform,
      addresses,
      token: channelToken(keyring, registration),
    })
    on.channels.set(key, made)
    return made
  }
  const findIn = async (on: Page, jid: string, source: string | undefined): Promise<Channel | undefined> => {
    const adapters = await on.adapters
    // A name may have passed to an adapter of other platforms, which must not get these messages.
    const named =
      source === undefined ? undefined : adapters.find((one) => one.name === source && ownedPrefix(one, jid))
    const found = named ?? ownerOf(adapters, jid)
    return found && channelOf(on, found, platformOf(jid))
  }
  return {
    of: async (jid, source) => {
      const platform = platformOf(jid)
      if (platform === '') return undefined
      if (Object.hasOwn(builtIn, platform)) {
        const open = own.get(platform) ?? builtIn[platform]?.(options)
        if (open) own.set(platform, open)
        return open
      }
      const by = source ?? (await engine.read((tx) => chats.find(tx, { jid })))?.source
      // One that is not known may have registered elsewhere a moment ago.
      return (await findIn(current(), jid, by)) ?? findIn(look(), jid, by)
    },
  }
}

/** The longest prefix decides; of equal ones, who was there first. */
function ownerOf(adapters: readonly ChannelRegistration[], jid: string): ChannelRegistration | undefined {
  const lengthOf = (one: ChannelRegistration): number => ownedPrefix(one, jid).length
  return adapters
    .filter((one) => lengthOf(one) > 0)
    .toSorted((a, b) => lengthOf(b) - lengthOf(a) || (a.registered_at < b.registered_at ? -1 : 1))[0]
}
