// What a daemon knows of the connection that a request came by, and says to the daemon that it hands the request to.
import type { IncomingMessage } from 'node:http'
import type { Context } from 'hono'
import type { Trusts } from '../lib/client-address.ts'
import { addressOf } from '../lib/http.ts'
import { clientOf, headerOf } from './client.ts'
import { cleanHeaders, type Said } from './headers.ts'
import type { Peer } from './peers.ts'
import { incomingOf } from './request.ts'

/** Hands a request, which came as `c`, to another daemon. */
export function passTo(
  peer: Peer,
  c: Context,
  trusts: Trusts | undefined,
  request: Request = c.req.raw,
): Response | Promise<Response> {
  const incoming = incomingOf(c)
  if (incoming) cleanHeaders(request.headers, hopOf(trusts, incoming, c.get('requestId')))
  c.set('isPassedOn', peer.isHere)
  return peer.pass(request, c)
}

export function hopOf(trusts: Trusts | undefined, request: IncomingMessage, requestId: string): Said {
  return {
    'X-Request-Id': requestId,
    'X-Forwarded-For': clientOf(trusts, request),
    'X-Forwarded-Proto': protoOf(trusts, request),
    'X-Forwarded-Host': request.headers.host,
  }
}

/** svc speaks plain HTTP; a trusted proxy in front of it may have spoken HTTPS. */
function protoOf(trusts: Trusts | undefined, request: IncomingMessage): string {
  const peer = addressOf(request)
  const said = headerOf(request, 'x-forwarded-proto')?.toLowerCase()
  return said === 'https' && peer !== undefined && trusts?.(peer) ? 'https' : 'http'
}
