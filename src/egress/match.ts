// The one decision: may this source reach this host. It looks at the name alone and touches no socket.
import type { Host } from './host.ts'

/** Who may reach what, as it is stored and shown. */
export interface Entry {
  /** In its one spelling. */
  readonly ip: string
  readonly id: string
  /** Canonical names in the order given, without repeats. */
  readonly allowlist: readonly string[]
}

/** An entry made ready to be asked. */
export interface Source extends Entry {
  readonly names: ReadonlySet<string>
  /** The length of the longest name: a longer one need not be looked for. */
  readonly longest: number
}

export type Reason = 'allowed' | 'blocked-by-allowlist' | 'ip-literal' | 'unregistered-source'

export interface Verdict {
  readonly allow: boolean
  readonly reason: Reason
  /** The entry of the allowlist that allowed it. */
  readonly rule?: string
}

const UNREGISTERED: Verdict = { allow: false, reason: 'unregistered-source' }
const IP_LITERAL: Verdict = { allow: false, reason: 'ip-literal' }
const BLOCKED: Verdict = { allow: false, reason: 'blocked-by-allowlist' }

export function compileSource(entry: Entry): Source {
  const longest = entry.allowlist.reduce((most, name) => Math.max(most, name.length), 0)
  return { ...entry, names: new Set(entry.allowlist), longest }
}

/** A listed name allows itself and every name below it. Of several that would allow, the longest is the rule. */
export function decide(source: Source | undefined, host: Host): Verdict {
  if (!source) return UNREGISTERED
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
