// An instance whose public URL is its own listener on localhost, for tests in a browser.
import type { TestContext } from 'node:test'
import { testHost } from './host.ts'
import { type ServedHost, type ServedHostOptions, serveHost } from './served-host.ts'

export interface LocalhostInstance extends ServedHost {
  /** `http://localhost:<port>`, the same as the public URL. */
  readonly base: string
}

export async function serveAtLocalhost(t: TestContext, options: ServedHostOptions = {}): Promise<LocalhostInstance> {
  const on = options.on ?? (await testHost(t))
  const address = { base: on.host.webBase }
  // The port is known only after the listener is open.
  const host = {
    ...on.host,
    get webBase() {
      return address.base
    },
  }
  const served = await serveHost(t, { ...options, on: { ...on, host } })
  address.base = served.url().replace('127.0.0.1', 'localhost')
  return { ...served, base: address.base }
}
