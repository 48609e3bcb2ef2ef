// Responses of the OAuth endpoints: JSON errors (RFC 6749 5.2), and CORS for clients in browsers.
import type { Context, Handler, Hono } from 'hono'
import { problemOf } from '../../../lib/http/http.ts'
import { publicRefusal, Refusal } from '../../../lib/refusal.ts'

/** An error that the client reads; `description` is for its developer. */
export class OauthError extends Error {
  readonly error: string
  readonly status: number

  constructor(error: string, description: string, status = 400) {
    super(description)
    this.name = 'OauthError'
    this.error = error
    this.status = status
  }
}

/** For endpoints that programs call: every failure is a JSON object with `error`. */
export function oauthHandler(handler: (c: Context) => Promise<Response>): Handler {
  return async (c) => {
    try {
      return await handler(c)
    } catch (error) {
      if (error instanceof OauthError) return errorResponse(error)
      if (!(error instanceof Refusal)) throw error
      // The middleware logs the reason.
      c.error = error
      const { problem, headers } = problemOf(publicRefusal(error))
      const name = problem.status === 429 || problem.status === 503 ? 'temporarily_unavailable' : 'invalid_request'
      return errorResponse(new OauthError(name, problem.detail, problem.status), headers)
    }
  }
}

function errorResponse({ error, message, status }: OauthError, headers: Record<string, string> = {}): Response {
  return jsonResponse({ error, error_description: message }, status, headers)
}

export function jsonResponse(body: object, status = 200, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), {
    status,
    headers: { 'Content-Type': 'application/json', 'Cache-Control': 'no-store', ...headers },
  })
}

const PREFLIGHT = {
  'Access-Control-Allow-Methods': 'GET, POST',
  'Access-Control-Allow-Headers': 'Authorization, Content-Type, Mcp-Protocol-Version',
  'Access-Control-Max-Age': '600',
}

/** Pages of every site may call this path, without cookies. Register it before the path's routes. */
export function allowEveryOrigin(app: Hono, path: string): void {
  app.use(path, async (c, next) => {
    await next()
    c.res.headers.set('Access-Control-Allow-Origin', '*')
  })
  app.options(path, () => new Response(null, { status: 204, headers: PREFLIGHT }))
}
