// Presses of buttons in chats of platforms. None is a message: no agent sees it. See docs/decisions.md#buttons.
import { isOperator } from '../../core/access/policy.ts'
import { findButtons } from '../../core/delivery/delivery.ts'
import { primaryAccount } from '../../core/people/accounts.ts'
import { Refusal } from '../../lib/refusal.ts'
import { callVerb } from '../../registry/call.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { DECISIONS, pendingActionsResource } from '../../resources/pending-actions.ts'

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

export async function pressButton(host: InstanceHost, press: ButtonPress): Promise<PressOutcome> {
  const { jid, message, action, sender, name } = press
  const { buttons = [], approval: id } = (await host.engine.read((tx) => findButtons(tx, jid, message))) ?? {}
  if (!buttons.some((button) => button.id === action))
    return { ignored: `the message ${message} has no button ${action}` }
  const decision = DECISIONS.find((each) => each === action)
  if (id === undefined || !decision) return { ignored: 'nothing waits for this button' }
  const caller = { kind: 'person', sub: await findOperator(host, sender) } as const
  try {
    const { decide_in_chat: decide } = pendingActionsResource.verbs
    const { isDecided } = await callVerb({ host, caller, face: 'rest' }, decide, { id, decision, name })
    return isDecided ? {} : { ignored: `the call ${id} does not wait for a decision any more` }
  } catch (error) {
    if (error instanceof Refusal && error.code === 'forbidden') return { ignored: 'the sender may not decide' }
    throw error
  }
}

/** The sender, or the account that the person signs in with if only that one is an operator. */
function findOperator({ engine, policies }: InstanceHost, sender: string): Promise<string> {
  return engine.read(async (tx) =>
    isOperator(await policies.read(tx), sender) ? sender : await primaryAccount(tx, sender),
  )
}
