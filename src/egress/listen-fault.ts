// Why a listener could not be opened, as an operator is told it.
import { diskCode } from '../lib/atomic-file.ts'
import { Refusal } from '../lib/refusal.ts'
import type { Listen } from '../lib/settings.ts'

export type ListenerName = 'forward' | 'transparent' | 'admin'

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'something listens there already',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EADDRNOTAVAIL: 'this machine does not have the address',
  EAFNOSUPPORT: 'this machine does not have the address',
  ENOTFOUND: 'there is no such host',
  EAI_AGAIN: 'the host cannot be looked up now',
}

const SETTINGS: Readonly<Record<ListenerName, string>> = {
  forward: '--listen, or EGRESS_PROXY_ADDR,',
  transparent: '--transparent, or EGRESS_TRANSPARENT_ADDR,',
  admin: '--admin, or EGRESS_ADMIN_ADDR,',
}

/** A refusal where the reason is the machine's, else the error as it is. */
export function listenFault(name: ListenerName, { host, port }: Listen, error: unknown): unknown {
  const reason = REASONS[diskCode(error) ?? '']
  if (reason === undefined) return error
  const address = `${host.includes(':') ? `[${host}]` : host}:${port}`
  const hint = `${SETTINGS[name]} says where it listens instead; '' is nowhere`
  return new Refusal('unavailable', `the ${name} listener cannot listen on ${address}: ${reason}`, hint)
}
