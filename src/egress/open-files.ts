// How many files this process may have open, and what the proxy uses them for.
import { readdirSync, readFileSync } from 'node:fs'

/** Where the system does not say: what most grant a server. */
const USUAL = 65_536
/** Where the system does not say: what a proxy that has just started has open. */
const USUALLY_OPEN = 32
/** Kept free for the admin listener, name lookups and the rest of the program: so many, or a quarter where there are few. */
const RESERVED = 128
const RESERVED_PART = 1 / 4
/** Of the files of the wires, for clients that are being told that they were refused. */
const REFUSED_PART = 1 / 16
const REFUSED_MAX = 256
const LEAST_WIRES = 16

export function openFileLimit(): number {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return soft === undefined ? USUAL : Number(soft)
  } catch {
    return USUAL
  }
}

export function countOpenFiles(): number {
  try {
    return readdirSync('/proc/self/fd').length
  } catch {
    return USUALLY_OPEN
  }
}

export interface FileShares {
  /** For connections of both sides, and pipes between them. */
  readonly wires: number
  /** Of clients; each needs another one to its host. */
  readonly connections: number
  readonly refused: number
}

export function shareFiles(limit: number, open: number): FileShares {
  const free = limit - open
  const wires = Math.max(LEAST_WIRES, free - Math.min(RESERVED, Math.ceil(free * RESERVED_PART)))
  const refused = Math.min(REFUSED_MAX, Math.ceil(wires * REFUSED_PART))
  return { wires, refused, connections: Math.floor((wires - refused) / 2) }
}

/** Reasons of the system for not opening another one. */
const NO_FILES: ReadonlySet<unknown> = new Set(['EMFILE', 'ENFILE'])

export function isOutOfFiles(error: unknown): boolean {
  return error instanceof Error && 'code' in error && NO_FILES.has(error.code)
}

/** Whether another file can be opened now: c-ares does not say why it could ask nobody. */
export function canOpenFile(): boolean {
  try {
    readFileSync('/dev/null')
    return true
  } catch (error) {
    return !isOutOfFiles(error)
  }
}
