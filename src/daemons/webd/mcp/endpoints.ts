// The MCP endpoints of links and accounts. Their modules are loaded with the first request, because they take longer to load
// than the rest of the daemon.
import type { Handler } from 'hono'
import type { LinkMcp, LinkMcpOptions } from './link-endpoint.ts'

export interface Mcp {
  readonly atLink: LinkMcp
  readonly atAccount: Handler
  close(): Promise<void>
}

export function lazyMcp({ posting, streams, onError }: LinkMcpOptions): Mcp {
  const { host, bodyMax, quotas } = posting
  const load = async () => {
    const [{ openLinkMcp }, { openAccountMcp }] = await Promise.all([
      import('./link-endpoint.ts'),
      import('./account-endpoint.ts'),
    ])
    return {
      link: openLinkMcp({ posting, streams, onError }),
      account: openAccountMcp({ host, bodyMax, quotas, onError }),
    }
  }
  let loaded: ReturnType<typeof load> | undefined
  const open = (): ReturnType<typeof load> => {
    loaded ??= load()
    return loaded
  }
  return {
    atLink: async (request) => (await open()).link.handle(request),
    atAccount: async (c, next) => (await open()).account.handle(c, next),
    close: async () => {
      const { link, account } = (await loaded) ?? {}
      await link?.close()
      await account?.close()
    },
  }
}
