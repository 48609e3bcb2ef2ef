// What a run's process can see and reach. In a cell that is its own workspace, its own socket, the machine's programs to
// read, and a network in which the folder's rules hold. Without one (`SANDBOX=none`) it is what its user can see.
import type { AgentUser } from '../core/agent-user.ts'
import { refuse } from '../lib/refusal.ts'
import type { RunLimits } from './limits.ts'

/** An open directory. */
export interface OpenDirectory {
  readonly fd: number
  close(): Promise<void>
}

/** The directory of one chat, which is the HOME of a run of reach `chat`. */
export interface ChatPlace {
  /** By its path, for a process without a cell. */
  readonly path: string
  /** The same as a verified open directory. */
  open(): Promise<OpenDirectory>
  /** Top-level names of the workspace below which groups have workspaces of their own: these are not shown. */
  readonly children: ReadonlySet<string>
  /** Told how many entries of the workspace the run does not see because there are too many. */
  onLeftOut?(count: number): void
}

/** Where a process finds what it was given. */
export interface SeenPlaces {
  /** Its working directory. */
  readonly workspace: string
  /** Its HOME, where it keeps its sessions. */
  readonly home: string
  readonly socket: string
}

/** What one run is given of the machine. */
export interface Place {
  readonly folder: string
  /** The workspace by its path, for a process without a cell. */
  readonly home: string
  /** The workspace as a verified open directory: what is mounted is this and not what its path leads to by then. */
  openHome(): Promise<OpenDirectory>
  /** The socket of this run. */
  readonly socket: string
  /** Of a run that visitors ask for: it writes there, and reads the workspace. */
  readonly chat?: ChatPlace | undefined
  /** Texts that it finds as read-only files, by their absolute path inside. */
  readonly texts?: Readonly<Record<string, string>> | undefined
  /** The descriptor over which it hands its listener to the proxy; without one it has no way out. */
  readonly handover?: number | undefined
}

/** A descriptor of a new process: one that is handed down, a text to read, or the pipe by which it reports its start. */
export type Descriptor = number | { readonly text: string } | 'status'

/** How a process is started there. */
export interface Entry {
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  readonly user?: AgentUser | undefined
  /** How many processes stand around the program, one in the other. */
  readonly wrappers: number
  /** From 3 on. */
  readonly descriptors: readonly Descriptor[]
  /** Closes what was opened for the start. */
  release(): Promise<void>
}

export interface Cell {
  readonly kind: 'bwrap' | 'none'
  /** Whom its processes run as, where that is not the user of svc. */
  readonly user?: AgentUser | undefined
  readonly limits: RunLimits
  /** Whether a run has the network of the machine. */
  readonly isNetworkOpen: boolean
  seen(place: Pick<Place, 'home' | 'socket' | 'chat'>): SeenPlaces
  /** Where it finds a file of svc. */
  inner(path: string): string
  searchPath(path: string): string
  enter(place: Place, argv: readonly string[], env: Readonly<Record<string, string>>): Promise<Entry>
  close(): void
}

/** Refuses what would become another argument: bubblewrap reads arguments that end with a NUL each. */
export function mustBeWithoutNul(values: readonly string[]): void {
  if (values.some((value) => value.includes('\0'))) refuse('invalid', 'an argument or a variable of a run holds a NUL')
}
