// What the parent, the front and the runner of an instance send each other, over the IPC channels of Node. All of them are
// the same program, so messages are not validated; what one does not know is ignored.

/** `front` has the listeners and all workers but one: `runner` runs the turns of agents. */
export type ProcessRole = 'front' | 'runner'

/** Environment variables that the parent sets for its children. */
export const ROLE_VARIABLE = 'SVC_PROCESS'
/** URLs of the front that ended, as JSON: the next one takes the same ports and prints nothing. */
export const URLS_VARIABLE = 'SVC_FRONT_URLS'

/** The only turn that a runner runs. */
export const TURN_VARIABLE = 'SVC_TURN'

/** Descriptor of a front or runner: one end of a socket whose other end the parent gives to the other process. */
export const PEER_FD = 4

export type DaemonAddresses = Readonly<Record<string, string>>

export interface ProcessStatus {
  readonly role: ProcessRole
  /** Absent while it is not running. */
  readonly pid?: number | undefined
  readonly started_at?: string | undefined
  readonly restarts: number
  /** How the one before ended. */
  readonly last_end?: { readonly at: string; readonly reason: string } | undefined
}

export type ToParent =
  | { readonly kind: 'alive' }
  | { readonly kind: 'ready'; readonly urls: DaemonAddresses }
  | { readonly kind: 'start-runner' }
  | { readonly kind: 'peer'; readonly message: PeerMessage }

export type ToChild =
  | { readonly kind: 'processes'; readonly processes: readonly ProcessStatus[] }
  /** Comes with the end of a socket to the other process. */
  | { readonly kind: 'peer-socket' }
  | { readonly kind: 'peer'; readonly message: PeerMessage }

/**
 * Between front and runner, over a socket of their own, without which the parent passes them on. Only hints: both work without
 * them, more slowly.
 */
export type PeerMessage =
  | { readonly kind: 'commit'; readonly keys?: readonly string[] | undefined; readonly work: readonly string[] }
  /** Pieces of texts that agents are writing, and what they do (`core/turns/drafts.ts`). */
  | { readonly kind: 'drafts'; readonly pieces: readonly object[] }
  /** The sender waits for the write lock of the store. */
  | { readonly kind: 'lock-wanted' }
  | { readonly kind: 'ask-metrics'; readonly id: number }
  | { readonly kind: 'metrics'; readonly id: number; readonly text: string }
