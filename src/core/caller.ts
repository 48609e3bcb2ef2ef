// Who asks. Made by the transport, never read from the arguments.
import type { Claims } from './access.ts'
import { tierOf, worldOf } from './tiers.ts'

export type Face = 'rest' | 'tool' | 'cli' | 'dash'

export type Caller =
  /** Whoever can write the data directory: the command line on the host. */
  | { readonly kind: 'host'; readonly sub: string }
  /** An agent on its folder's socket. */
  | { readonly kind: 'agent'; readonly folder: string }
  /** A person with a bearer, and the folder that the bearer names. */
  | { readonly kind: 'person'; readonly sub: string; readonly folder?: string }
  /** Another daemon. */
  | { readonly kind: 'service'; readonly sub: string }

export function principalOf(caller: Caller): string {
  return caller.kind === 'agent' ? `folder:${caller.folder}` : caller.sub
}

/** What the predicate of an acl row is held against. */
export function claimsOf(caller: Caller): Claims {
  if (caller.kind === 'agent') {
    return { kind: 'agent', folder: caller.folder, tier: String(tierOf(caller.folder)), world: worldOf(caller.folder) }
  }
  const provider = caller.sub.slice(0, Math.max(caller.sub.indexOf(':'), 0))
  const folder = caller.kind === 'person' && caller.folder !== undefined ? { folder: caller.folder } : {}
  return { kind: caller.kind, sub: caller.sub, provider, ...folder }
}

/** How a row names who made it: the command line is `cli`, whoever sat at it. */
export function makerOf(caller: Caller): string {
  return caller.kind === 'host' ? 'cli' : principalOf(caller)
}
