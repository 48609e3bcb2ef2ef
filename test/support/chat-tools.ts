// An instance with two folders, each with a room on a fake platform, and agents with their tools.
import type { TestContext } from 'node:test'
import { type OutboxRow, outbox } from '../../src/core/delivery/outbox.ts'
import type { SpeechSynthesizer } from '../../src/core/delivery/speech.ts'
import { setUpFolder } from '../../src/core/groups/products.ts'
import { layout } from '../../src/core/layout.ts'
import { decodeContent, messages } from '../../src/core/messages/messages.ts'
import type { OpenHost } from '../../src/daemons/process/host.ts'
import { createToolList, standaloneTools } from '../../src/faces/tool-list.ts'
import type { NamedVerb } from '../../src/registry/resource.ts'
import { routeTokensResource } from '../../src/resources/route-tokens.ts'
import { routesResource } from '../../src/resources/routes.ts'
import { type FakeChannel, type FakeOptions, fakeChannel, withChannel } from './fake-channel.ts'
import { agent, type EngineName, type TestHost, testHost } from './host.ts'
import { tempDir } from './temp.ts'
import { openTools, type SessionOptions, type ToolSession } from './tools.ts'

/** The rooms of `team` and `other`. */
export const ROOM = 'fake:room/1'
export const OTHER_ROOM = 'fake:room/2'

export interface ChatTools extends TestHost {
  readonly host: OpenHost
  readonly fake: FakeChannel
  /** The workspace of `team`. */
  readonly home: string
  /** The tools of the agent of `team`, or of another folder. */
  tools(folder?: string, options?: Pick<SessionOptions, 'turn' | 'reach'>): Promise<ToolSession>
  /** Mints a chat link of `team` and returns its chat. */
  mintChat(): Promise<string>
  /** All outgoing messages, oldest first. */
  said(): Promise<(OutboxRow & { readonly content: string })[]>
}

export interface ChatToolsOptions extends FakeOptions {
  readonly speech?: SpeechSynthesizer
}

export async function chatTools(
  t: TestContext,
  engine: EngineName,
  verbs: readonly NamedVerb[],
  options: ChatToolsOptions = {},
): Promise<ChatTools> {
  const here = await testHost(t, engine)
  await here.groups('team', 'team/sub', 'other')
  for (const [room, target] of [
    ['room/1', 'team'],
    ['room/2', 'other'],
    ['room/sub', 'team/sub'],
  ])
    await here.cli.call(routesResource.verbs.create, { seq: 0, match: `room=${room}`, target })
  const fake = fakeChannel(options)
  const places = layout(tempDir(t))
  await setUpFolder(places, 'team')
  const host: OpenHost = {
    ...here.host,
    layout: places,
    channels: withChannel(here.host.channels, fake),
    ...(options.speech ? { speech: options.speech } : {}),
  }
  const list = createToolList(standaloneTools(verbs))
  return {
    ...here,
    host,
    fake,
    home: `${places.groups}/team`,
    tools: (folder = 'team', options = {}) => openTools(t, host, agent(folder), { list, ...options }),
    mintChat: async () => (await here.cli.call(routeTokensResource.verbs.issue_chat, { target_folder: 'team' })).jid,
    said: () =>
      host.engine.read(async (tx) => {
        const rows = await outbox.list(tx)
        const found: (OutboxRow & { content: string })[] = []
        for (const row of rows) {
          const message = await messages.find(tx, { seq: row.message_seq })
          found.push({ ...row, content: decodeContent(message?.content ?? new Uint8Array()) })
        }
        return found
      }),
  }
}
