// What a browser keeps for a link. A browser may refuse to keep anything; then it is kept as long as the page.

type Area = 'localStorage' | 'sessionStorage'

const memoryFallback = new Map<string, string>()

export function readStored(area: Area, key: string): string | undefined {
  try {
    return globalThis[area].getItem(key) ?? undefined
  } catch {
    return memoryFallback.get(area + key)
  }
}

export function writeStored(area: Area, key: string, value: string | undefined): void {
  try {
    if (value === undefined) globalThis[area].removeItem(key)
    else globalThis[area].setItem(key, value)
  } catch {
    if (value === undefined) memoryFallback.delete(area + key)
    else memoryFallback.set(area + key, value)
  }
}

/** A name for a link that says nothing about its token: 53 bits of a hash of 256. */
export function hashLinkUrl(base: string): string {
  let [one, two] = [0xdeadbeef, 0x41c6ce57]
  for (const character of base) {
    const code = character.codePointAt(0) ?? 0
    one = Math.imul(one ^ code, 0x9e3779b1)
    two = Math.imul(two ^ code, 0x5f356495)
  }
  one = Math.imul(one ^ (one >>> 16), 0x85ebca6b) ^ Math.imul(two ^ (two >>> 13), 0xc2b2ae35)
  two = Math.imul(two ^ (two >>> 16), 0x85ebca6b) ^ Math.imul(one ^ (one >>> 13), 0xc2b2ae35)
  return (4294967296 * (2097151 & two) + (one >>> 0)).toString(36)
}

/** 128 random bits, for a topic that nobody can guess and for a message that is sent twice. */
export function randomId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
