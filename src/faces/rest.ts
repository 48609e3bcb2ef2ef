// Verbs as routes. It knows no resource: who asks comes from `ask`, everything else from the declaration.
import type { Hono, Context as HonoContext } from 'hono'
import type { z } from 'zod'
import { readJsonObject } from '../lib/http/http.ts'
import { refuse } from '../lib/refusal.ts'
import { formatIssues } from '../lib/text/schema-parser.ts'
import { callVerb } from '../registry/call.ts'
import type { RequestContext } from '../registry/context.ts'
import { isMarked } from '../registry/crud.ts'
import type { Resource } from '../registry/resource.ts'
import { decodeKey } from '../registry/url-key.ts'
import { httpOperations, type Operation } from './operations.ts'
import { type ResponseFilter, responseFilter } from './response-filter.ts'
import { parseQueryString, parseTextInput } from './text-input.ts'

/** Who asks: from the transport alone, or a refusal. */
export type RequestAuthenticator = (c: HonoContext) => RequestContext | Promise<RequestContext>

type Members = Record<string, unknown>

export function mountRest(app: Hono, resources: readonly Resource[], ask: RequestAuthenticator): void {
  for (const operation of resources.flatMap(httpOperations)) {
    const { method, path, verb, parameters } = operation
    const carried = parameters.flatMap(({ members }) => members)
    const named: Record<string, true> = Object.fromEntries(carried.map((name) => [name, true]))
    const key = verb.input.pick(named)
    const show = verb.output && responseFilter(verb.output)
    app.on(method, path.replace(/\{(\w+)\}/g, ':$1'), (c) => handleRequest(c, { operation, key, show, ask }))
  }
}

interface MountedRoute {
  operation: Operation
  /** The part of the input that the path carries. */
  key: z.ZodObject
  show: ResponseFilter | undefined
  ask: RequestAuthenticator
}

async function handleRequest(c: HonoContext, mounted: MountedRoute): Promise<Response> {
  const { operation, show, ask } = mounted
  const { verb } = operation
  // First, so that a stranger learns nothing about what the path would take.
  const asking = await ask(c)
  const reply = await callVerb(asking, verb, await readInput(c.req.raw, mounted))
  const headers = { 'Cache-Control': 'no-store' }
  return show ? c.json(show(reply), verb.status ?? 200, headers) : c.body(null, 204, headers)
}

async function readInput(request: Request, { operation, key }: MountedRoute): Promise<Members> {
  const { method, verb } = operation
  const { search, pathname } = new URL(request.url)
  const path = parseTextInput(verb.input, pathTexts(pathname, operation))
  const named = key.safeParse(path)
  // What cannot be a key names nothing, such as a key that was encoded twice.
  if (!named.success) refuse('not_found', `nothing is at this path: ${formatIssues(named.error.issues)}`)
  const query = parseTextInput(verb.input, parseQueryString(search))
  for (const name of Object.keys(query)) {
    // URLs are logged on the way.
    if (isMarked(verb.input, name, 'writeOnly')) refuse('invalid', `${name} must stand in the body`)
  }
  const body = method === 'GET' ? {} : await readJsonObject(request)
  const all = merged(query, body, path)
  if (method === 'PATCH' && Object.keys(all).length === Object.keys(path).length)
    refuse('invalid', 'there is nothing to change: name at least one member')
  return all
}

/** A member may be said twice, in the path and in the body, as long as it says the same. */
function merged(...sources: Members[]): Members {
  const all = new Map<string, unknown>()
  for (const [name, value] of sources.flatMap((source) => Object.entries(source))) {
    if (all.has(name) && all.get(name) !== value) refuse('invalid', `${name} is given twice, with different values`)
    all.set(name, value)
  }
  return Object.fromEntries(all)
}

/**
 * A parameter is one segment, decoded once, here: "%2F" is part of the value and "%252F" another value. Counted from the
 * end, because a front door may have put something before.
 */
function pathTexts(pathname: string, { path, parameters }: Operation): Record<string, string> {
  const segments = pathname.split('/')
  const places = path.split('/')
  const offset = segments.length - places.length
  return Object.assign(
    {},
    ...parameters.map(({ name, members }) =>
      decodeKey(members, decoded(name, segments[offset + places.indexOf(`{${name}}`)] ?? '')),
    ),
  )
}

function decoded(name: string, segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return refuse('invalid', `${name} is not properly URL-encoded`)
  }
}
