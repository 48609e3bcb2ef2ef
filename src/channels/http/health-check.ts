// Health check of an adapter.

import { sendAdapterRequest } from '../adapter-request.ts'
import type { AddressPolicy } from '../address-policy.ts'

const RESPONSE_TIMEOUT_MS = 10_000

/** An adapter that reports `stale` (no inbound message for a while) counts as healthy. */
export async function probeHealth(url: string, addresses: AddressPolicy, stop: AbortSignal): Promise<boolean> {
  try {
    const { status, text } = await sendAdapterRequest({
      method: 'GET',
      url: new URL(`${url}/health`),
      headers: {},
      timeoutMs: RESPONSE_TIMEOUT_MS,
      addresses,
      // A signal per request, because many concurrent requests would exceed the listener limit of one.
      signal: AbortSignal.any([stop]),
    })
    return (status >= 200 && status < 300) || /"status"\s*:\s*"stale"/.test(text)
  } catch {
    return false
  }
}
