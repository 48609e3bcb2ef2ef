// An instance with messages that the test routes, a search index, and agents that search.
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { Caller } from '../../src/core/access/caller.ts'
import type { Channel } from '../../src/core/delivery/channel.ts'
import { type OutboundMessage, recordOutbound } from '../../src/core/delivery/outbox.ts'
import { type InboundMessage, recordInbound } from '../../src/core/messages/inbound.ts'
import { type InboxRow, inbox } from '../../src/core/messages/inbox.ts'
import { messages } from '../../src/core/messages/messages.ts'
import { openSearchIndex, type SearchOptions } from '../../src/core/search/message-search.ts'
import type { SearchIndex } from '../../src/core/search/search-index.ts'
import { routeBatch } from '../../src/daemons/routd/router.ts'
import { createToolList, standaloneTools } from '../../src/faces/tool-list.ts'
import { timestamp } from '../../src/lib/clock.ts'
import type { InstanceHost } from '../../src/registry/context.ts'
import { identitiesResource } from '../../src/resources/identities.ts'
import { routesResource } from '../../src/resources/routes.ts'
import { historyTools } from '../../src/tools/history.ts'
import { inspectTools } from '../../src/tools/inspect.ts'
import { searchTools } from '../../src/tools/search.ts'
import { withChannel } from './fake-channel.ts'
import { agent, type EngineName, type TestHost, testHost } from './host.ts'
import { run } from './sql.ts'
import { tempDir } from './temp.ts'
import { openTools, type ToolSession } from './tools.ts'

/** The rooms of `team` and `other`. */
export const ROOM = 'fake:room/1'
export const OTHER_ROOM = 'fake:room/2'

export interface InboundMessageOptions extends Partial<Omit<InboundMessage, 'jid' | 'content'>> {
  readonly jid?: string
  /** Its folder; undefined if it is not routed yet. */
  readonly folder?: string | undefined
  readonly state?: InboxRow['state']
  readonly reason?: string
}

export interface SearchHost extends Omit<TestHost, 'host'> {
  readonly host: InstanceHost
  readonly search: SearchIndex
  readonly searchPath: string
  /** Adds a message to a chat and returns its number and id. Advances the clock by a millisecond first. */
  receive(content: string | Uint8Array, hearing?: InboundMessageOptions): Promise<{ seq: number; id: string }>
  /** Adds many unrouted messages in one millisecond. */
  receiveAll(contents: readonly string[], jid?: string): Promise<void>
  say(content: string, out?: Partial<OutboundMessage>): Promise<{ seq: number; id: string }>
  /** Writes what the router would write. */
  route(seq: number, folder: string | undefined, state?: InboxRow['state'], reason?: string): Promise<void>
  /** Runs the router and returns the keys that it notified. */
  routeAll(): Promise<readonly string[]>
  addRoute(match: string, target: string, seq?: number): Promise<void>
  /** Returns the id of the person. */
  claim(sub: string, as: { name: string } | { id: string }): Promise<string>
  open(folder?: string): Promise<ToolSession>
  openAs(caller: Caller, on?: InstanceHost): Promise<ToolSession>
}

export interface SearchHostOptions extends SearchOptions {
  readonly channel?: Channel
  readonly searchPath?: string
  readonly on?: TestHost
}

const LIST = createToolList(standaloneTools([...historyTools, ...searchTools, ...inspectTools]))

export async function openSearchHost(
  t: TestContext,
  engine: EngineName,
  options: SearchHostOptions = {},
): Promise<SearchHost> {
  const { channel, searchPath = join(tempDir(t), 'store', 'search.db'), on, ...rest } = options
  const here = on ?? (await testHost(t, engine))
  const search = openSearchIndex(here.host.engine, searchPath, rest)
  // Before closing the engine: hooks run in the order of registration.
  const close = here.host.close
  t.after(() => search.close())
  const addRoute: SearchHost['addRoute'] = async (match, target, seq = 0) => {
    await here.cli.call(routesResource.verbs.create, { seq, match, target })
  }
  if (!on) {
    await here.groups('main', 'team', 'team/sub', 'other')
    await addRoute('room=room/1', 'team')
    await addRoute('room=room/2', 'other')
  }
  const channels = channel ? withChannel(here.host.channels, channel) : here.host.channels
  const host = { ...here.host, search, channels, close }
  const { clock } = here
  const speaking = { dialect: host.engine.dialect, clock, random: host.random }
  const route: SearchHost['route'] = (seq, folder, state = 'answered', reason) =>
    host.engine.transaction(async (tx) => {
      const message = await messages.find(tx, { seq })
      if (!message) throw new Error(`there is no message ${seq}`)
      const { id, jid, sender, topic = '' } = message
      const updated_at = timestamp(clock.now())
      const verb = 'message'
      await inbox.insert(tx, {
        ...{ message_seq: seq, id, jid, folder, topic, chat_topic: topic, sender, verb, state, reason, updated_at },
      })
      await run(tx, 'update routing set last_seq = $1 where id = 1', [seq])
    })
  return {
    ...here,
    host,
    search,
    searchPath,
    route,
    receive: async (content, hearing = {}) => {
      const { jid = ROOM, state, reason, ...inbound } = hearing
      const folder = 'folder' in hearing ? hearing.folder : 'team'
      clock.advance(1)
      const { folder: _, ...said } = inbound
      const heard = await host.engine.transaction((tx) =>
        recordInbound(tx, speaking, { sender: 'fake:user/1', reach: 'all', ...said, jid, content }),
      )
      if (folder !== undefined) await route(heard.seq, folder, state, reason)
      return heard
    },
    receiveAll: async (contents, jid = ROOM) => {
      clock.advance(1)
      await host.engine.transaction(async (tx) => {
        for (const content of contents)
          await recordInbound(tx, speaking, { sender: 'fake:user/1', reach: 'all', jid, content })
      })
    },
    say: async (content, out = {}) => {
      clock.advance(1)
      return host.engine.transaction((tx) =>
        recordOutbound(tx, speaking, host.rules, { jid: ROOM, topic: '', folder: 'team', content, ...out }),
      )
    },
    routeAll: async () => (await host.engine.transaction((tx) => routeBatch(tx, { host, assistantName: 'svc' }))).keys,
    addRoute,
    claim: async (sub, as) => (await here.cli.call(identitiesResource.verbs.link, { sub, ...as })).id,
    open: (folder = 'team') => openTools(t, host, agent(folder), { list: LIST }),
    openAs: (caller, on = host) => openTools(t, on, caller, { list: LIST }),
  }
}
