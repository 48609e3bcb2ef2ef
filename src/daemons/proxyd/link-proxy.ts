// Passes requests at links to webd on the Node request, because this is the busiest path: one call within the process, or
// forwarded bytes to another one. Before that it brings the path of every request into its normal form.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { tokenHashFromUrl } from '../../core/links/link-token.ts'
import { routeTokens } from '../../core/links/route-tokens.ts'
import { legacyLinkFolder } from '../../core/routing/chat-folder.ts'
import type { TrustedProxyCheck } from '../../lib/http/client-address.ts'
import { prefersHtml, problemOf } from '../../lib/http/http.ts'
import { logRequest } from '../../lib/log/log.ts'
import { publicRefusal, Refusal } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { DaemonContext } from '../daemon.ts'
import { authenticate } from '../http/credentials.ts'
import { forwardedHeaders } from '../http/forwarded-headers.ts'
import { openaiErrorOf } from '../http/openai-errors.ts'
import type { Peer } from '../http/peers.ts'
import type { RawHandler } from '../http/raw-request.ts'
import { acceptRequestId, setClientAddress } from '../http/request-middleware.ts'
import { joinedHeader, resolveClientAddress } from '../http/trusted-proxies.ts'
import { upstreamHeaders } from '../http/upstream-headers.ts'
import { problemPage } from './pages.ts'
import { identityHeaders } from './request-auth.ts'
import { parseTarget, rawPath } from './request-target.ts'

export interface ProxyContext extends Pick<DaemonContext, 'host' | 'log' | 'metrics' | 'peers'> {
  /** Undefined where TRUSTED_PROXIES is not set. */
  readonly isTrustedProxy: TrustedProxyCheck | undefined
}

const TOKEN_AT = '/hook/'.length
/** A response may begin with the end of an agent's turn. */
const OPENAI = /^\/(?:openai|chat\/[^/]+)\/v1\//
const ANSWER_MS = 24 * 3_600_000

function isLink(url: string): boolean {
  return url.startsWith('/hook/') || url.startsWith('/chat/') || url.startsWith('/openai/')
}

export function openLinkProxy(context: ProxyContext): RawHandler {
  // Resolved with the first link, because webd starts after proxyd.
  let webd: Peer | undefined
  return (request, response, origin) => {
    const refuseWith = (error: unknown): true => {
      respondAndLog(context, request, response, () => Promise.reject(error))
      return true
    }
    const target = parseTarget(request.url ?? '')
    if (!target) return refuseWith(new Refusal('not_found', 'there is nothing at this path'))
    // From here on no other spelling of it exists.
    const url = `${target.path.text}${target.query}`
    request.url = url
    if (isLink(url)) {
      try {
        webd ??= context.peers('webd')
      } catch (error) {
        return refuseWith(error)
      }
      // The client address is resolved already: without `isSocketAddress` webd does not resolve it again.
      if (webd.rawHandler) return webd.rawHandler(request, response, { client: origin.client })
      const { forward } = webd
      if (!forward) return false
      respondAndLog(context, request, response, (id) => forwardLink(context, forward, request, response, id))
      return true
    }
    if (!origin.isSocketAddress && origin.client !== undefined) setClientAddress(request, origin.client)
    return false
  }
}

async function forwardLink(
  { host, isTrustedProxy }: ProxyContext,
  forward: NonNullable<Peer['forward']>,
  request: IncomingMessage,
  response: ServerResponse,
  id: string,
): Promise<number> {
  const { url = '', headers, rawHeaders } = request
  const identity = await identityHeaders(host, await authenticate(host, headers))
  return forward(request, response, {
    target: url,
    headMs: OPENAI.test(url) ? ANSWER_MS : undefined,
    headers: upstreamHeaders(rawHeaders, {
      ...forwardedHeaders(isTrustedProxy, request, id),
      ...identity,
      'X-Folder': await linkFolderOf(host, url),
    }),
  })
}

/** Taken from the row of the token, never from the URL. webd refuses unknown tokens. */
export async function linkFolderOf(host: InstanceHost, url: string): Promise<string | undefined> {
  const end = url.slice(TOKEN_AT).search(/[/?]/)
  const token_hash = tokenHashFromUrl(url.slice(TOKEN_AT, end < 0 ? undefined : TOKEN_AT + end), host.keyring)
  const row = token_hash && (await host.engine.read((tx) => routeTokens.find(tx, { token_hash })))
  return row && (row.target_folder ?? legacyLinkFolder(row.jid))
}

/** Does what the middleware does for other requests: error responses, metrics and the log line. */
function respondAndLog(
  context: ProxyContext,
  request: IncomingMessage,
  response: ServerResponse,
  respond: (id: string) => Promise<number>,
): void {
  const onFault = context.host.faults.handler('connection', () => response.destroy())
  answerAndLog(context, request, response, respond).catch(onFault)
}

async function answerAndLog(
  { host, log, metrics, isTrustedProxy }: ProxyContext,
  request: IncomingMessage,
  response: ServerResponse,
  respond: (id: string) => Promise<number>,
): Promise<void> {
  const started = performance.now()
  const id = acceptRequestId(joinedHeader(request, 'x-request-id'), host)
  const { method = '', url = '' } = request
  let status = 500
  let reason: string | undefined
  try {
    status = await respond(id)
  } catch (error) {
    const isRefusal = error instanceof Refusal
    if (!isRefusal) log.error({ request: id, err: error }, 'internal error')
    const refusal = isRefusal ? error : new Refusal('unavailable', 'internal error')
    reason = refusal.message
    status = sendRefusal(request, response, refusal, id)
  }
  const ms = performance.now() - started
  metrics.add(method, status, ms)
  const remote = resolveClientAddress(isTrustedProxy, request)
  logRequest(log, { method, path: rawPath(url), status, ms, request: id, remote, reason })
}

const SECURITY_HEADERS = {
  'Cache-Control': 'no-store',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
}

function sendRefusal(request: IncomingMessage, response: ServerResponse, refusal: Refusal, id: string): number {
  const { problem, headers } = problemOf(publicRefusal(refusal))
  if (response.headersSent || response.destroyed) return problem.status
  const isOpenai = OPENAI.test(request.url ?? '')
  const page = !isOpenai && prefersHtml(request.headers.accept) ? problemPage(problem) : undefined
  const body = page?.body ?? JSON.stringify(isOpenai ? openaiErrorOf(problem) : problem)
  response.writeHead(problem.status, {
    ...SECURITY_HEADERS,
    'Content-Type': isOpenai ? 'application/json' : 'application/problem+json',
    ...page?.headers,
    ...headers,
    'X-Request-Id': id,
    'Content-Length': Buffer.byteLength(body),
    // Discard the rest of the body.
    ...(request.complete ? {} : { Connection: 'close' }),
  })
  response.end(request.method === 'HEAD' ? undefined : body)
  return problem.status
}
