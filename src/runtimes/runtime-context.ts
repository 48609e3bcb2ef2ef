// What a runtime is made with.
import type { Cell } from '../cell/cell.ts'
import type { Network } from '../cell/network.ts'
import type { AgentUser } from '../core/agent-user.ts'
import type { Clock } from '../lib/clock.ts'
import type { RuntimeSettings } from './settings.ts'

export interface RuntimeContext {
  readonly settings: RuntimeSettings
  readonly clock: Clock
  /** Whom agents run as, where that is not the user of svc. */
  readonly user?: AgentUser | undefined
  /** The cell of every run; throws a `RunFault` where cells do not work on this machine. */
  cell(): Promise<Cell>
  /** The way out of a cell. */
  readonly network: Network
  /** Something that operators should read in the log. */
  warn(sentence: string): void
  /** Something failed that no run waits for. */
  readonly onBackgroundError?: ((error: unknown) => void) | undefined
}
