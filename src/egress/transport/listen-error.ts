// Turns the system error of a failed listen into a message for the operator.
import { errnoCode } from '../../lib/files/atomic-file.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { ListenEndpoint } from '../../lib/settings.ts'

export type ListenerName = 'forward' | 'transparent' | 'admin'

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  EADDRNOTAVAIL: 'this machine does not have the address',
  EAFNOSUPPORT: 'this machine does not have the address',
  ENOTFOUND: 'unknown host',
  EAI_AGAIN: 'host lookup failed; try again',
}

const SETTINGS: Readonly<Record<ListenerName, string>> = {
  forward: '--listen or EGRESS_PROXY_ADDR',
  transparent: '--transparent or EGRESS_TRANSPARENT_ADDR',
  admin: '--admin or EGRESS_ADMIN_ADDR',
}

/** Returns a refusal for errors that the operator can fix, else the error itself. */
export function listenError(name: ListenerName, { host, port }: ListenEndpoint, error: unknown): unknown {
  const reason = REASONS[errnoCode(error) ?? '']
  if (reason === undefined) return error
  const address = `${host.includes(':') ? `[${host}]` : host}:${port}`
  const hint = `set ${SETTINGS[name]} to another address, or to '' to turn this listener off`
  return new Refusal('unavailable', `the ${name} listener cannot listen on ${address}: ${reason}`, hint)
}
