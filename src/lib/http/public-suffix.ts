// Host names below which anyone can register a name: the Public Suffix List (https://publicsuffix.org) and a few more. An
// allowlist rule for such a name allows servers of strangers.
import { createRequire } from 'node:module'

/** Hosting domains that are not on the list, mostly because only names further below are handed out. */
const HOSTING: ReadonlySet<string> = new Set(
  `amazonaws.com core.windows.net windows.net googleusercontent.com loca.lt railway.app run.app nip.io sslip.io`.split(
    ' ',
  ),
)

/** An error for a top-level domain such as `com`; undefined for other names. */
export function topLevelFault(name: string): string | undefined {
  if (name.includes('.') || !isPublicSuffix(name)) return undefined
  return `${JSON.stringify(name)} would allow every name that ends in .${name}; write the host itself, such as example.${name}`
}

/** A warning for a name that allows more than it seems to; undefined for an ordinary name. */
export function breadthWarning(name: string): string | undefined {
  const shown = JSON.stringify(name)
  if (!name.includes('.')) return `${shown} has a single label; it also allows every name that ends in .${name}`
  if (!HOSTING.has(name) && !isPublicSuffix(name)) return undefined
  return `${shown} allows every name below it, and anyone can register one`
}

/** `name` is canonical: lower case, without a final dot. */
function isPublicSuffix(name: string): boolean {
  const { parse } = loadList()
  const isListed = (text: string): boolean => {
    const { publicSuffix, isIcann, isPrivate } = parse(text, OPTIONS)
    // tldts treats the last label of an unlisted name as a suffix.
    return publicSuffix === text && (isIcann === true || isPrivate === true)
  }
  // The entry `*.ck` makes every name below `ck` a suffix.
  return isListed(name) || isListed(`any.${name}`)
}

const OPTIONS = { allowPrivateDomains: true, extractHostname: false, validateHostname: false }

/** Loaded on first use, because it takes 12 MB and 30 ms; synchronously, because a schema cannot wait. */
function loadList(): Pick<typeof import('tldts'), 'parse'> {
  return createRequire(import.meta.url)('tldts')
}
