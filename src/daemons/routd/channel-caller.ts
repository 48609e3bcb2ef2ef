// Who speaks the protocol of the channels: an adapter by the token that it was given, whoever has the channel secret, or a
// daemon by its bearer.
import { createHash, timingSafeEqual } from 'node:crypto'
import type { Context } from 'hono'
import { verifyBearer } from '../../core/bearers.ts'
import { type ChannelRegistration, findByToken } from '../../core/channel-registrations.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { Host } from '../../registry/context.ts'

export type ChannelCaller =
  | { readonly kind: 'adapter'; readonly registration: ChannelRegistration }
  | { readonly kind: 'secret' | 'service' }

const TOKEN = /^[0-9a-f]{48}$/

export function channelCallers(host: Host, secret: string | undefined): (c: Context) => Promise<ChannelCaller> {
  return async (c) => {
    const header = c.req.header('Authorization') ?? ''
    const given = /^bearer /i.test(header) ? header.slice('bearer '.length).trim() : ''
    if (given === '') refuseStranger()
    if (secret && isSame(given, secret)) return { kind: 'secret' }
    const registration = TOKEN.test(given) ? await host.engine.read((tx) => findByToken(tx, given)) : undefined
    if (registration) {
      // For the log.
      c.set('caller', { kind: 'service', sub: `service:${registration.name}` })
      return { kind: 'adapter', registration }
    }
    const caller = await verifyBearer(host, given).catch((error: unknown) => {
      throw error instanceof Refusal && error.code === 'unauthenticated' ? stranger() : error
    })
    c.set('caller', caller)
    if (caller.kind === 'service') return { kind: 'service' }
    return refuse('forbidden', 'this is for adapters and daemons', 'people use a chat link')
  }
}

/** Lengths tell nothing either. */
function isSame(a: string, b: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(a), digest(b))
}

function stranger(): Refusal {
  return new Refusal(
    'unauthenticated',
    'the channel secret, or the token of an adapter, is needed',
    'send the header Authorization: Bearer <CHANNEL_SECRET>; an adapter whose token is refused registers again',
  )
}

function refuseStranger(): never {
  throw stranger()
}
