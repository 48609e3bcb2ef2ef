// Registered adapters with their health, and messages that were not delivered. Only for the command line and the dashboard;
// adapters themselves use /v1/channels of routd.
import { z } from 'zod'
import { platformOf } from '../core/delivery/channel.ts'
import {
  AdapterHealth,
  adapterHealth,
  ChannelRegistration,
  channelQr,
  channelRegistrations,
} from '../core/delivery/channel-registrations.ts'
import { builtInChannelOf } from '../core/delivery/platforms.ts'
import {
  countUndelivered,
  listUndelivered,
  UNDELIVERED_COUNT_MAX,
  UndeliveredKind,
  UndeliveredMessage,
} from '../core/delivery/undelivered.ts'
import { channelSecrets } from '../core/secrets/channel-secrets.ts'
import type { Keyring } from '../core/secrets/keyring.ts'
import { timestamp } from '../lib/clock.ts'
import { requireOperator } from '../registry/authorization.ts'
import { Paging } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'
import type { Tx } from '../store/engine.ts'

const RegisteredAdapter = ChannelRegistration.pick({
  name: true,
  url: true,
  jid_prefixes: true,
  health_fails: true,
  registered_at: true,
  seen_at: true,
  secret_name: true,
  state: true,
  detail: true,
  since: true,
  reported_at: true,
}).extend({
  platforms: z.array(z.string()),
  capabilities: z.array(z.string()).describe('Actions that it supports'),
  health: AdapterHealth,
  checked_at: z.string().describe('When routd last checked it'),
  qr: z.string().optional().describe('Content of the QR code that signs it in: a secret'),
})

const PlatformState = z.object({
  platform: z.string(),
  delivered_by: z.enum(['built-in', 'adapter', 'nothing']).describe('nothing: no adapter of it is registered'),
  adapters: z.array(z.string()),
  waiting: z.int().describe(`Messages that wait for their next attempt, counted up to ${UNDELIVERED_COUNT_MAX}`),
  failed: z.int().describe(`Of the latest ${UNDELIVERED_COUNT_MAX} messages that were not delivered`),
})

export const channelRegistrationsResource = defineResource({
  of: channelRegistrations,
  title: 'ChannelRegistrations',
  servedBy: [],
  verbs: () => ({
    list: defineVerb({
      isReadOnly: true,
      input: z.object({}),
      output: z.object({ adapters: z.array(RegisteredAdapter), platforms: z.array(PlatformState) }),
      authorize: requireOperator,
      run: ({ tx, clock, keyring }) => readChannels(tx, keyring, clock.now()),
    }),

    undelivered: defineVerb({
      isReadOnly: true,
      input: Paging.extend({ kind: UndeliveredKind.default('failed') }),
      output: z.object({ undelivered: z.array(UndeliveredMessage), next: z.string().optional() }),
      authorize: requireOperator,
      run: async ({ tx }, request) => {
        const { rows, ...next } = await listUndelivered(tx, request)
        return { undelivered: rows, ...next }
      },
    }),
  }),
})

type ChannelStates = { adapters: z.output<typeof RegisteredAdapter>[]; platforms: z.output<typeof PlatformState>[] }

/** Also for `svc doctor`, which reads a store that no host has opened. */
export async function readChannels(tx: Tx, keyring: Keyring, now: number): Promise<ChannelStates> {
  const rows = (await channelRegistrations.list(tx)).toSorted((a, b) => (a.name < b.name ? -1 : 1))
  const adapters = rows.map((row) => describeAdapter(row, keyring, now))
  const counts = await countUndelivered(tx)
  const reserved = (await channelSecrets.list(tx)).flatMap(({ platforms }) => platforms)
  const names = new Set([...rows.flatMap(platformsOf), ...reserved, ...counts.keys()])
  const platforms = [...names].sort().map((platform) => {
    const own = adapters.filter((adapter) => adapter.platforms.includes(platform)).map(({ name }) => name)
    const { waiting = 0, failed = 0 } = counts.get(platform) ?? {}
    return { platform, delivered_by: delivererOf(platform, own), adapters: own, waiting, failed }
  })
  return { adapters, platforms }
}

/** An old QR code is not shown: its platform has replaced it. */
function describeAdapter(row: ChannelRegistration, keyring: Keyring, now: number): z.output<typeof RegisteredAdapter> {
  const { name, url, jid_prefixes, health_fails, registered_at, seen_at, secret_name } = row
  const { state, detail, since, reported_at } = row
  const health = adapterHealth(row, now)
  return {
    name,
    url,
    jid_prefixes,
    platforms: platformsOf(row),
    capabilities: Object.keys(row.capabilities).filter((action) => row.capabilities[action]),
    health,
    health_fails,
    checked_at: timestamp(row.checked_at),
    registered_at,
    seen_at,
    secret_name,
    state,
    detail,
    since,
    reported_at,
    qr: health === 'healthy' ? channelQr(keyring, row) : undefined,
  }
}

function platformsOf({ jid_prefixes }: Pick<ChannelRegistration, 'jid_prefixes'>): string[] {
  return [...new Set(jid_prefixes.map(platformOf))].sort()
}

function delivererOf(platform: string, adapters: readonly string[]): 'built-in' | 'adapter' | 'nothing' {
  if (builtInChannelOf(platform) !== undefined) return 'built-in'
  return adapters.length > 0 ? 'adapter' : 'nothing'
}
