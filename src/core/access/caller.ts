// The caller of a verb or tool. The transport sets it; it is never read from arguments.
import type { Claims } from './rules.ts'
import { tierOf, worldOf } from './tiers.ts'

export type Face = 'rest' | 'tool' | 'cli' | 'dash'

export type Caller =
  /** The command line on the host: anyone who can write the data directory. */
  | { readonly kind: 'host'; readonly sub: string }
  /** An agent on its folder's socket. */
  | { readonly kind: 'agent'; readonly folder: string }
  /** A person with a bearer, which may name a folder, or with the session of a browser. */
  | { readonly kind: 'person'; readonly sub: string; readonly folder?: string; readonly session?: string }
  /** Another daemon. */
  | { readonly kind: 'service'; readonly sub: string }

export function principalOf(caller: Caller): string {
  return caller.kind === 'agent' ? `folder:${caller.folder}` : caller.sub
}

/** Matched against the predicate of acl rows. */
export function claimsOf(caller: Caller): Claims {
  if (caller.kind === 'agent') {
    return { kind: 'agent', folder: caller.folder, tier: String(tierOf(caller.folder)), world: worldOf(caller.folder) }
  }
  const provider = caller.sub.slice(0, Math.max(caller.sub.indexOf(':'), 0))
  const folder = caller.kind === 'person' && caller.folder !== undefined ? { folder: caller.folder } : {}
  return { kind: caller.kind, sub: caller.sub, provider, ...folder }
}

/** The value of `created_by` and similar columns. */
export function creatorOf(caller: Caller): string {
  return caller.kind === 'host' ? 'cli' : principalOf(caller)
}
