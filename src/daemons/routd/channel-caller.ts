// Authentication of the channel protocol: by an adapter's token, an adapter's own secret, the shared channel secret, or the
// bearer of a daemon.
import { createHash, timingSafeEqual } from 'node:crypto'
import type { Context } from 'hono'
import { verifyBearer } from '../../core/access/bearers.ts'
import {
  type ChannelRegistration,
  channelRegistrations,
  findByToken,
} from '../../core/delivery/channel-registrations.ts'
import { type ChannelSecret, channelSecrets, findChannelSecret } from '../../core/secrets/channel-secrets.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'

export type ChannelCaller =
  | { readonly kind: 'adapter'; readonly registration: ChannelRegistration }
  /** `secret` is undefined for the shared one. */
  | { readonly kind: 'secret'; readonly secret?: ChannelSecret | undefined }
  | { readonly kind: 'service' }

const TOKEN = /^[0-9a-f]{48}$/
const NAMED_SECRET = /^[A-Za-z0-9_-]{43}$/

/** Undefined for the shared secret and for daemons. */
export function secretNameOf(caller: ChannelCaller): string | undefined {
  if (caller.kind === 'adapter') return caller.registration.secret_name
  return caller.kind === 'secret' ? caller.secret?.name : undefined
}

/** A caller owns the adapters that were registered with the same secret. */
export function ownsRegistration(
  caller: ChannelCaller,
  registration: Pick<ChannelRegistration, 'secret_name'>,
): boolean {
  return caller.kind === 'service' || registration.secret_name === secretNameOf(caller)
}

/** Checked again in the transaction: the secret may have been removed while the body was read. */
export async function mustStillBeValid(tx: Tx, caller: ChannelCaller): Promise<void> {
  if (caller.kind === 'adapter') {
    const { name, token_hash } = caller.registration
    if (!(await channelRegistrations.find(tx, { name, token_hash }))) refuseCredential()
  } else if (caller.kind === 'secret' && caller.secret) {
    const { name, secret_hash } = caller.secret
    if (!(await channelSecrets.find(tx, { name, secret_hash }))) refuseCredential()
  }
}

export function channelAuthenticator(
  host: InstanceHost,
  secret: string | undefined,
): (c: Context) => Promise<ChannelCaller> {
  return async (c) => {
    const header = c.req.header('Authorization') ?? ''
    const credential = /^bearer /i.test(header) ? header.slice('bearer '.length).trim() : ''
    if (credential === '') refuseCredential()
    if (secret && isEqual(credential, secret)) return { kind: 'secret' }
    const named = NAMED_SECRET.test(credential)
      ? await host.engine.read((tx) => findChannelSecret(tx, credential))
      : undefined
    if (named) {
      c.set('caller', { kind: 'service', sub: `service:${named.name}` })
      return { kind: 'secret', secret: named }
    }
    const registration = TOKEN.test(credential)
      ? await host.engine.read((tx) => findByToken(tx, credential))
      : undefined
    if (registration) {
      c.set('caller', { kind: 'service', sub: `service:${registration.name}` })
      return { kind: 'adapter', registration }
    }
    const caller = await verifyBearer(host, credential).catch((error: unknown) => {
      throw error instanceof Refusal && error.code === 'unauthenticated' ? invalidCredential() : error
    })
    c.set('caller', caller)
    if (caller.kind === 'service') return { kind: 'service' }
    return refuse('forbidden', 'this path is for adapters and daemons', 'people use a chat link')
  }
}

/** Constant time; hashing hides the lengths. */
function isEqual(a: string, b: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(a), digest(b))
}

/** One message for every reason, so that callers without a valid secret learn nothing. */
function invalidCredential(): Refusal {
  return new Refusal('unauthenticated', 'the bearer is missing or not valid')
}

function refuseCredential(): never {
  throw invalidCredential()
}
