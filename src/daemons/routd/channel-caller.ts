// Callers of the channel protocol: an adapter by the token that it got when it registered, the holder of an adapter's own
// secret or of the shared channel secret, or a daemon by its bearer.
import { createHash, timingSafeEqual } from 'node:crypto'
import type { Context } from 'hono'
import { verifyBearer } from '../../core/bearers.ts'
import { type ChannelRegistration, channelRegistrations, findByToken } from '../../core/channel-registrations.ts'
import { type ChannelSecret, channelSecrets, findBySecret } from '../../core/channel-secrets.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { Host } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'

export type ChannelCaller =
  | { readonly kind: 'adapter'; readonly registration: ChannelRegistration }
  /** `secret` is absent for the shared one. */
  | { readonly kind: 'secret'; readonly secret?: ChannelSecret | undefined }
  | { readonly kind: 'service' }

const TOKEN = /^[0-9a-f]{48}$/
const NAMED_SECRET = /^[A-Za-z0-9_-]{43}$/

/** The name of the secret that a caller has; absent for the shared one and for daemons. */
export function secretNameOf(caller: ChannelCaller): string | undefined {
  if (caller.kind === 'adapter') return caller.registration.secret_name
  return caller.kind === 'secret' ? caller.secret?.name : undefined
}

/** Adapters of another secret are not the caller's. */
export function isOwn(caller: ChannelCaller, registration: Pick<ChannelRegistration, 'secret_name'>): boolean {
  return caller.kind === 'service' || registration.secret_name === secretNameOf(caller)
}

/** Asked once more with the change: a body or a lookup may take long, and the secret may have been removed meanwhile. */
export async function mustStillHold(tx: Tx, caller: ChannelCaller): Promise<void> {
  if (caller.kind === 'adapter') {
    const { name, token_hash } = caller.registration
    if (!(await channelRegistrations.find(tx, { name, token_hash }))) refuseStranger()
  } else if (caller.kind === 'secret' && caller.secret) {
    const { name, secret_hash } = caller.secret
    if (!(await channelSecrets.find(tx, { name, secret_hash }))) refuseStranger()
  }
}

export function channelCallers(host: Host, secret: string | undefined): (c: Context) => Promise<ChannelCaller> {
  return async (c) => {
    const header = c.req.header('Authorization') ?? ''
    const given = /^bearer /i.test(header) ? header.slice('bearer '.length).trim() : ''
    if (given === '') refuseStranger()
    if (secret && isSame(given, secret)) return { kind: 'secret' }
    const named = NAMED_SECRET.test(given) ? await host.engine.read((tx) => findBySecret(tx, given)) : undefined
    if (named) {
      c.set('caller', { kind: 'service', sub: `service:${named.name}` })
      return { kind: 'secret', secret: named }
    }
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

/** The same for every reason: a caller without a valid secret learns nothing. */
function stranger(): Refusal {
  return new Refusal('unauthenticated', 'the bearer is missing or not valid')
}

function refuseStranger(): never {
  throw stranger()
}
