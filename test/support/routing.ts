// Decides on messages of platform chats, for tests of routing.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { outbox, recordOutbound } from '../../src/core/delivery/outbox.ts'
import { type Envelope, envelopes } from '../../src/core/messages/envelopes.ts'
import { type InboundMessage, recordInbound } from '../../src/core/messages/inbound.ts'
import { messages } from '../../src/core/messages/messages.ts'
import { routeMessage } from '../../src/core/routing/route-message.ts'
import { compileRoutes } from '../../src/core/routing/route-table.ts'
import { routes } from '../../src/core/routing/routes.ts'
import type { RoutingContext, RoutingDecision } from '../../src/core/routing/routing-decision.ts'
import { DEFAULT_TURN_RULES } from '../../src/core/turns/turn-rules.ts'
import type { Tx } from '../../src/store/engine.ts'
import { type EngineName, type TestHost, testHost } from './host.ts'

export interface RoutingTest extends TestHost {
  write<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  route(...written: [match: string, target: string][]): Promise<void>
  decide(content: string, over?: Partial<InboundMessage>, envelope?: Partial<Envelope>): Promise<RoutingDecision>
  /** Records a message that the folder's agent has sent to the chat. */
  sent(folder: string, platform_id: string, over?: { jid?: string; turn_id?: string }): Promise<void>
  context(): Promise<RoutingContext>
}

const JID = 'telegram:42'
const SENDER = 'telegram:7'

export async function openRoutingTest(t: TestContext, engine: EngineName): Promise<RoutingTest> {
  const on = await testHost(t, engine)
  await on.groups('main', 'team', 'team/support', 'team/sales', 'other')
  const { host, clock } = on
  const writeContext = { dialect: host.engine.dialect, clock, random: host.random }
  const write: RoutingTest['write'] = (work) => host.engine.transaction(work)
  const context = (): Promise<RoutingContext> =>
    host.engine.read(async (tx) => ({
      writeContext,
      rules: DEFAULT_TURN_RULES,
      policy: await host.policies.read(tx),
      routes: compileRoutes(await routes.list(tx)),
      instance: 'test',
      showCommands: host.showCommands,
      assistantName: 'bot',
    }))
  return {
    ...on,
    write,
    context,
    route: async (...written) => {
      await write(async (tx) => {
        for (const [seq, [match, target]] of written.entries()) await routes.append(tx, { seq, match, target })
      })
    },
    decide: async (content, over = {}, envelope) => {
      const routingContext = await context()
      return write(async (tx) => {
        const inbound: InboundMessage = {
          jid: JID,
          sender: SENDER,
          content,
          reach: 'all',
          ...over,
          ...(envelope ? { envelope } : {}),
        }
        const { seq } = await recordInbound(tx, writeContext, inbound)
        const message = await messages.find(tx, { seq })
        assert.ok(message)
        return routeMessage(tx, routingContext, { message, envelope: await envelopes.find(tx, { message_seq: seq }) })
      })
    },
    sent: (folder, platform_id, { jid = JID, turn_id } = {}) =>
      write(async (tx) => {
        const out = { jid, topic: '', folder, turn_id, content: 'hi', engages: false }
        const { seq } = await recordOutbound(tx, writeContext, DEFAULT_TURN_RULES, out)
        await outbox.update(tx, { message_seq: seq }, { state: 'sent', platform_id })
      }),
  }
}
