// Handles a request to a path of rows: matches it once against one snapshot of the table, authorizes it, and responds.
import type { IncomingMessage } from 'node:http'
import type { Context } from 'hono'
import { selfAndAncestors } from '../../core/access/tiers.ts'
import { groups } from '../../core/groups/groups.ts'
import { prefersHtml, problemOf, problemResponse } from '../../lib/http/http.ts'
import { publicRefusal, Refusal, refuse } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'
import { type Authentication, authenticateRequest } from '../http/credentials.ts'
import { forwardedHeaders } from '../http/forwarded-headers.ts'
import { formatSessionCookie, withoutSessionCookie, withoutSessionCookies } from '../http/session-cookie.ts'
import { encodeLocation, upstreamHeaders } from '../http/upstream-headers.ts'
import { fileResponse } from './file-response.ts'
import type { ProxyContext } from './link-proxy.ts'
import { frontPage, problemPage, ROOT_DOCUMENT } from './pages.ts'
import { findFile, splitPath } from './published-files.ts'
import { authenticateVisitor, authorize, identityHeaders } from './request-auth.ts'
import type { RequestTarget } from './request-target.ts'
import { type ProxyRouteTable, type ProxyRouteTableReader, type RouteMatch, strictest } from './route-table.ts'

export interface DispatchContext extends ProxyContext {
  readonly routeTable: ProxyRouteTableReader
}

type RouteMatchOf<Kind extends RouteMatch['kind']> = Extract<RouteMatch, { kind: Kind }>

/** Sends browsers to the sign-in page where that helps, and other refusals as a page; other clients get a problem document. */
export async function dispatchRequest(
  context: DispatchContext,
  c: Context,
  incoming: IncomingMessage,
  target: RequestTarget,
): Promise<Response> {
  try {
    return await handleMatch(context, c, incoming, target)
  } catch (error) {
    if (!(error instanceof Refusal) || !prefersHtml(c.req.header('Accept'))) throw error
    // The middleware logs the reason.
    c.error = error
    if (needsSignIn(c, error)) return redirectToSignIn(target)
    const { problem, headers } = problemOf(c.get('caller') ? error : publicRefusal(error))
    const page = problemPage(problem)
    return new Response(page.body, { status: page.status, headers: { Vary: 'Accept', ...headers, ...page.headers } })
  }
}

/** Signing in helps neither a bearer that is not valid nor a person without the right. */
function needsSignIn(c: Context, { code }: Refusal): boolean {
  const isBearer = /^bearer\b/i.test(c.req.header('Authorization') ?? '')
  return code === 'unauthenticated' && c.req.method === 'GET' && !isBearer
}

function redirectToSignIn({ path, query }: RequestTarget): Response {
  const Location = `/auth/sign-in?next=${encodeURIComponent(`${path.text}${query}`)}`
  return new Response(null, { status: 303, headers: { Location, Vary: 'Accept, Cookie' } })
}

async function handleMatch(
  context: DispatchContext,
  c: Context,
  incoming: IncomingMessage,
  target: RequestTarget,
): Promise<Response> {
  const { host, routeTable } = context
  const { path } = target
  const { table, match, segments, folder } = await host.engine.read(async (tx) => {
    const table = await routeTable.read(tx)
    const match = table.match(hostOf(incoming), path)
    const segments = match?.kind === 'files' && path.isUtf8 ? splitPath(match.path) : undefined
    return { table, match, segments, folder: segments && (await deepestFolder(tx, segments)) }
  })
  if (!match) return path.text === '/' ? sendRoot(host, c) : nothingHere()
  if (match.kind === 'denied') return refuseClosed()
  const auth = match.kind === 'backend' ? match.route.auth : match.auth
  // Backends learn who calls; all other public paths need no caller.
  const isAnonymous = auth === 'public' && match.kind !== 'backend'
  const authentication = isAnonymous ? {} : await authenticateVisitor(host, c, incoming, auth)
  if (match.kind === 'files') {
    // Authorize before the lookup: a refusal must not reveal which files exist.
    await authorize(host, authentication, auth, folder ?? match.path.slice(1))
    if (!segments || folder === undefined) return nothingHere()
    return sendFile(context, c, { table, match, segments, folder, incoming, target })
  }
  await authorize(host, authentication, auth)
  if (match.kind === 'redirect') return sendRedirect(match, target)
  return forwardToBackend(context, c, { match, incoming, authentication, target })
}

function refuseClosed(): never {
  refuse('forbidden', 'this path is closed')
}

function nothingHere(): never {
  refuse('not_found', 'there is nothing at this path')
}

/** The Host header in lower case, without the trailing dot of an absolute name. */
function hostOf({ headers: { host = '' } }: IncomingMessage): string {
  return host.toLowerCase().replace(/\.(?=:\d*$|$)/, '')
}

