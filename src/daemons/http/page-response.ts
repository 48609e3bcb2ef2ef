// Sends pages for people, and refusals as pages.
import type { Context, Handler } from 'hono'
import { prefersHtml, problemOf } from '../../lib/http/http.ts'
import { publicRefusal, Refusal } from '../../lib/refusal.ts'
import type { HtmlPage } from '../../web/chat/page.ts'
import { messagePage } from '../../web/pages/page.ts'

export function sendPage(c: Context, { status, headers, body }: HtmlPage): Response {
  const response = new Response(c.req.method === 'HEAD' ? null : body, { status, headers })
  return response
}

export function redirectTo(location: string, headers: Record<string, string> = {}): Response {
  return new Response(null, { status: 303, headers: { Location: location, 'Cache-Control': 'no-store', ...headers } })
}

/** Refusals of `handler` become pages for browsers; other clients get problem documents. */
export function pageHandler(handler: (c: Context) => Response | Promise<Response>): Handler {
  return async (c) => {
    try {
      return await handler(c)
    } catch (error) {
      if (!(error instanceof Refusal) || !prefersHtml(c.req.header('Accept'))) throw error
      // The middleware logs the reason.
      c.error = error
      const { problem, headers } = problemOf(publicRefusal(error))
      const { title, detail: text, hint, status } = problem
      const page = messagePage({ title, text, hint, status })
      return sendPage(c, { ...page, headers: { ...headers, ...page.headers } })
    }
  }
}
