// What clients say about themselves, in a registration or in a metadata document.
import { CODE_GRANT, GRANT_TYPES, REFRESH_GRANT } from '../../../core/people/oauth-clients.ts'

const NAME_MAX = 100

/** One visible line: no control characters, and none that change the direction of the text around the name. */
export function cleanClientName(name: string): string {
  const clean = name.replace(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' ').trim()
  return [...clean].slice(0, NAME_MAX).join('').trim() || 'Unnamed client'
}

/** Those that this server has. A client that names none of them means the usual ones. */
export function supportedGrants(named: readonly string[]): string[] {
  const known = GRANT_TYPES.filter((grant) => named.includes(grant))
  return known.length > 0 ? known : [CODE_GRANT, REFRESH_GRANT]
}
