// Browser storage for a link. Where the browser denies access or the storage is full, values are kept in memory for the life of the
// page.

type StorageArea = 'localStorage' | 'sessionStorage'

/** Takes precedence: the storage may still have an older value. */
const memoryFallback = new Map<string, string | undefined>()

export function readStored(area: StorageArea, key: string): string | undefined {
  if (memoryFallback.has(area + key)) return memoryFallback.get(area + key)
  try {
    return globalThis[area].getItem(key) ?? undefined
  } catch {
    return undefined
  }
}

export function writeStored(area: StorageArea, key: string, value: string | undefined): void {
  try {
    if (value === undefined) globalThis[area].removeItem(key)
    else globalThis[area].setItem(key, value)
    memoryFallback.delete(area + key)
  } catch {
    memoryFallback.set(area + key, value)
  }
}

/** A storage key for a link that does not reveal its token: a 53-bit hash of the URL. */
export function hashLinkUrl(base: string): string {
  let [high, low] = [0xdeadbeef, 0x41c6ce57]
  for (const character of base) {
    const code = character.codePointAt(0) ?? 0
    high = Math.imul(high ^ code, 0x9e3779b1)
    low = Math.imul(low ^ code, 0x5f356495)
  }
  high = Math.imul(high ^ (high >>> 16), 0x85ebca6b) ^ Math.imul(low ^ (low >>> 13), 0xc2b2ae35)
  low = Math.imul(low ^ (low >>> 16), 0x85ebca6b) ^ Math.imul(high ^ (high >>> 13), 0xc2b2ae35)
  return (4294967296 * (2097151 & low) + (high >>> 0)).toString(36)
}

/** The key by which a link that keeps visitors apart knows this browser. */
export function visitorKeyFor(base: string): string {
  const name = `svc-chat:${hashLinkUrl(base)}:visitor`
  const known = readStored('localStorage', name)
  if (known !== undefined && /^[\w-]{43}$/.test(known)) return known
  const random = String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32)))
  const key = btoa(random).replaceAll('+', '-').replaceAll('/', '_').replace('=', '')
  writeStored('localStorage', name, key)
  return key
}

/** 128 random bits, for topics that cannot be guessed and for idempotency keys. */
export function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
