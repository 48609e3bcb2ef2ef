// The open-files limit of this process, and how the proxy divides it.
import { readdirSync, readFileSync } from 'node:fs'

/** Assumed limit where the system does not tell. */
const USUAL_LIMIT = 65_536
/** Assumed number of open files after the start. */
const USUALLY_OPEN = 32
/** Reserved for the admin listener, DNS lookups and the rest of the process; at most a quarter of the free files. */
const RESERVED = 128
const RESERVED_PART = 1 / 4
/** Share of the transport's files for refused clients that still read their error response. */
const REFUSED_PART = 1 / 16
const REFUSED_MAX = 256
const TRANSPORT_MIN = 16

export function openFileLimit(): number {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return soft === undefined ? USUAL_LIMIT : Number(soft)
  } catch {
    return USUAL_LIMIT
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
  /** Connections to clients and hosts, and pipes between them. */
  readonly transport: number
  /** Client connections; each needs a second one to its host. */
  readonly connections: number
  readonly refused: number
}

export function shareFiles(limit: number, open: number): FileShares {
  const free = limit - open
  const transport = Math.max(TRANSPORT_MIN, free - Math.min(RESERVED, Math.ceil(free * RESERVED_PART)))
  const refused = Math.min(REFUSED_MAX, Math.ceil(transport * REFUSED_PART))
  return { transport, refused, connections: Math.floor((transport - refused) / 2) }
}

const NO_FILES: ReadonlySet<unknown> = new Set(['EMFILE', 'ENFILE'])

export function isOutOfFiles(error: unknown): boolean {
  return error instanceof Error && 'code' in error && NO_FILES.has(error.code)
}

/** Whether another file can be opened: c-ares does not report why it could not send a query. */
export function canOpenFile(): boolean {
  try {
    readFileSync('/dev/null')
    return true
  } catch (error) {
    return !isOutOfFiles(error)
  }
}
