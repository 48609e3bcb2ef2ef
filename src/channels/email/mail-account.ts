// The servers of an account, and what is wrong if they do not accept it, as a sentence without secrets.
import { type AccountAccess, PlatformError } from '../process/port.ts'

/** Without quotes and other rarities. */
export const ADDRESS = /^[^\s@<>"(),:;\\[\]]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,253})$/

/** The server does not accept the account, whatever is sent. */
export class AccountFault extends PlatformError {}

export interface MailServerAddress {
  readonly host: string
  readonly port: number
  /** TLS from the first byte, STARTTLS before the login, or none at a loopback address. */
  readonly tls: 'implicit' | 'starttls' | 'none'
}

const IMPLICIT_PORTS = [993, 465]

export function addressOfServer(hostPort = '', tls = 'on'): MailServerAddress {
  const colon = hostPort.lastIndexOf(':')
  const host = hostPort.slice(0, colon).replace(/^\[|\]$/g, '')
  const port = Number(hostPort.slice(colon + 1))
  const kind = IMPLICIT_PORTS.includes(port) ? 'implicit' : 'starttls'
  return { host, port, tls: tls === 'off' ? 'none' : kind }
}

/** In lower case. */
export function ownAddress({ settings }: Pick<AccountAccess, 'settings'>): string {
  return (settings.address ?? '').toLowerCase()
}

export function domainOf(address: string): string {
  return address.slice(address.lastIndexOf('@') + 1).toLowerCase()
}

export type ServerKind = 'IMAP' | 'SMTP'

/** Why a server is of no use until an operator changes something; undefined if another attempt may succeed. */
export function permanentFault(kind: ServerKind, error: unknown): string | undefined {
  const { code, message, isLogin } = membersOf(error)
  if (isLogin) return `the ${kind} server does not accept the user name and the password`
  if (/STARTTLS/.test(message) && !/unexpectedly|timeout/i.test(message))
    return `the ${kind} server does not offer STARTTLS at this port: use the one with TLS (IMAP 993, SMTP 465)`
  if (/wrong version number|packet length too long|EPROTO/i.test(`${code} ${message}`))
    return `the ${kind} server does not speak TLS at this port`
  if (/CERT|SELF_SIGNED|UNABLE_TO/.test(code) || /certificate|altnames/i.test(message))
    return `the certificate of the ${kind} server is not accepted (${code === '' || code === 'ESOCKET' ? message.slice(0, 200) : code})`
  return undefined
}

export function unreachable(kind: ServerKind, error: unknown): string {
  return `the ${kind} server cannot be reached (${membersOf(error).code || 'the connection broke'})`
}

export function accountFault(kind: ServerKind, error: unknown): PlatformError {
  if (error instanceof PlatformError) return error
  const fault = permanentFault(kind, error)
  return fault === undefined
    ? new PlatformError('unavailable', unreachable(kind, error))
    : new AccountFault('refused', fault)
}

/** Both packages add members to errors. */
function membersOf(error: unknown) {
  const { code, message, authenticationFailed, serverResponseCode, responseCode } = (error ?? {}) as Record<
    string,
    unknown
  >
  // Servers that cannot look passwords up now say so (RFC 5530).
  const isBusy = /^(?:UNAVAILABLE|INUSE|LIMIT)$/.test(String(serverResponseCode))
  const isLogin = (authenticationFailed === true && !isBusy) || (code === 'EAUTH' && Number(responseCode) >= 500)
  return { code: typeof code === 'string' ? code : '', message: String(message ?? ''), isLogin }
}
