// Whether an adapter answers for its health.
import type { AddressPolicy } from '../address-policy.ts'
import { sendAdapterRequest } from './adapter-request.ts'

const ANSWER_MS = 10_000

/** One that is `stale`, because nothing has come in for a while, is healthy all the same. */
export async function probeHealth(url: string, addresses: AddressPolicy, stop: AbortSignal): Promise<boolean> {
  try {
    const { status, text } = await sendAdapterRequest({
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
