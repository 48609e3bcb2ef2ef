// A cell is the sandbox of one agent run. Inside, the agent sees its workspace, its tool socket and the machine's programs
// (read-only), and reaches the network only through the folder's rules. `SANDBOX=none` runs agents without one.

import type { Readable, Writable } from 'node:stream'
import type { AgentUser } from '../core/agent-user.ts'
import { refuse } from '../lib/refusal.ts'
import type { RunLimits } from './limits.ts'

export interface OpenDirectory {
  readonly fd: number
  close(): Promise<void>
}

/** HOME of a run below reach `all`, which belongs to its chat, and what the run sees of the workspace. */
export interface ChatDirectory {
  /** Used without a sandbox. */
  readonly path: string
  /** Opens the directory itself, so that replacing its path has no effect. */
  open(): Promise<OpenDirectory>
  /** Top-level directories of the workspace that contain workspaces of child groups. They are hidden. */
  readonly children: ReadonlySet<string>
  /** Whether notes about people and work, and hidden files, are hidden as well: reach `chat`. */
  readonly isVisitor: boolean
  /** Top-level directories of the workspace that the run may write: reach `work`. */
  readonly writable: ReadonlySet<string>
  /** Called with the least number of entries that are hidden because there are too many. */
  onOmitted?(count: number): void
}

/** The files of a chat's messages, which its runs may read. */
export interface FilesDirectory {
  /** As the agent's process sees it. */
  readonly visiblePath: string
  /** Opens the directory itself. */
  open(): Promise<OpenDirectory>
}

/** Paths as the agent's process sees them. */
export interface VisiblePaths {
  /** Its working directory. */
  readonly workspace: string
  /** Its HOME, where it keeps its sessions. */
  readonly home: string
  readonly socket: string
}

/** What one run may use. */
export interface CellResources {
  readonly folder: string
  /** The user of its processes; default that of the cell. */
  readonly user?: AgentUser | undefined
  /** Path of the workspace, used without a sandbox. */
  readonly home: string
  /** Opens the workspace itself: an agent may replace its path before it is mounted. */
  openHome(): Promise<OpenDirectory>
  /** Path of the tool socket of this run. */
  readonly socket: string
  /** Set below reach `all`: the run writes here, and the workspace is read-only but for the directories that it names. */
  readonly chat?: ChatDirectory | undefined
  /** Set if the chat has files. */
  readonly files?: FilesDirectory | undefined
  /** Read-only files, by their absolute path inside. */
  readonly texts?: Readonly<Record<string, string>> | undefined
  /** Descriptor over which the sandbox passes its proxy listener to svc; without it there is no network. */
  readonly handover?: number | undefined
}

/**
 * A descriptor of the new process: an inherited one, a text to read, the pipe for its start status, or the one by which svc
 * controls its init program.
 */
export type Descriptor = number | { readonly text: string } | 'status' | 'control'

export interface SpawnSpec {
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  readonly user?: AgentUser | undefined
  /** Owns its pipes, if it is not the user of svc. */
  readonly owner?: AgentUser | undefined
  /** Numbered from 3. */
  readonly descriptors: readonly Descriptor[]
  /** Closes the descriptors that were opened for the start. */
  release(): Promise<void>
}

/** A process in a cell, and all processes that it starts. */
export interface CellProcess {
  readonly stdin: Writable
  readonly stdout: Readable
  readonly stderr: Readable
  /**
   * Resolves when the process exited and its output was read, or when it could not be started. Then no process of a sandbox
   * is left. Never rejects.
   */
  readonly ended: Promise<CellProcessExit>
  /** Sends SIGTERM to all its processes, then SIGKILL. Resolves when they ended. */
  stop(): Promise<CellProcessExit>
  /** Calls `onExceeded` at most once, if its processes together exceed a limit. The returned function stops the watcher. */
  watchUsage(onExceeded: (reason: string) => void): () => void
  /** Whether it keeps svc running. */
  setRef(isReferenced: boolean): void
}

export interface CellProcessExit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  /** Why the process could not be spawned. */
  readonly error?: NodeJS.ErrnoException | undefined
  /** False if the sandbox could not be created; true if none is used. */
  readonly isCellReady: boolean
  /** Why the program could not be started in the sandbox. */
  readonly startFault?: string | undefined
  /** Why the sandbox ended before the program. */
  readonly cellFault?: string | undefined
}

export interface Cell {
  readonly kind: 'bwrap' | 'container' | 'none'
  /** The user of its processes, if it is not the user of svc and a run has none of its own. */
  readonly user?: AgentUser | undefined
  readonly limits: RunLimits
  /** Whether runs use the network of the machine without rules. */
  readonly isNetworkOpen: boolean
  visiblePaths(resources: Pick<CellResources, 'home' | 'socket' | 'chat'>): VisiblePaths
  /** Path inside of a file of svc. */
  pathInside(path: string): string
  searchPath(path: string): string
  /** The caller must attach output listeners before it awaits anything else. */
  start(resources: CellResources, argv: readonly string[], env: Readonly<Record<string, string>>): Promise<CellProcess>
  close(): Promise<void>
}

/** Arguments are passed NUL-terminated, so a NUL would inject another argument. */
export function mustBeWithoutNul(values: readonly string[]): void {
  if (values.some((value) => value.includes('\0')))
    refuse('invalid', 'an argument or environment variable of a run contains a NUL character')
}
