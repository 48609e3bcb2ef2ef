// One request at a path that is none of the daemons': decided once, from one picture of the rows, then judged and answered.
import type { IncomingMessage } from 'node:http'
import type { Context } from 'hono'
import { groups } from '../../core/groups.ts'
import { ancestry } from '../../core/tiers.ts'
import { prefersHtml, problem, problemOf } from '../../lib/http.ts'
import { publicRefusal, Refusal, refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { locationText, onwardHeaders } from '../headers.ts'
import { hopOf } from '../hop.ts'
import type { DoorReader, Place } from './door.ts'
import { answerFile } from './file-answer.ts'
import { findFile, segmentsOf } from './files.ts'
import type { Around } from './links.ts'
import { PAGE_TYPE, problemPage, ROOT_DOCUMENT, ROOT_PAGE } from './page.ts'
import { isPlain, type Target } from './target.ts'
import { identityOf, mustPass, type Visitor, visitorOf } from './visitor.ts'

export interface Entry extends Around {
  readonly rows: DoorReader
}

type At<Kind extends Place['kind']> = Extract<Place, { kind: Kind }>

/** A refusal is a page to a browser, and a problem to everybody else. */
export async function enter(entry: Entry, c: Context, incoming: IncomingMessage, target: Target): Promise<Response> {
  try {
    return await answer(entry, c, incoming, target)
  } catch (error) {
    if (!(error instanceof Refusal) || !prefersHtml(c.req.header('Accept'))) throw error
    // For the log line, which says why.
    c.error = error
    const { problem, headers } = problemOf(c.get('caller') ? error : publicRefusal(error))
    return new Response(problemPage(problem), {
      status: problem.status,
      headers: { 'Content-Type': PAGE_TYPE, Vary: 'Accept', ...headers },
    })
  }
}

async function answer(entry: Entry, c: Context, incoming: IncomingMessage, target: Target): Promise<Response> {
  const { host, rows } = entry
  const { path } = target
  if (!isPlain(path)) nothingHere()
  const { place, segments, folder } = await host.engine.read(async (tx) => {
    const place = (await rows.read(tx)).at(hostOf(incoming), path)
    const segments = place?.kind === 'files' ? segmentsOf(place.path) : undefined
    return { place, segments, folder: segments && (await deepestFolder(tx, segments)) }
  })
  if (!place) return path === '/' ? root(c) : nothingHere()
  if (place.kind === 'denied') return refuse('forbidden', 'this path is closed')
  const visitor = await visitorOf(host, c.req.header('Authorization'))
  if (visitor.caller) c.set('caller', visitor.caller)
  if (place.kind === 'files') {
    // Whoever may not look does not learn what is there either.
    await mustPass(host, visitor, place.auth, folder ?? place.path.slice(1))
    return segments && folder !== undefined ? files(entry, c, { place, segments, folder, target }) : nothingHere()
  }
  await mustPass(host, visitor, place.kind === 'backend' ? place.route.auth : place.auth)
  if (place.kind === 'redirect') return redirect(place, target)
  return backend(entry, c, { place, incoming, visitor, target })
}

function nothingHere(): never {
  refuse('not_found', 'there is nothing at this path')
}

/** As the client wrote it, in one spelling. */
function hostOf({ headers: { host = '' } }: IncomingMessage): string {
  return host.toLowerCase().replace(/\.(?=:\d*$|$)/, '')
}

/** Of the folders that the path begins with, the longest that is there. */
async function deepestFolder(tx: Tx, segments: readonly string[]): Promise<string | undefined> {
  for (const folder of ancestry(segments.filter(Boolean).slice(0, 8).join('/')).reverse()) {
    if (folder !== '' && (await groups.find(tx, { folder }))) return folder
  }
  return undefined
}

function root(c: Context): Response {
  if (c.req.method !== 'GET' && c.req.method !== 'HEAD') return getOnly()
  const vary = { Vary: 'Accept' }
  return prefersHtml(c.req.header('Accept')) ? c.html(ROOT_PAGE, 200, vary) : c.json(ROOT_DOCUMENT, 200, vary)
}

function getOnly(): Response {
  return problem(new Refusal('not_allowed', 'this path takes GET, HEAD'), { Allow: 'GET, HEAD' })
}

/** What follows the prefix goes along, and so does the query. Not for ever: rows change. */
function redirect({ to, keepsQuery }: At<'redirect'>, { query }: Target): Response {
  const Location = locationText(keepsQuery ? `${to}${query}` : to)
  return new Response(null, { status: 307, headers: { Location } })
}

interface FileRequest {
  readonly place: At<'files'>
  readonly segments: readonly string[]
  readonly folder: string
  readonly target: Target
}

async function files({ host: { layout } }: Entry, c: Context, request: FileRequest): Promise<Response> {
  const { place, segments, folder, target } = request
  const { method } = c.req
  if (method !== 'GET' && method !== 'HEAD') return getOnly()
  if (!layout) return nothingHere()
  const found = await findFile(place.slot === 'pub' ? layout.webPub : layout.webPriv, folder, segments)
  if (!found) return nothingHere()
  if (found === 'directory') {
    const Location = locationText(`${target.path}/${target.query}`)
    return new Response(null, { status: 308, headers: { Location, 'Cache-Control': 'no-cache' } })
  }
  return answerFile(found.file, { method, isPublic: place.auth === 'public', header: (name) => c.req.header(name) })
}

interface BackendRequest {
  readonly place: At<'backend'>
  readonly incoming: IncomingMessage
  readonly visitor: Visitor
  readonly target: Target
}

const OUR_CREDENTIAL = new Set(['authorization'])

async function backend({ host, peers, trusts }: Entry, c: Context, request: BackendRequest): Promise<Response> {
  const { place, incoming, visitor, target } = request
  const { route } = place
  const said = { ...hopOf(trusts, incoming, c.get('requestId')), ...(await identityOf(host, visitor)) }
  const headers = onwardHeaders(incoming.rawHeaders, said, {
    preserve: new Set(route.preserve_headers?.map((name) => name.toLowerCase())),
    // A bearer of ours opens more doors than this one.
    ...(visitor.caller ? { drop: OUR_CREDENTIAL } : {}),
  })
  const name = `the backend of ${route.path}`
  return peers.forward(
    { name, url: new URL(place.backend), method: c.req.method, target: `${place.path}${target.query}`, headers },
    c,
  )
}
