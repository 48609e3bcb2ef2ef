// Opens the built-in channels that core/delivery/platforms.ts lists, those of registered adapters, and the connectors of platforms
// that core/delivery/platform-accounts.ts lists. Each module is loaded on first use.
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Channel } from '../core/delivery/channel.ts'
import type { HealthCheck } from '../core/delivery/channel-registrations.ts'
import { builtInChannelOf } from '../core/delivery/platforms.ts'
import type { BuiltInContext } from './built-in-context.ts'
import type { ProbeOptions } from './http/health-check.ts'
import type { WebhookAdapter, WebhookAnswer, WebhookEnvelope } from './http/webhook-delivery.ts'
import type { Adapter } from './registered-adapter.ts'

/** The exports of `adapter.ts` of a built-in channel. */
interface ChannelModule {
  openChannel(context: BuiltInContext): Channel
}

/** Opens the built-in channel of a platform; undefined if it has none. */
export function openBuiltInChannel(platform: string, context: BuiltInContext): Promise<Channel> | undefined {
  const folder = builtInChannelOf(platform)
  if (folder === undefined) return undefined
  return load(folder).then(({ openChannel }) => openChannel(context))
}

/** Loads source or compiled code, whichever this file is. */
async function load(folder: string): Promise<ChannelModule> {
  return import(new URL(`./${folder}/adapter${extname(import.meta.url)}`, import.meta.url).href)
}

export const checkHealth = async (options: ProbeOptions): Promise<HealthCheck> =>
  (await import('./http/adapter.ts')).probeHealth(options)

export const openAdapterChannel = async (adapter: Adapter): Promise<Channel> =>
  (await import('./http/adapter.ts')).openHttpChannel(adapter)

export const deliverWebhook = async (
  adapter: WebhookAdapter,
  envelope: WebhookEnvelope,
): Promise<WebhookAnswer | undefined> =>
  (await import('./http/webhook-delivery.ts')).deliverPlatformWebhook(adapter, envelope)

/** The program of adapters that svc starts: source or compiled code, whichever this file is. */
export const ADAPTER_ENTRY = fileURLToPath(new URL(`./process/main${extname(import.meta.url)}`, import.meta.url))
