// Dependencies of a runtime.
import type { Cell } from '../cell/cell.ts'
import type { Network } from '../cell/network.ts'
import type { AgentUser } from '../core/agent-user.ts'
import type { Clock } from '../lib/clock.ts'
import type { RuntimeSettings } from './settings.ts'

export interface RuntimeContext {
  readonly settings: RuntimeSettings
  readonly clock: Clock
  /** The user of a job that names none, if it is not the user of svc. */
  readonly user?: AgentUser | undefined
  /** The cell of all runs; throws a `RunFault` if cells do not work on this machine. */
  cell(): Promise<Cell>
  /** Opens the proxied network of a cell. */
  readonly network: Network
  /** Writes a warning for operators to the log. */
  warn(message: string): void
  /** Receives errors of work that no run waits for. */
  readonly onBackgroundError?: ((error: unknown) => void) | undefined
}
