// A running turn, for tests of the actions of an agent.
import type { TestContext } from 'node:test'
import type { Turn } from '../../src/core/turns/turns.ts'
import { openConversationHost, type TestMessageOptions } from './conversation-host.ts'
import type { TestHost } from './host.ts'

export interface StartTurnOptions extends TestMessageOptions {
  readonly folder: string
  readonly content?: string
}

/** Adds a message to the chat, routes it to the folder and claims its turn. */
export async function startTurn(
  t: TestContext,
  here: TestHost,
  { content, ...asking }: StartTurnOptions,
): Promise<Turn> {
  const talk = await openConversationHost(t, 'sqlite', here)
  await talk.ask(content, { hasRound: false, ...asking })
  return (await talk.mustClaim()).turn
}

/** Ends it, so that another turn of the same conversation can start. */
export async function finishTurn(t: TestContext, here: TestHost, turn: Turn): Promise<void> {
  await (await openConversationHost(t, 'sqlite', here)).end(turn)
}