/** The longest prefix of the path that is an existing folder. */
async function deepestFolder(tx: Tx, segments: readonly string[]): Promise<string | undefined> {
  for (const folder of selfAndAncestors(segments.filter(Boolean).slice(0, 8).join('/')).reverse()) {
    if (folder !== '' && (await groups.find(tx, { folder }))) return folder
  }
  return undefined
}

async function sendRoot(host: InstanceHost, c: Context): Promise<Response> {
  if (c.req.method !== 'GET' && c.req.method !== 'HEAD') return getOnly()
  if (!prefersHtml(c.req.header('Accept'))) return c.json(ROOT_DOCUMENT, 200, { Vary: 'Accept' })
  const { caller } = await authenticateRequest(host, c)
  const { status, headers, body } = frontPage(caller?.kind === 'person' ? caller.sub : undefined)
  return new Response(c.req.method === 'HEAD' ? null : body, { status, headers: { ...headers, Vary: 'Accept' } })
}

function getOnly(): Response {
  return problemResponse(new Refusal('not_allowed', 'this path allows only GET, HEAD'), { Allow: 'GET, HEAD' })
}

/** A temporary redirect, because rows change. */
function sendRedirect({ to, keepsQuery }: RouteMatchOf<'redirect'>, { query }: RequestTarget): Response {
  const Location = encodeLocation(keepsQuery ? `${to}${query}` : to)
  return new Response(null, { status: 307, headers: { Location } })
}

interface FileRequest {
  readonly table: ProxyRouteTable
  readonly match: RouteMatchOf<'files'>
  readonly segments: readonly string[]
  readonly folder: string
  readonly incoming: IncomingMessage
  readonly target: RequestTarget
}

async function sendFile(context: DispatchContext, c: Context, request: FileRequest): Promise<Response> {
  const { layout } = context.host
  const { match, segments, folder, target } = request
  const { method } = c.req
  if (method !== 'GET' && method !== 'HEAD') return getOnly()
  if (!layout) return nothingHere()
  const found = await findFile(match.slot === 'pub' ? layout.webPub : layout.webPriv, folder, segments)
  if (!found) return nothingHere()
  if (found === 'directory') {
    const Location = encodeLocation(`${target.path.text}/${target.query}`)
    return new Response(null, { status: 308, headers: { Location, 'Cache-Control': 'no-cache' } })
  }
  try {
    const isPublic = await authorizeOpenFile(context, c, request, found.file.segments)
    return fileResponse(found.file, { method, isPublic, header: (name) => c.req.header(name) })
  } catch (error) {
    await found.file.handle.close()
    throw error
  }
}

/** An index or a symbolic link may be a file that other rows protect. Returns whether everyone may read it. */
async function authorizeOpenFile(
  { host }: DispatchContext,
  c: Context,
  { table, match, segments, incoming }: FileRequest,
  real: readonly string[],
): Promise<boolean> {
  const auth = strictest(match.auth, table.accessToFile(match.slot, `/${real.join('/')}`))
  if (auth === 'denied') return refuseClosed()
  if (auth === 'public') return true
  if (auth === match.auth && real.join('/') === segments.join('/')) return false
  const folder = await host.engine.read((tx) => deepestFolder(tx, real))
  await authorize(host, await authenticateVisitor(host, c, incoming, auth), auth, folder)
  return false
}

interface BackendRequest {
  readonly match: RouteMatchOf<'backend'>
  readonly incoming: IncomingMessage
  readonly authentication: Authentication
  readonly target: RequestTarget
}

const AUTHORIZATION = new Set(['authorization'])

async function forwardToBackend(
  { host, peers, isTrustedProxy }: DispatchContext,
  c: Context,
  request: BackendRequest,
): Promise<Response> {
  const { match, incoming, authentication, target } = request
  const { route } = match
  const isBearer = /^bearer /i.test(incoming.headers.authorization ?? '')
  const added = {
    ...forwardedHeaders(isTrustedProxy, incoming, c.get('requestId')),
    ...(await identityHeaders(host, authentication)),
  }
  const headers = upstreamHeaders(incoming.rawHeaders, added, {
    preserve: new Set(route.preserve_headers?.map((name) => name.toLowerCase())),
    // A bearer or session of this instance is valid for more than this backend.
    ...(authentication.caller && isBearer ? { drop: AUTHORIZATION } : {}),
    filterCookies: (value) => withoutSessionCookie(host, value),
  })
  const { renewedToken } = authentication
  const renewed = renewedToken === undefined ? [] : ['Set-Cookie', formatSessionCookie(host, renewedToken)]
  return peers.forward(
    {
      name: `the backend of ${route.path}`,
      url: new URL(match.backend),
      method: c.req.method,
      target: `${match.path}${target.query}`,
      headers,
      rewriteResponse: (rawHeaders) => [...withoutSessionCookies(host, rawHeaders), ...renewed],
    },
    c,
  )
}
