// One task for the demo process, sent as a line of JSON.
import type { TurnMessage } from '../runtime.ts'

export interface DemoTask {
  readonly turn: { readonly id: string; readonly fence: number }
  readonly socket: string
  /** The text of `demo.script` in the workspace. */
  readonly script?: string | undefined
  readonly folder: string
  readonly jid: string
  readonly sender: string
  readonly session: string
  readonly messages: readonly TurnMessage[]
  readonly sentCount: number
  readonly moneyCents?: number | undefined
  /** Milliseconds since 1970, by the clock of svc. */
  readonly now: number
}
