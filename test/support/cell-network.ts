// The way out of cells in a test: a proxy that allows what the test says, and looks names up where the test says.
import type { TestContext } from 'node:test'
import type { Network } from '../../src/cell/network.ts'
import { type EgressProxy, startProxy } from '../../src/egress/proxy.ts'

export interface CellNetworkOptions {
  readonly denyPrivate?: boolean
  /** A hosts file in the place of the system's. */
  readonly hostsPath?: string
}

/** Started with the first run: most tests need none. */
export async function cellNetwork(
  t: TestContext,
  allowlist: readonly string[] = [],
  { denyPrivate = false, hostsPath }: CellNetworkOptions = {},
): Promise<Network> {
  let starting: Promise<EgressProxy> | undefined
  t.after(async () => (await starting)?.close())
  return {
    open: async (folder, endpoint) => {
      starting ??= startProxy({ denyPrivate, log: () => {}, ...(hostsPath ? { dns: { hostsPath } } : {}) })
      return (await starting).openSource({
        id: folder,
        allowlist,
        endpoints: endpoint?.mayBePrivate ? [{ host: endpoint.host, port: endpoint.port }] : [],
      })
    },
  }
}
