// The way of a link through the front door, before a request is made into more than it is: this is the busiest path of the
// product. In this process it is one call; to another one the bytes pass on.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { hashOfLink } from '../../core/link-token.ts'
import { oldReading } from '../../core/resolve.ts'
import { routeTokens } from '../../core/route-tokens.ts'
import type { Trusts } from '../../lib/client-address.ts'
import { prefersHtml, problemOf } from '../../lib/http.ts'
import { logAnswer } from '../../lib/log.ts'
import { publicRefusal, Refusal } from '../../lib/refusal.ts'
import type { Host } from '../../registry/context.ts'
import { clientOf, headerOf } from '../client.ts'
import type { Frame } from '../daemon.ts'
import type { Direct } from '../direct.ts'
import { onwardHeaders } from '../headers.ts'
import { hopOf } from '../hop.ts'
import type { Peer } from '../peers.ts'
import { requestId, setClient } from '../request.ts'
import { PAGE_TYPE, problemPage } from './page.ts'
import { isStill, targetOf } from './target.ts'
import { identityOf, visitorOf } from './visitor.ts'

export interface Around extends Pick<Frame, 'host' | 'log' | 'metrics' | 'peers'> {
  /** Whose word about a client is believed; absent where TRUSTED_PROXIES is. */
  readonly trusts: Trusts | undefined
}

const STARTS = 6

/** Exactly so written: another spelling is another path. */
function isLink(url: string): boolean {
  return url.startsWith('/hook/') || url.startsWith('/chat/')
}

export function openLinks(around: Around): Direct {
  // Asked for when the first link comes: daemons start one after the other, and this one is the first.
  let webd: Peer | undefined
  return (request, response, way) => {
    const url = request.url ?? ''
    if (isLink(url)) {
      try {
        webd ??= around.peers('webd')
      } catch (error) {
        void passed(around, request, response, () => Promise.reject(error))
        return true
      }
      // Asked for here, and not to be asked for again: behind the door everybody would seem to stand on it.
      if (webd.direct) return webd.direct(request, response, { client: way.client })
      const { forward } = webd
      if (!forward) return false
      void passed(around, request, response, (id) => passOn(around, forward, request, response, id))
      return true
    }
    // Judged as it came. Further in, addresses are tidied up, and what was judged would not be what is asked for.
    if (!isStill(targetOf(url).path)) {
      const nothing = new Refusal('not_found', 'there is nothing at this path')
      void passed(around, request, response, () => Promise.reject(nothing))
      return true
    }
    if (!way.isPeer && way.client !== undefined) setClient(request, way.client)
    return false
  }
}

async function passOn(
  { host, trusts }: Around,
  forward: NonNullable<Peer['forward']>,
  request: IncomingMessage,
  response: ServerResponse,
  id: string,
): Promise<number> {
  const { url = '', headers, rawHeaders } = request
  const said = await identityOf(host, await visitorOf(host, headers.authorization))
  return forward(request, response, {
    target: url,
    headers: onwardHeaders(rawHeaders, {
      ...hopOf(trusts, request, id),
      ...said,
      'X-Folder': await folderOf(host, url),
    }),
  })
}

/** From the token's own record, never from the address; webd answers for a token that nobody knows. */
export async function folderOf(host: Host, url: string): Promise<string | undefined> {
  const end = url.slice(STARTS).search(/[/?]/)
  const token_hash = hashOfLink(url.slice(STARTS, end < 0 ? undefined : STARTS + end), host.keyring)
  const row = token_hash && (await host.engine.read((tx) => routeTokens.find(tx, { token_hash })))
  return row && (row.target_folder ?? oldReading(row.jid))
}

/** Answers what went wrong, counts, and writes the line: nobody does that for us here. */
async function passed(
  { host, log, metrics, trusts }: Around,
  request: IncomingMessage,
  response: ServerResponse,
  work: (id: string) => Promise<number>,
): Promise<void> {
  const started = performance.now()
  const id = requestId(headerOf(request, 'x-request-id'), host)
  const { method = '', url = '' } = request
  let status = 500
  let reason: string | undefined
  try {
    status = await work(id)
  } catch (error) {
    const isOurs = error instanceof Refusal
    if (!isOurs) log.error({ request: id, err: error }, 'internal error')
    const refusal = isOurs ? error : new Refusal('unavailable', 'something went wrong here')
    reason = refusal.message
    status = answerRefusal(request, response, refusal, id)
  }
  const ms = performance.now() - started
  metrics.add(method, status, ms)
  const remote = clientOf(trusts, request)
  logAnswer(log, { method, path: targetOf(url).path, status, ms, request: id, remote, reason })
}

const GUARDED = {
  'Cache-Control': 'no-store',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
}

function answerRefusal(request: IncomingMessage, response: ServerResponse, refusal: Refusal, id: string): number {
  const { problem, headers } = problemOf(publicRefusal(refusal))
  if (response.headersSent || response.destroyed) return problem.status
  const isPage = prefersHtml(request.headers.accept)
  const body = isPage ? problemPage(problem) : JSON.stringify(problem)
  response.writeHead(problem.status, {
    ...GUARDED,
    'Content-Type': isPage ? PAGE_TYPE : 'application/problem+json',
    ...headers,
    'X-Request-Id': id,
    'Content-Length': Buffer.byteLength(body),
    // What is left of a body is nobody's any more.
    ...(request.complete ? {} : { Connection: 'close' }),
  })
  response.end(request.method === 'HEAD' ? undefined : body)
  return problem.status
}
