// The name before the first colon of a sender, a principal or a chat. Some belong to people with an account, some to svc
// itself; no adapter may use either, because a sender in one of them has rights that the adapter does not have.

/** Accounts: a bearer names the person. Every provider that people sign in with is listed here. */
export const ACCOUNT_NAMESPACES: readonly string[] = ['google', 'github', 'local', 'oidc']

/** Platforms whose chats svc delivers without an adapter. */
export const BUILT_IN_PLATFORMS: readonly string[] = ['web', 'hook', 'sandbox']

/** Principals, and senders of messages that svc writes itself. */
const OWN_NAMES: readonly string[] = [
  ...['anon', 'builtin', 'cli', 'daemon', 'folder', 'host', 'role', 'service', 'svc', 'system'],
  ...['delegate', 'escalate', 'injected', 'timed'],
]
/** `timed-isolated:<task>` and the like. */
const OWN_FAMILY = /^(delegate|escalate|injected|timed)-/

/** Verbs that svc gives a message itself; `root` lifts holds of tools. */
const OWN_VERBS: readonly string[] = ['root', 'delegate', 'escalate']

export function isAccount(sub: string): boolean {
  return ACCOUNT_NAMESPACES.some((name) => sub.startsWith(`${name}:`))
}

/** Why no adapter may have chats of this platform, or nothing. */
export function platformFault(platform: string): string | undefined {
  if (ACCOUNT_NAMESPACES.includes(platform)) return 'is a namespace of accounts'
  return BUILT_IN_PLATFORMS.includes(platform) || isOwnName(platform) ? 'belongs to svc itself' : undefined
}

/** Why an adapter may not name this sender in a chat of the platform, or nothing. */
export function senderFault(sender: string, platform: string): string | undefined {
  const at = sender.indexOf(':')
  if (at < 0) return isOwnName(sender.trim().toLowerCase()) ? `"${sender}" is a sender of svc itself` : undefined
  const namespace = sender.slice(0, at)
  if (namespace === platform || namespace === 'anon') return undefined
  return `the sender of a ${platform} chat is not of ${namespace}`
}

export function isOwnVerb(verb: string): boolean {
  return OWN_VERBS.includes(verb)
}

function isOwnName(name: string): boolean {
  return OWN_NAMES.includes(name) || OWN_FAMILY.test(name)
}
