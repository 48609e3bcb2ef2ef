// What the front door knows of the connection that a request came by, and says to whoever stands behind it.
import type { IncomingMessage } from 'node:http'
import type { Trusts } from '../../lib/client-address.ts'
import { addressOf } from '../../lib/http.ts'
import { clientOf, headerOf } from '../client.ts'
import type { Said } from './headers.ts'

export function hopOf(trusts: Trusts | undefined, request: IncomingMessage, requestId: string): Said {
  return {
    'X-Request-Id': requestId,
    'X-Forwarded-For': clientOf(trusts, request),
    'X-Forwarded-Proto': protoOf(trusts, request),
    'X-Forwarded-Host': request.headers.host,
  }
}

/** We speak plain HTTP; whoever is trusted in front of us may have spoken more. */
function protoOf(trusts: Trusts | undefined, request: IncomingMessage): string {
  const peer = addressOf(request)
  const said = headerOf(request, 'x-forwarded-proto')?.toLowerCase()
  return said === 'https' && peer !== undefined && trusts?.(peer) ? 'https' : 'http'
}
