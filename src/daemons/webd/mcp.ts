// The tools over HTTP, at links and at the account. What they are made of is loaded when somebody asks for them: it takes
// longer than all the rest of the daemon.
import type { Handler } from 'hono'
import type { PostOffice } from './post.ts'
import type { Streams } from './streams.ts'
import type { Visit } from './visit.ts'

export type LinkMcp = (visit: Visit) => Promise<void>

export interface McpOptions {
  readonly office: PostOffice
  readonly streams: Streams
  /** What nobody refused on purpose. */
  readonly onError: (error: unknown, tool: string) => void
}

export interface Mcp {
  readonly atLink: LinkMcp
  readonly atAccount: Handler
  close(): Promise<void>
}

export function lazyMcp({ office, streams, onError }: McpOptions): Mcp {
  const { host, bodyMax, quotas } = office
  const load = async () => {
    const [{ openLinkMcp }, { openAccountMcp }] = await Promise.all([
      import('./mcp-link.ts'),
      import('./mcp-account.ts'),
    ])
    return {
      link: openLinkMcp({ office, streams, onError }),
      account: openAccountMcp({ host, bodyMax, quotas, onError }),
    }
  }
  let loaded: ReturnType<typeof load> | undefined
  const open = (): ReturnType<typeof load> => {
    loaded ??= load()
    return loaded
  }
  return {
    atLink: async (visit) => (await open()).link.answer(visit),
    atAccount: async (c, next) => (await open()).account.answer(c, next),
    close: async () => {
      const { link, account } = (await loaded) ?? {}
      await link?.close()
      await account?.close()
    },
  }
}
