// The server of this machine to which a browser returns after signing in (RFC 8252). It takes one response and ends.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Refusal } from '../../lib/refusal.ts'

const CALLBACK_PATH = '/callback'

export interface LoopbackServer extends AsyncDisposable {
  readonly redirectUri: string
  /** Waits for the browser and passes its URL to `finish`, whose outcome the browser shows. */
  receive<T>(finish: (url: URL) => Promise<T>, signal: AbortSignal): Promise<T>
}

/** Requests with another `state` are refused and do not end the wait: any page in the browser could send them. */
export async function openLoopbackServer(state: string): Promise<LoopbackServer> {
  const returned = Promise.withResolvers<{ url: URL; response: ServerResponse }>()
  const server = createServer((request, response) => {
    const url = callbackUrl(request)
    if (request.method !== 'GET' || url?.pathname !== CALLBACK_PATH) return sendText(response, 404, 'Not found.')
    if (url.searchParams.get('state') !== state) return sendText(response, 400, 'This is not a response to svc login.')
    returned.resolve({ url, response })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : undefined
  return {
    redirectUri: `http://127.0.0.1:${port}${CALLBACK_PATH}`,
    receive: async (finish, signal) => {
      const aborted = Promise.withResolvers<never>()
      const abort = (): void => aborted.reject(signal.reason)
      if (signal.aborted) abort()
      signal.addEventListener('abort', abort)
      const { url, response } = await Promise.race([returned.promise, aborted.promise])
      // A second response, such as a reload of the page, finds no server.
      server.close()
      try {
        const result = await finish(url)
        await endWithText(response, 200, 'You are signed in. You can close this window.')
        return result
      } catch (error) {
        const reason = error instanceof Refusal ? error.message : 'an internal error'
        await endWithText(response, 400, `Signing in failed: ${reason}. The terminal has the details.`)
        throw error
      }
    },
    [Symbol.asyncDispose]: async () => {
      server.close()
      server.closeAllConnections()
    },
  }
}

function callbackUrl({ url = '' }: IncomingMessage): URL | null {
  return URL.parse(url, 'http://127.0.0.1')
}

function endWithText(response: ServerResponse, status: number, text: string): Promise<void> {
  return new Promise((resolve) => {
    // The browser may have gone away.
    response.once('close', resolve)
    sendText(response, status, text)
  })
}

/** Plain text, because the reason of a failure comes from the server. */
function sendText(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, {
    'Content-Type': 'text/plain; charset=utf-8',
    'X-Content-Type-Options': 'nosniff',
    'Cache-Control': 'no-store',
    Connection: 'close',
  })
  response.end(`${text}\n`)
}
