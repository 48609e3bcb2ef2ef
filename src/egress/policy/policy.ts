// The policy decision: whether a source may reach a host. Looks at the name, and at the port for sources with endpoints; uses no
// sockets.
import type { CanonicalHost } from '../address/host.ts'
import { showHostPort } from '../address/host-port.ts'

/** A source as stored and shown. */
export interface RegisteredSource {
  /** In canonical spelling. */
  readonly ip: string
  readonly id: string
  /** Canonical names in the order given, without duplicates. */
  readonly allowlist: readonly string[]
}

/** An exact destination that a source may reach besides its allowlist. */
export interface AllowedEndpoint {
  /** A host name or an IP address. */
  readonly host: string
  readonly port: number
}

/** A source prepared for matching. */
export interface CompiledSource extends RegisteredSource {
  /** Each as canonical `host:port`. */
  readonly endpoints: ReadonlySet<string>
  readonly names: ReadonlySet<string>
  /** Length of the longest name, to skip longer suffixes. */
  readonly longest: number
}

export type Reason = 'allowed' | 'blocked-by-allowlist' | 'ip-literal' | 'unregistered-source'

export interface PolicyVerdict {
  readonly allow: boolean
  readonly reason: Reason
  /** The allowlist entry that allowed it, or the endpoint as `host:port`. */
  readonly rule?: string
  /** Endpoints may be dialled at private addresses. */
  readonly isEndpoint?: boolean
}

const UNREGISTERED: PolicyVerdict = { allow: false, reason: 'unregistered-source' }
const IP_LITERAL: PolicyVerdict = { allow: false, reason: 'ip-literal' }
const BLOCKED: PolicyVerdict = { allow: false, reason: 'blocked-by-allowlist' }

/** Hosts of `endpoints` must be canonical, as `parseHost` returns them. */
export function compileSource(entry: RegisteredSource, endpoints: readonly AllowedEndpoint[] = []): CompiledSource {
  const longest = entry.allowlist.reduce((most, name) => Math.max(most, name.length), 0)
  const exact = new Set(endpoints.map(({ host, port }) => showHostPort(host, port)))
  return { ...entry, endpoints: exact, names: new Set(entry.allowlist), longest }
}

/**
 * A listed name allows itself and every name below it; the longest match is reported. An endpoint allows exactly its host and
 * port. Without a `port` only the allowlist counts.
 */
export function evaluatePolicy(source: CompiledSource | undefined, host: CanonicalHost, port?: number): PolicyVerdict {
  if (!source) return UNREGISTERED
  if (port !== undefined && source.endpoints.size > 0) {
    const rule = showHostPort(host.text, port)
    if (source.endpoints.has(rule)) return { allow: true, reason: 'allowed', rule, isEndpoint: true }
  }
  if (host.kind === 'address') return IP_LITERAL
  const { names, longest } = source
  const { text } = host
  for (let start = 0; ; ) {
    if (text.length - start <= longest) {
      const name = text.slice(start)
      if (names.has(name)) return { allow: true, reason: 'allowed', rule: name }
    }
    const dot = text.indexOf('.', start)
    if (dot < 0) return BLOCKED
    start = dot + 1
  }
}

/** The verdict as a sentence. */
export function explainVerdict(verdict: PolicyVerdict, host: CanonicalHost, id?: string): string {
  const list = id === undefined ? 'the allowlist' : `the allowlist of ${id}`
  switch (verdict.reason) {
    case 'allowed':
      if (verdict.rule === host.text) return `${host.text} is allowed: it is in ${list}.`
      return `${host.text} is allowed: it is below ${verdict.rule}, which is in ${list}.`
    case 'blocked-by-allowlist':
      return `${host.text} is denied: neither it nor a name above it is in ${list}.`
    case 'ip-literal':
      return `${host.text} is denied: it is an IP address, and only host names can be allowed.`
    case 'unregistered-source':
      return `${host.text} is denied: the source is not registered, so it may reach nothing.`
  }
}
