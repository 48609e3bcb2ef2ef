// Namespaces: the part of a sender, principal or chat before the first colon. Adapters may not use those of accounts or of
// svc, because senders in them have rights that adapters do not have.
import { builtInChannelOf } from '../delivery/platforms.ts'

/** Every provider that people sign in with. */
export const ACCOUNT_NAMESPACES: readonly string[] = ['google', 'github', 'local', 'oidc']

/** Principals, and senders of messages that svc writes itself. */
const RESERVED_NAMES: readonly string[] = [
  ...['anon', 'builtin', 'cli', 'daemon', 'folder', 'host', 'role', 'service', 'svc', 'system'],
  ...['delegate', 'escalate', 'injected', 'timed'],
]
/** `timed-isolated:<task>` and the like. */
const RESERVED_PREFIX = /^(delegate|escalate|injected|timed)-/

/** Verbs of messages that svc creates; `root` skips the approval of tool calls. */
const RESERVED_VERBS: readonly string[] = ['root', 'delegate', 'escalate']

export function isAccount(sub: string): boolean {
  return ACCOUNT_NAMESPACES.some((name) => sub.startsWith(`${name}:`))
}

/** Whether the name can be a person: an account, or a sender of a platform. */
export function isPersonNamespace(sub: string): boolean {
  const colon = sub.indexOf(':')
  return colon > 0 && !isReservedName(sub.slice(0, colon))
}

export function platformFault(platform: string): string | undefined {
  if (ACCOUNT_NAMESPACES.includes(platform)) return 'is reserved for accounts'
  return builtInChannelOf(platform) !== undefined || isReservedName(platform) ? 'is reserved for svc' : undefined
}

/** `base` is the platform that this one is an account of, if the adapter may speak for its people. */
export function senderFault(sender: string, platform: string, base = platform): string | undefined {
  const colon = sender.indexOf(':')
  if (colon < 0)
    return isReservedName(sender.trim().toLowerCase()) ? `the sender "${sender}" is reserved for svc` : undefined
  const namespace = sender.slice(0, colon)
  if ([platform, base, 'anon'].includes(namespace)) return undefined
  return `a sender in a ${platform} chat cannot have the namespace ${namespace}`
}

export function isReservedVerb(verb: string): boolean {
  return RESERVED_VERBS.includes(verb)
}

function isReservedName(name: string): boolean {
  return RESERVED_NAMES.includes(name) || RESERVED_PREFIX.test(name)
}
