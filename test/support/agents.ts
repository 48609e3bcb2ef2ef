// Agents with tools and workspaces, without the daemons.
import type { TestContext } from 'node:test'
import { setUpFolder } from '../../src/core/groups/products.ts'
import { layout as layoutOf } from '../../src/core/layout.ts'
import { type Turn, turns } from '../../src/core/turns/turns.ts'
import type { InstanceHost } from '../../src/registry/context.ts'
import { routesResource } from '../../src/resources/routes.ts'
import { agent, type EngineName, type TestHost, testHost } from './host.ts'
import { tempDir } from './temp.ts'
import { openTools, type SessionOptions, type ToolSession } from './tools.ts'

export interface Agents {
  readonly at: TestHost
  /** The host of `at`, with a layout. */
  readonly host: InstanceHost
  /** The data directory. */
  readonly root: string
  open(folder: string, options?: SessionOptions): Promise<ToolSession>
  /** A running turn. */
  begin(turn: Partial<Turn> & Pick<Turn, 'id' | 'folder'>): Promise<Turn>
  route(match: string, target: string, seq?: number): Promise<void>
}

/** `folders` are groups, each with a workspace. */
export async function agents(t: TestContext, engine: EngineName, folders: readonly string[]): Promise<Agents> {
  const [at, root] = [await testHost(t, engine), tempDir(t)]
  const layout = layoutOf(root)
  const host: InstanceHost = { ...at.host, layout }
  await at.groups(...folders)
  for (const folder of folders) await setUpFolder(layout, folder)
  return {
    at,
    host,
    root,
    open: (folder, options) => openTools(t, host, agent(folder), options),
    begin: async (given) => {
      const turn = { ...IDLE, jid: given.folder, ...given }
      await host.engine.transaction((tx) => turns.insert(tx, turn))
      return turn
    },
    route: async (match, target, seq = 0) => {
      await at.cli.call(routesResource.verbs.create, { match, target, seq })
    },
  }
}

const IDLE: Omit<Turn, 'id' | 'folder' | 'jid'> = {
  ...{ topic: '', chat_topic: '', sender: 'telegram:user/1', first_seq: 1, last_seq: 1, message_count: 1 },
  ...{ state: 'running', attempts: 1, fence: 1, leased_until: 0, run_after: 0, replies: 0, depth: 0 },
  ...{
    is_isolated: false,
    is_timed: false,
    is_guest: false,
    is_stopping: false,
    started_at: '2026-01-01T00:00:00.000Z',
  },
}
