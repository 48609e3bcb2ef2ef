// `fetch` for endpoints that people without operator rights name: it connects to public addresses only, the ones that agents
// may reach too. Node's own `fetch` has no way to check the address of a connection.
import { type IncomingMessage, request as requestPlain } from 'node:http'
import { request as requestSecure } from 'node:https'
import { Readable } from 'node:stream'
import { createRestrictedLookup, forbiddenAddressFault } from '../../channels/address-policy.ts'
import { addressClassOf } from '../../egress/address/address-class.ts'
import { guard } from '../../lib/fault-boundary.ts'

export const PRIVATE_ADDRESS = 'only operators connect models on this machine or a private network'

interface PublicRequest {
  readonly method: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  readonly signal: AbortSignal
}

type AddressCheck = (address: string) => boolean

const isPublicAddress: AddressCheck = (address) => addressClassOf(address) === 'public'

/** Follows no redirect. */
export function fetchPublic(
  address: string,
  { method, headers, body, signal }: PublicRequest,
  isAllowed: AddressCheck = isPublicAddress,
): Promise<Response> {
  const url = new URL(address)
  const addresses = { isPublicAllowed: false, rule: { isAllowed, refusal: PRIVATE_ADDRESS } }
  if (forbiddenAddressFault(url, addresses) !== undefined) return Promise.reject(new Error(PRIVATE_ADDRESS))
  return new Promise((resolve, reject) => {
    const options = { method, headers, signal, agent: false, lookup: createRestrictedLookup(addresses) }
    const request = (url.protocol === 'https:' ? requestSecure : requestPlain)(url, options)
    request.once('error', reject)
    const receive = (response: IncomingMessage): void => {
      const type = response.headers['content-type']
      // The body ends with an error if the connection does.
      const stream = Readable.toWeb(response) as ReadableStream<Uint8Array>
      const status = response.statusCode ?? 502
      const hasBody = status !== 204 && status !== 205 && status !== 304
      resolve(new Response(hasBody ? stream : null, { status, headers: type ? { 'content-type': type } : {} }))
    }
    request.once('response', guard(reject, receive))
    request.end(body)
  })
}
