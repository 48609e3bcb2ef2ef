// SIGN_IN_ALLOW: subs, verified e-mail addresses and *@domain.
import type { ConfirmedAccount } from '../../core/people/accounts.ts'

export type SignInAllowlist = (account: ConfirmedAccount) => boolean

/** Follows a setting that changes while the process runs. */
export function signInAllowlist(text: () => string): SignInAllowlist {
  let parsed: { readonly text: string; readonly isAllowed: SignInAllowlist } | undefined
  return (account) => {
    const current = text()
    if (parsed?.text !== current) parsed = { text: current, isAllowed: parseSignInAllowlist(current) }
    return parsed.isAllowed(account)
  }
}

/** E-mail addresses count only if the provider verified them, and are compared without ASCII case. */
export function parseSignInAllowlist(text: string): SignInAllowlist {
  const entries = new Set(text.split(',').flatMap((entry) => entry.trim() || []))
  const folded = new Set([...entries].map((entry) => foldCase(entry)))
  return ({ sub, email, email_verified }) => {
    if (entries.has(sub)) return true
    if (!email_verified || email === undefined || !/^[^\s@]+@[^\s@]+$/.test(email)) return false
    const address = foldCase(email)
    return folded.has(address) || folded.has(`*@${address.slice(address.indexOf('@') + 1)}`)
  }
}

/** ASCII only: Unicode rules would make the Kelvin sign (U+212A) a k, and another domain the same. */
function foldCase(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase())
}
