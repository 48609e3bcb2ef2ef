// The network of cells in a test: a proxy with the allowlist and DNS of the test.
import type { TestContext } from 'node:test'
import type { Network } from '../../src/cell/network.ts'
import { type EgressProxy, startProxy } from '../../src/egress/proxy.ts'

export interface CellNetworkOptions {
  readonly denyPrivate?: boolean
  /** Replaces the hosts file of the system. */
  readonly hostsPath?: string
}

/** Starts with the first run, because most tests need none. */
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
