// `fetch` for endpoints that people without operator rights name: it connects to public addresses only, the ones that agents
// may reach too. Node's own `fetch` has no way to check the address of a connection.
import { type LookupAddress, lookup } from 'node:dns'
import { type IncomingMessage, request as requestPlain } from 'node:http'
import { request as requestSecure } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { Readable } from 'node:stream'
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
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  if (isIP(host) !== 0 && !isAllowed(host)) return Promise.reject(new Error(PRIVATE_ADDRESS))
  return new Promise((resolve, reject) => {
    const options = { method, headers, signal, agent: false, lookup: restrictedLookup(isAllowed) }
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

/** Every address of the name must be public, so that the answer of a server cannot choose. */
function restrictedLookup(isAllowed: AddressCheck): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, found: LookupAddress[]) => {
      if (error) return callback(error, '')
      const [first] = found
      if (!first || !found.every(({ address }) => isAllowed(address))) return callback(new Error(PRIVATE_ADDRESS), '')
      if (options.all) callback(null, found)
      else callback(null, first.address, first.family)
    })
  }
}
