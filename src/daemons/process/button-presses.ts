// Presses of buttons in chats of platforms. None is a message: no agent sees it. See docs/decisions.md#buttons.
import { findButtons } from '../../core/delivery/delivery.ts'
import type { InstanceHost } from '../../registry/context.ts'

export interface ButtonPress {
  /** The chat. */
  readonly jid: string
  /** Platform id of the message with the button. */
  readonly message: string
  /** Id of the button. */
  readonly action: string
  readonly sender: string
  readonly name?: string | undefined
}

export interface PressOutcome {
  /** Why nothing was done. */
  readonly ignored?: string
}

export async function pressButton(
  { engine }: InstanceHost,
  { jid, message, action }: ButtonPress,
): Promise<PressOutcome> {
  const { buttons = [] } = (await engine.read((tx) => findButtons(tx, jid, message))) ?? {}
  if (!buttons.some(({ id }) => id === action)) return { ignored: `the message ${message} has no button ${action}` }
  return { ignored: 'nothing waits for this button' }
}
