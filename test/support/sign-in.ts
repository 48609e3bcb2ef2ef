// Signs people in to a served instance, as a browser does.
import { createSignInLink } from '../../src/core/people/sign-in-links.ts'
import type { ServedHost } from './served-host.ts'

/** What signing in needs of a served instance. */
type SignInHost = Pick<ServedHost, 'host' | 'url'>

export interface SignedInBrowser {
  /** The Cookie header. */
  readonly cookie: string
  readonly csrf: string
  readonly session: string
  /** A request with the session; redirects are not followed. */
  get(path: string, headers?: Record<string, string>): Promise<Response>
  /** Posts a form with the CSRF field from the own origin. */
  post(path: string, fields?: Record<string, string>, headers?: Record<string, string>): Promise<Response>
}

export function formRequest(
  url: string,
  fields: Record<string, string>,
  headers: Record<string, string> = {},
): RequestInit {
  return {
    method: 'POST',
    redirect: 'manual',
    headers: {
      Origin: new URL(url).origin,
      Accept: 'text/html',
      'Content-Type': 'application/x-www-form-urlencoded',
      ...headers,
    },
    body: new URLSearchParams(fields).toString(),
  }
}

/** The name=value pairs of the cookies that a response sets. */
export function cookiesOf(response: Response): string {
  return response.headers
    .getSetCookie()
    .map((cookie) => cookie.split(';')[0])
    .join('; ')
}

export async function signInLink(served: SignInHost, sub: string): Promise<string> {
  const token = await served.host.engine.transaction((tx) => createSignInLink(tx, served.host, sub))
  return `${served.url()}/auth/link/${token}`
}

export async function signIn(served: SignInHost, sub: string): Promise<SignedInBrowser> {
  const link = await signInLink(served, sub)
  const response = await fetch(link, formRequest(link, {}))
  const cookie = cookiesOf(response)
  if (response.status !== 303 || cookie === '')
    throw new Error(`signing in failed: ${response.status} ${await response.text()}`)
  return browserOf(served, cookie)
}

/** A browser with this session cookie. */
export async function browserOf(served: SignInHost, cookie: string): Promise<SignedInBrowser> {
  const get = (path: string, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(served.url() + path, { redirect: 'manual', headers: { Accept: 'text/html', Cookie: cookie, ...headers } })
  const me: { csrf: string; session: string } = JSON.parse(
    await (await get('/auth/me', { Accept: 'application/json' })).text(),
  )
  return {
    cookie,
    csrf: me.csrf,
    session: me.session,
    get,
    post: (path, fields = {}, headers = {}) =>
      fetch(
        served.url() + path,
        formRequest(served.url(), { csrf: me.csrf, ...fields }, { Cookie: cookie, ...headers }),
      ),
  }
}
