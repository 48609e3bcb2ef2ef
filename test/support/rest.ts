// The REST face of a test host, without a port. A bearer is the sub itself, followed by "@" and its folder:
// `Bearer github:1@team`.
import { Hono } from 'hono'
import { mountRest } from '../../src/faces/rest.ts'
import { createErrorHandler, createNotFoundHandler } from '../../src/lib/http/http.ts'
import { refuse } from '../../src/lib/refusal.ts'
import type { InstanceHost, RequestContext } from '../../src/registry/context.ts'
import type { Resource } from '../../src/registry/resource.ts'

export function restApp(host: InstanceHost, resources: readonly Resource[]): Hono {
  const app = new Hono()
  app.onError(
    createErrorHandler((_, error) => {
      // Tests do not read this log.
      console.error(error)
    }),
  )
  app.notFound(createNotFoundHandler(app))
  mountRest(app, resources, (c) => asking(host, c.req.header('authorization')))
  return app
}

function asking(host: InstanceHost, authorization: string | undefined): RequestContext {
  const [, sub = '', folder] = /^Bearer ([^@]+)(?:@(.+))?$/.exec(authorization ?? '') ?? []
  if (sub === '') refuse('unauthenticated', 'a bearer is needed')
  return { host, face: 'rest', caller: { kind: 'person', sub, ...(folder ? { folder } : {}) } }
}

export interface Answer {
  status: number
  headers: Headers
  /** The JSON of the body; undefined if it is empty. */
  body: unknown
  /** The detail of a problem document. */
  detail: string
}

/** `ask('PATCH /v1/routes/1', { as: 'github:1', body: {…} })`; a body is sent as JSON. */
export async function ask(app: Hono, request: string, options: { as?: string; body?: unknown } = {}): Promise<Answer> {
  const [method = 'GET', path = '/'] = request.split(' ')
  const { as, body } = options
  const answer = await app.request(path, {
    method,
    headers: {
      ...(as === undefined ? {} : { Authorization: `Bearer ${as}` }),
      ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  const text = await answer.text()
  const read: unknown = text === '' ? undefined : JSON.parse(text)
  const detail = typeof read === 'object' && read !== null && 'detail' in read ? String(read.detail) : ''
  return { status: answer.status, headers: answer.headers, body: read, detail }
}
