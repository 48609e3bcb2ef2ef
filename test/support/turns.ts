// A turn that runs, for tests of what an agent does in one.
import type { TestContext } from 'node:test'
import type { Turn } from '../../src/core/turns/turns.ts'
import { openConversationHost, type TestMessageOptions } from './conversation-host.ts'
import type { TestHost } from './host.ts'

export interface StartTurnOptions extends TestMessageOptions {
  readonly folder: string
  readonly content?: string
}

/** A message arrives in the chat, is routed to the folder as the router would, and its turn is claimed. */
export async function startTurn(
  t: TestContext,
  here: TestHost,
  { content, ...asking }: StartTurnOptions,
): Promise<Turn> {
  const talk = await openConversationHost(t, 'sqlite', here)
  await talk.ask(content, { hasRound: false, ...asking })
  return (await talk.mustClaim()).turn
}

/** Ends it, so that another one of the same conversation may start. */
export async function finishTurn(t: TestContext, here: TestHost, turn: Turn): Promise<void> {
  await (await openConversationHost(t, 'sqlite', here)).end(turn)
}
