// The protocol of channel adapters: registration and inbound messages. It is not a resource, so it is not part of the OpenAPI
// document and proxyd does not forward to it.
import { z } from 'zod'
import {
  CHANNELS_CHANGED,
  ChannelCapabilities,
  channelRegistrations,
  deregisterChannel,
  JidPrefix,
  registerChannel,
} from '../../core/delivery/channel-registrations.ts'
import { wakeRowsOfAdapter } from '../../core/delivery/outbox.ts'
import { AdapterName } from '../../core/secrets/channel-secrets.ts'
import { BODY_MAX, readJsonObject } from '../../lib/http/http.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Settings } from '../../lib/settings.ts'
import type { DaemonContext } from '../daemon.ts'
import type { CHANNEL_SETTINGS } from '../settings.ts'
import { AdapterHealthChecks, type HealthCheckOptions } from './adapter-health.ts'
import { adapterUrl } from './adapter-url.ts'
import {
  type ChannelCaller,
  channelAuthenticator,
  mustStillBeValid,
  ownsRegistration,
  secretNameOf,
} from './channel-caller.ts'
import { acceptInbound, parseChannelBody, readInbound } from './inbound.ts'
import { mountPlatformWebhooks } from './platform-webhooks.ts'

const Registration = z.strictObject({
  name: AdapterName,
  url: z.string().max(2048),
  jid_prefixes: z.array(JidPrefix).min(1).max(100),
  capabilities: ChannelCapabilities.default({}),
})

const Deregistration = z.strictObject({ name: AdapterName.optional() })

/** Messages may contain attachments in base64. */
const INBOUND_MAX = 32 * BODY_MAX

export function mountChannelRoutes(
  { host, app, log, defer }: Pick<DaemonContext, 'host' | 'app' | 'log' | 'defer'>,
  settings: Pick<Settings<typeof CHANNEL_SETTINGS>, 'CHANNEL_SECRET' | 'CHANNEL_REGISTER_ALLOW_PUBLIC'>,
  options: Pick<HealthCheckOptions, 'takeoverTimeoutMs'> = {},
): AdapterHealthChecks {
  const { engine, signals } = host
  const authenticate = channelAuthenticator(host, settings.CHANNEL_SECRET)
  const addresses = { isPublicAllowed: settings.CHANNEL_REGISTER_ALLOW_PUBLIC }
  const checks = new AdapterHealthChecks(host, log, { addresses, ...options })
  defer(() => checks.close())

  mountPlatformWebhooks({ host, app }, addresses)

  app.post('/v1/channels/register', async (c) => {
    const caller = await authenticate(c)
    const requested = parseChannelBody(Registration, await readJsonObject(c.req.raw))
    if (caller.kind === 'adapter' && caller.registration.name !== requested.name)
      refuse('forbidden', `this is the token of ${caller.registration.name}`, 'register with the channel secret')
    const url = await adapterUrl(requested.url, settings.CHANNEL_REGISTER_ALLOW_PUBLIC)
    const secret_name = secretNameOf(caller)
    const registration = { ...requested, url, secret_name }
    const silent = await checks.findSilent(registration)
    const token = await engine.transaction(async (tx) => {
      await mustStillBeValid(tx, caller)
      const token = await registerChannel(tx, host, registration, silent)
      await wakeRowsOfAdapter(tx, registration, host.clock.now())
      return token
    })
    signals.emit([CHANNELS_CHANGED])
    const message = silent ? 'registered in place of an address that does not answer' : 'registered'
    log.info({ adapter: requested.name, prefixes: requested.jid_prefixes }, message)
    return c.json({ ok: true, token })
  })

  app.post('/v1/channels/deregister', async (c) => {
    const caller = await authenticate(c)
    const name = adapterNameOf(caller, parseChannelBody(Deregistration, await readJsonObject(c.req.raw)).name)
    await engine.transaction(async (tx) => {
      await mustStillBeValid(tx, caller)
      const row = await channelRegistrations.find(tx, { name })
      if (row && !ownsRegistration(caller, row))
        refuse('forbidden', `the adapter ${name} is registered with another secret`)
      if (!row || !(await deregisterChannel(tx, name))) refuse('not_found', `no adapter ${name} is registered`)
    })
    signals.emit([CHANNELS_CHANGED])
    log.info({ adapter: name }, 'deregistered')
    return c.json({ ok: true })
  })

  app.get('/v1/channels', async (c) => {
    const caller = await authenticate(c)
    const rows = await engine.read((tx) => channelRegistrations.list(tx))
    const channels = rows
      .filter((row) => ownsRegistration(caller, row))
      .map(({ name, url, jid_prefixes, capabilities, health_fails, registered_at, seen_at }) => ({
        name,
        url,
        jid_prefixes,
        capabilities,
        health_fails,
        registered_at,
        seen_at,
      }))
    return c.json({ ok: true, channels })
  })

  app.post('/v1/messages', async (c) => {
    const caller = await authenticate(c)
    const body = readInbound(await readJsonObject(c.req.raw, INBOUND_MAX))
    return c.json(await acceptInbound(host, caller, body, c.req.header('X-Idempotency-Key')))
  })

  return checks
}

/** An adapter may name only itself; callers with a secret must name one. */
function adapterNameOf(caller: ChannelCaller, name: string | undefined): string {
  if (caller.kind !== 'adapter') return name ?? refuse('invalid', 'name is required (missing_field)')
  const own = caller.registration.name
  return name === undefined || name === own ? own : refuse('forbidden', `this is the token of ${own}`)
}
