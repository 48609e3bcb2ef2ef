// Host names below which any person can register a name: those of the Public Suffix List (https://publicsuffix.org) and a few
// more. A rule that allows such a name allows servers of strangers.
import { createRequire } from 'node:module'

/** Hosting names that are not on the list, mostly because only names further below are given away. */
const HOSTING: ReadonlySet<string> = new Set(
  `amazonaws.com core.windows.net windows.net googleusercontent.com loca.lt railway.app run.app nip.io sslip.io`.split(
    ' ',
  ),
)

/** The sentence against a name that is a top-level domain, such as `com`; nothing for any other. */
export function topLevelFault(name: string): string | undefined {
  if (name.includes('.') || !isPublicSuffix(name)) return undefined
  return `${JSON.stringify(name)} would allow every name that ends in .${name}; write the host itself, such as example.${name}`
}

/** A sentence about a name that allows more than it seems to; nothing for an ordinary one. */
export function breadthWarning(name: string): string | undefined {
  const shown = JSON.stringify(name)
  if (!name.includes('.')) return `${shown} has a single label; it also allows every name that ends in .${name}`
  if (!HOSTING.has(name) && !isPublicSuffix(name)) return undefined
  return `${shown} allows every name below it, and anybody can get one`
}

/** `name` is in its canonical spelling: lower case, without a final dot. */
function isPublicSuffix(name: string): boolean {
  const { parse } = loadList()
  const isListed = (text: string): boolean => {
    const { publicSuffix, isIcann, isPrivate } = parse(text, OPTIONS)
    // The parser takes the last label of a name that is on no list for a suffix.
    return publicSuffix === text && (isIcann === true || isPrivate === true)
  }
  // The list has `*.ck`, and means that every name below `ck` is a suffix.
  return isListed(name) || isListed(`any.${name}`)
}

const OPTIONS = { allowPrivateDomains: true, extractHostname: false, validateHostname: false }

/** When the first name is judged, because it takes 12 MB and 30 ms; at once, because a schema cannot wait. */
function loadList(): Pick<typeof import('tldts'), 'parse'> {
  return createRequire(import.meta.url)('tldts')
}
