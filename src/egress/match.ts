// The one decision: may this source reach this host. It looks at the name, and at the port where a source has endpoints, and
// touches no socket.
import type { Host } from './host.ts'
import { showHostPort } from './host-port.ts'

/** Who may reach what, as it is stored and shown. */
export interface Entry {
  /** In its one spelling. */
  readonly ip: string
  readonly id: string
  /** Canonical names in the order given, without repeats. */
  readonly allowlist: readonly string[]
}

/** One exact destination that a source may reach besides its allowlist. */
export interface AllowedEndpoint {
  /** A host name or an IP address. */
  readonly host: string
  readonly port: number
}

/** An entry made ready to be asked. */
export interface Source extends Entry {
  /** Each as `host:port` in its canonical spelling. */
  readonly endpoints: ReadonlySet<string>
  readonly names: ReadonlySet<string>
  /** The length of the longest name: a longer one need not be looked for. */
  readonly longest: number
}

export type Reason = 'allowed' | 'blocked-by-allowlist' | 'ip-literal' | 'unregistered-source'

export interface Verdict {
  readonly allow: boolean
  readonly reason: Reason
  /** The entry of the allowlist that allowed it, or the endpoint as `host:port`. */
  readonly rule?: string
  /** An endpoint is dialled even where its address is private. */
  readonly isEndpoint?: boolean
}

const UNREGISTERED: Verdict = { allow: false, reason: 'unregistered-source' }
const IP_LITERAL: Verdict = { allow: false, reason: 'ip-literal' }
const BLOCKED: Verdict = { allow: false, reason: 'blocked-by-allowlist' }

/** Hosts of `endpoints` must be canonical, as `parseHost` spells them. */
export function compileSource(entry: Entry, endpoints: readonly AllowedEndpoint[] = []): Source {
  const longest = entry.allowlist.reduce((most, name) => Math.max(most, name.length), 0)
  const exact = new Set(endpoints.map(({ host, port }) => showHostPort(host, port)))
  return { ...entry, endpoints: exact, names: new Set(entry.allowlist), longest }
}

/**
 * A listed name allows itself and every name below it. Of several that would allow, the longest is the rule. An endpoint
 * allows exactly its own host and port; without a `port` only the allowlist counts.
 */
export function decide(source: Source | undefined, host: Host, port?: number): Verdict {
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

/** The verdict in a sentence, for a person. */
export function explain(verdict: Verdict, host: Host, id?: string): string {
  const whose = id === undefined ? 'the allowlist' : `the allowlist of ${id}`
  switch (verdict.reason) {
    case 'allowed':
      if (verdict.rule === host.text) return `${host.text} is allowed: it is in ${whose}.`
      return `${host.text} is allowed: it is below ${verdict.rule}, which is in ${whose}.`
    case 'blocked-by-allowlist':
      return `${host.text} is denied: neither it nor a name above it is in ${whose}.`
    case 'ip-literal':
      return `${host.text} is denied: it is an IP address, and only host names can be allowed.`
    case 'unregistered-source':
      return `${host.text} is denied: the source is not registered, so it may reach nothing.`
  }
}
