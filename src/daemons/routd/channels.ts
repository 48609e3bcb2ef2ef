// The protocol between the instance and the adapters of platforms: who is registered, and what came in. Machinery, and no
// resource: it is not in the description of the API, and the front door does not lead here.
import { z } from 'zod'
import {
  Capabilities,
  CHANNELS_CHANGED,
  channelRegistrations,
  deregisterChannel,
  JidPrefix,
  registerChannel,
} from '../../core/channel-registrations.ts'
import { AdapterName } from '../../core/channel-secrets.ts'
import { wakeWaiting } from '../../core/outbox.ts'
import { BODY_MAX, readMembers } from '../../lib/http.ts'
import { sentences } from '../../lib/parse.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Settings } from '../../lib/settings.ts'
import type { Frame } from '../daemon.ts'
import type { CHANNEL_SETTINGS } from '../settings.ts'
import { adapterUrl } from './adapter-url.ts'
import { type ChannelCaller, channelCallers, isOwn, mustStillHold, secretNameOf } from './channel-caller.ts'
import { HealthChecks } from './health.ts'
import { acceptInbound, readInbound } from './inbound.ts'

const Registration = z.strictObject({
  name: AdapterName,
  url: z.string().max(2048),
  jid_prefixes: z.array(JidPrefix).min(1).max(100),
  capabilities: Capabilities.default({}),
})

const Deregistration = z.strictObject({ name: AdapterName.optional() })

/** Attachments may come with the message, in base64. */
const INBOUND_MAX = 32 * BODY_MAX

export function mountChannels(
  { host, app, log, defer }: Pick<Frame, 'host' | 'app' | 'log' | 'defer'>,
  settings: Settings<typeof CHANNEL_SETTINGS>,
): HealthChecks {
  const { engine, signals } = host
  const callerOf = channelCallers(host, settings.CHANNEL_SECRET)

  app.post('/v1/channels/register', async (c) => {
    const caller = await callerOf(c)
    const wanted = told(Registration, await readMembers(c.req.raw))
    if (caller.kind === 'adapter' && caller.registration.name !== wanted.name)
      refuse('forbidden', `this is the token of ${caller.registration.name}`, 'register with the channel secret')
    const url = await adapterUrl(wanted.url, settings.CHANNEL_REGISTER_ALLOW_PUBLIC)
    const secret_name = secretNameOf(caller)
    const token = await engine.transaction(async (tx) => {
      await mustStillHold(tx, caller)
      const given = await registerChannel(tx, host, { ...wanted, url, secret_name })
      await wakeWaiting(tx, wanted.jid_prefixes, host.clock.now())
      return given
    })
    signals.emit([CHANNELS_CHANGED])
    log.info({ adapter: wanted.name, prefixes: wanted.jid_prefixes }, 'registered')
    return c.json({ ok: true, token })
  })

  app.post('/v1/channels/deregister', async (c) => {
    const caller = await callerOf(c)
    const name = whom(caller, told(Deregistration, await readMembers(c.req.raw)).name)
    await engine.transaction(async (tx) => {
      await mustStillHold(tx, caller)
      const row = await channelRegistrations.find(tx, { name })
      if (row && !isOwn(caller, row)) refuse('forbidden', `the adapter ${name} is registered with another secret`)
      if (!row || !(await deregisterChannel(tx, name))) refuse('not_found', `no adapter ${name} is registered`)
    })
    signals.emit([CHANNELS_CHANGED])
    log.info({ adapter: name }, 'deregistered')
    return c.json({ ok: true })
  })

  app.get('/v1/channels', async (c) => {
    const caller = await callerOf(c)
    const rows = await engine.read((tx) => channelRegistrations.list(tx))
    const channels = rows
      .filter((row) => isOwn(caller, row))
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
    const caller = await callerOf(c)
    const body = readInbound(await readMembers(c.req.raw, INBOUND_MAX))
    return c.json(await acceptInbound(host, caller, body, c.req.header('X-Idempotency-Key')))
  })

  const checks = new HealthChecks(host, log, { isPublicAllowed: settings.CHANNEL_REGISTER_ALLOW_PUBLIC })
  defer(() => checks.close())
  return checks
}

/** An adapter only itself; whoever has the secret says whom. */
function whom(caller: ChannelCaller, name: string | undefined): string {
  if (caller.kind !== 'adapter') return name ?? refuse('invalid', 'name is required (missing_field)')
  const own = caller.registration.name
  return name === undefined || name === own ? own : refuse('forbidden', `this is the token of ${own}`)
}

function told<S extends z.ZodType>(schema: S, raw: unknown): z.output<S> {
  const read = schema.safeParse(raw, { reportInput: true })
  if (read.success) return read.data
  const isMissing = read.error.issues.some(({ code, input }) => code === 'invalid_type' && input === undefined)
  return refuse('invalid', `${sentences(read.error.issues)} (${isMissing ? 'missing_field' : 'bad_request'})`)
}
