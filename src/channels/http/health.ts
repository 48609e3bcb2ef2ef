// Whether an adapter answers for its health.
import type { AddressRule } from '../adapter-lookup.ts'
import { exchange } from './exchange.ts'

const ANSWER_MS = 10_000

/** One that is `stale`, because nothing has come in for a while, is healthy all the same. */
export async function checkHealth(url: string, addresses: AddressRule, stop: AbortSignal): Promise<boolean> {
  try {
    const { status, text } = await exchange({
      method: 'GET',
      url: new URL(`${url}/health`),
      headers: {},
      timeoutMs: ANSWER_MS,
      addresses,
      // Its own: each request listens to the signal, and there may be many at once.
      signal: AbortSignal.any([stop]),
    })
    return (status >= 200 && status < 300) || /"status"\s*:\s*"stale"/.test(text)
  } catch {
    return false
  }
}
