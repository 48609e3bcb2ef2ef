// Resolves the channel of a chat: a built-in one, else the adapter that `source` names, else the one that delivered its latest
// message, else the one registered for its prefix. Caches registered adapters, so that a send does not read them.
import type { AddressPolicy } from '../../channels/address-policy.ts'
import type { BuiltInContext } from '../../channels/built-in-context.ts'
import { openAdapterChannel, openBuiltInChannel } from '../../channels/index.ts'
import { chats } from '../../core/chats/chats.ts'
import { type Channel, type ChannelContext, type ChannelResolver, platformOf } from '../../core/delivery/channel.ts'
import {
  CHANNELS_CHANGED,
  type ChannelRegistration,
  channelRegistrations,
  channelToken,
  ownedPrefix,
} from '../../core/delivery/channel-registrations.ts'
import type { Keyring } from '../../core/secrets/keyring.ts'
import type { AnswerAddresses } from './answer-addresses.ts'

/** Registrations by other processes are seen after this time. */
const CACHE_MS = 1000

export interface ChannelRegistryOptions extends ChannelContext {
  readonly keyring: Keyring
  /** Allowed adapter addresses; only private ones by default. */
  readonly adapters?: AddressPolicy | undefined
  readonly answers?: AnswerAddresses | undefined
  readonly webBase: string
  readonly stopping?: AbortSignal | undefined
}

interface RegistrySnapshot {
  readonly readMs: number
  readonly adapters: Promise<readonly ChannelRegistration[]>
  readonly channels: Map<string, Promise<Channel>>
}

export function openChannelRegistry(options: ChannelRegistryOptions): ChannelResolver {
  const { engine, signals, keyring, adapters: addresses = { isPublicAllowed: false } } = options
  const context: BuiltInContext = { ...options, answerAddresses: () => answerPolicy(options.answers) }
  const opened = new Map<string, Promise<Channel>>()
  let snapshot: RegistrySnapshot | undefined
  signals.on((keys) => {
    if (keys?.includes(CHANNELS_CHANGED)) snapshot = undefined
  })
  const refresh = (): RegistrySnapshot => {
    const fresh: RegistrySnapshot = {
      readMs: performance.now(),
      adapters: engine.read((tx) => channelRegistrations.list(tx)),
      channels: new Map(),
    }
    snapshot = fresh
    // Do not cache a failed read.
    fresh.adapters.catch(() => {
      if (snapshot === fresh) snapshot = undefined
    })
    return fresh
  }
  const readSnapshot = (): RegistrySnapshot =>
    snapshot && performance.now() - snapshot.readMs < CACHE_MS ? snapshot : refresh()
  const channelOf = (
    current: RegistrySnapshot,
    registration: ChannelRegistration,
    platform: string,
  ): Promise<Channel> => {
    const key = `${registration.name} ${platform}`
    const cached = current.channels.get(key)
    if (cached) return cached
    const { name, url, capabilities } = registration
    const channel = openAdapterChannel({
      name,
      url,
      capabilities,
      platform,
      addresses,
      token: channelToken(keyring, registration),
    })
    current.channels.set(key, channel)
    return channel
  }
  const findIn = async (
    current: RegistrySnapshot,
    jid: string,
    source: string | undefined,
  ): Promise<Channel | undefined> => {
    const adapters = await current.adapters
    // The name may now belong to an adapter of another platform, which must not get these messages.
    const named =
      source === undefined
        ? undefined
        : adapters.find((adapter) => adapter.name === source && ownedPrefix(adapter, jid))
    const registration = named ?? ownerOf(adapters, jid)
    return registration && channelOf(current, registration, platformOf(jid))
  }
  return {
    resolve: async (jid, source) => {
      const platform = platformOf(jid)
      if (platform === '') return undefined
      const open = opened.get(platform) ?? openBuiltInChannel(platform, context)
      if (open) {
        opened.set(platform, open)
        return open
      }
      const adapter = source ?? (await engine.read((tx) => chats.find(tx, { jid })))?.source
      // An unknown adapter may just have registered with another process.
      return (await findIn(readSnapshot(), jid, adapter)) ?? findIn(refresh(), jid, adapter)
    },
  }
}

/** Loaded on first use: most commands need no classes of addresses. */
async function answerPolicy(answers: AnswerAddresses | undefined): Promise<AddressPolicy> {
  return (await import('./answer-addresses.ts')).answerAddressPolicy(answers)
}

/** The longest prefix wins; of equal ones, the oldest registration. */
function ownerOf(adapters: readonly ChannelRegistration[], jid: string): ChannelRegistration | undefined {
  const lengthOf = (adapter: ChannelRegistration): number => ownedPrefix(adapter, jid).length
  return adapters
    .filter((adapter) => lengthOf(adapter) > 0)
    .toSorted((a, b) => lengthOf(b) - lengthOf(a) || (a.registered_at < b.registered_at ? -1 : 1))[0]
}
