// How many files this process may have open.
import { readFileSync } from 'node:fs'

/** Where the system does not say: what most grant a server. */
const USUAL = 65_536

export function openFileLimit(): number {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return soft === undefined ? USUAL : Number(soft)
  } catch {
    return USUAL
  }
}
