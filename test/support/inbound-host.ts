// An instance for the inbound half of the contract of channels: the folder `team` answers in one chat.
import type { TestContext } from 'node:test'
import type { StoredMessage } from '../../src/channels/channel.contract.ts'
import type { Channel, MessageButton } from '../../src/core/delivery/channel.ts'
import { recordOutbound, settleDelivery } from '../../src/core/delivery/outbox.ts'
import { envelopes } from '../../src/core/messages/envelopes.ts'
import { decodeContent, messages } from '../../src/core/messages/messages.ts'
import { writeContextOf } from '../../src/core/turns/rounds.ts'
import { type ButtonPress, pressButton } from '../../src/daemons/process/button-presses.ts'
import type { OpenHost } from '../../src/daemons/process/host.ts'
import { routeBatch } from '../../src/daemons/routd/router.ts'
import { routesResource } from '../../src/resources/routes.ts'
import { type ConversationHost, openConversationHost } from './conversation-host.ts'
import type { EngineName } from './host.ts'

export { type ButtonPress, pressButton }

export interface InboundHost extends ConversationHost {
  /** Routes what has arrived, and ends its turns. */
  answerAll(): Promise<void>
  /** Everything received in the chat, oldest first. */
  stored(): Promise<StoredMessage[]>
}

export async function openInboundHost(t: TestContext, engine: EngineName, jid: string): Promise<InboundHost> {
  const talk = await openConversationHost(t, engine)
  await talk.groups('team')
  const match = `room=${jid.slice(jid.indexOf(':') + 1)}`
  await talk.cli.call(routesResource.verbs.create, { seq: 0, match, target: 'team' })
  const answerAll = async (): Promise<void> => {
    await talk.write((tx) => routeBatch(tx, { host: talk.host, assistantName: 'svc' }))
    for (;;) {
      const claimed = await talk.claim()
      if (!claimed) return
      await talk.end(claimed.turn)
    }
  }
  const stored = (): Promise<StoredMessage[]> =>
    talk.read(async (tx) => {
      const found: StoredMessage[] = []
      for (const { seq, sender, topic, content } of await messages.list(tx, { jid, direction: 'in' })) {
        const { verb = '', ...envelope } = (await envelopes.find(tx, { message_seq: seq })) ?? {}
        found.push({ ...envelope, verb, sender, topic, text: decodeContent(content) })
      }
      return found
    })
  return { ...talk, answerAll, stored }
}

/** Sends through the channel as the outbox does. Returns the platform id. */
export async function sendAsTeam(
  host: OpenHost,
  channel: Channel,
  message: {
    readonly jid: string
    readonly content: string
    readonly topic: string
    readonly buttons?: readonly MessageButton[] | undefined
  },
): Promise<string> {
  const { buttons, ...out } = message
  const { jid, content, topic } = out
  const context = writeContextOf(host)
  const outbound = { ...out, folder: 'team', leaseMs: 1000, payload: { buttons } }
  const sent = await host.engine.transaction((tx) => recordOutbound(tx, context, host.rules, outbound))
  const threadId = topic === '' ? undefined : topic
  const { id = '' } = (await channel.actions.send?.({ jid, key: sent.id, content, threadId, buttons })) ?? {}
  await host.engine.transaction((tx) =>
    settleDelivery(tx, context, host.rules, sent, { state: 'sent', platform_id: id }),
  )
  return id
}
