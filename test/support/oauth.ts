// An OAuth client of a served instance: registration, authorization with PKCE by a signed-in person, and tokens.
import { hash } from 'node:crypto'
import type { ServedHost } from './served-host.ts'
import type { SignedInBrowser } from './sign-in.ts'

export const VERIFIER = 'v'.repeat(43)
export const CHALLENGE = hash('sha256', VERIFIER, 'base64url')
export const REDIRECT = 'http://127.0.0.1:7777/callback'

export type JsonAnswer = Record<string, unknown> & { status: number }

/** Posts a form to an endpoint for programs, without cookies, and returns the JSON with its status. */
export async function postOauth(
  served: ServedHost,
  path: string,
  fields: Record<string, string>,
  headers: Record<string, string> = {},
): Promise<JsonAnswer> {
  const response = await fetch(served.url() + path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/x-www-form-urlencoded', ...headers },
    body: new URLSearchParams(fields),
  })
  return { ...JSON.parse(await response.text()), status: response.status }
}

export async function registerOauthClient(served: ServedHost, body: unknown): Promise<JsonAnswer> {
  const response = await fetch(`${served.url()}/auth/register`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  return { ...JSON.parse(await response.text()), status: response.status }
}

/** Parameters of a valid authorization request of the built-in client. */
export function authorization(changes: Record<string, string | undefined> = {}): Record<string, string> {
  const all = {
    client_id: 'svc-cli',
    redirect_uri: REDIRECT,
    response_type: 'code',
    code_challenge: CHALLENGE,
    code_challenge_method: 'S256',
    state: 'a state',
    ...changes,
  }
  return Object.fromEntries(
    Object.entries(all).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  )
}

/** The person presses "Allow"; returns the parameters of the answer. */
export async function allow(browser: SignedInBrowser, parameters: Record<string, string>): Promise<URLSearchParams> {
  const response = await browser.post('/auth/authorize', { ...parameters, decision: 'allow' })
  const location = response.headers.get('location')
  if (response.status !== 303 || location === null)
    throw new Error(`not redirected: ${response.status} ${await response.text()}`)
  return new URL(location).searchParams
}

export function codeExchange(code: string, changes: Record<string, string> = {}): Record<string, string> {
  return {
    grant_type: 'authorization_code',
    client_id: 'svc-cli',
    code,
    redirect_uri: REDIRECT,
    code_verifier: VERIFIER,
    ...changes,
  }
}

export interface IssuedTokens {
  readonly access: string
  readonly refresh: string
}

export async function signInClient(
  served: ServedHost,
  browser: SignedInBrowser,
  changes: Record<string, string> = {},
): Promise<IssuedTokens> {
  const parameters = authorization(changes)
  const code = (await allow(browser, parameters)).get('code') ?? ''
  const { client_id = '', redirect_uri = '' } = parameters
  const answer = await postOauth(served, '/auth/token', codeExchange(code, { client_id, redirect_uri }))
  if (answer.status !== 200) throw new Error(JSON.stringify(answer))
  return { access: String(answer.access_token), refresh: String(answer.refresh_token) }
}

export function refreshTokens(served: ServedHost, token: string, changes: Record<string, string> = {}) {
  const fields = { grant_type: 'refresh_token', client_id: 'svc-cli', refresh_token: token, ...changes }
  return postOauth(served, '/auth/token', fields)
}
