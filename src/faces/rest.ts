// Mounts the verbs of resources as REST routes, from their declarations alone.
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
import { createResponseFilter, type ResponseFilter } from './response-filter.ts'
import { parseQueryString, parseTextInput } from './text-input.ts'

/** Returns the caller of a request, or refuses. */
export type RequestAuthenticator = (c: HonoContext) => RequestContext | Promise<RequestContext>

type Members = Record<string, unknown>

export function mountRest(app: Hono, resources: readonly Resource[], authenticate: RequestAuthenticator): void {
  for (const operation of resources.flatMap(httpOperations)) {
    const { method, path, verb, parameters } = operation
    const inPath = parameters.flatMap(({ members }) => members)
    const mask: Record<string, true> = Object.fromEntries(inPath.map((name) => [name, true]))
    const key = verb.input.pick(mask)
    const filter = verb.output && createResponseFilter(verb.output)
    app.on(method, path.replace(/\{(\w+)\}/g, ':$1'), (c) => handleRequest(c, { operation, key, filter, authenticate }))
  }
}

interface MountedRoute {
  operation: Operation
  /** Schema of the input members in the path. */
  key: z.ZodObject
  filter: ResponseFilter | undefined
  authenticate: RequestAuthenticator
}

async function handleRequest(c: HonoContext, route: MountedRoute): Promise<Response> {
  const { operation, filter, authenticate } = route
  const { verb } = operation
  // Before the input is read, so that its errors reveal nothing to anonymous clients.
  const context = await authenticate(c)
  const reply = await callVerb(context, verb, await readInput(c.req.raw, route))
  const headers = { 'Cache-Control': 'no-store' }
  return filter ? c.json(filter(reply), verb.status ?? 200, headers) : c.body(null, 204, headers)
}

async function readInput(request: Request, { operation, key }: MountedRoute): Promise<Members> {
  const { method, verb } = operation
  const { search, pathname } = new URL(request.url)
  const path = parseTextInput(verb.input, pathTexts(pathname, operation))
  const parsedKey = key.safeParse(path)
  // An invalid key, such as one that was encoded twice, cannot exist.
  if (!parsedKey.success) refuse('not_found', `nothing is at this path: ${formatIssues(parsedKey.error.issues)}`)
  const query = parseTextInput(verb.input, parseQueryString(search))
  for (const name of Object.keys(query)) {
    // Proxies log URLs.
    if (isMarked(verb.input, name, 'writeOnly')) refuse('invalid', `${name} must be in the request body`)
  }
  const body = method === 'GET' ? {} : await readJsonObject(request)
  const input = mergeMembers(query, body, path)
  if (method === 'PATCH' && Object.keys(input).length === Object.keys(path).length)
    refuse('invalid', 'nothing to change: give at least one field')
  return input
}

/** A member may be given twice, such as in the path and in the body, with equal values. */
function mergeMembers(...sources: Members[]): Members {
  const all = new Map<string, unknown>()
  for (const [name, value] of sources.flatMap((source) => Object.entries(source))) {
    if (all.has(name) && all.get(name) !== value) refuse('invalid', `${name} is given twice, with different values`)
    all.set(name, value)
  }
  return Object.fromEntries(all)
}

/** Decodes each parameter once, so that "%2F" is part of the value. Counts from the end: a proxy may have added a prefix. */
function pathTexts(pathname: string, { path, parameters }: Operation): Record<string, string> {
  const segments = pathname.split('/')
  const template = path.split('/')
  const offset = segments.length - template.length
  return Object.assign(
    {},
    ...parameters.map(({ name, members }) =>
      decodeKey(members, decodeSegment(name, segments[offset + template.indexOf(`{${name}}`)] ?? '')),
    ),
  )
}

function decodeSegment(name: string, segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return refuse('invalid', `${name} is not properly URL-encoded`)
  }
}
