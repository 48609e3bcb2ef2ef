// The instance `demo` of a command line, served in this process behind a made-up OAuth server, as a remote machine.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { TestContext } from 'node:test'
import { findInstance, openInstance } from '../../src/cli/instance/instance.ts'
import { issueBearer } from '../../src/core/access/bearers.ts'
import { serve } from '../../src/daemons/serve.ts'
import { systemClock } from '../../src/lib/clock.ts'
import { openLog } from '../../src/lib/log/log.ts'
import { sourceOf } from '../../src/lib/settings.ts'
import type { Cli, Ran, RunOptions } from './cli.ts'

/** Behaviour that tests change. */
export interface RemoteServer {
  readonly base: string
  /** Person who signs in. */
  sub: string
  /** Lifetime of access tokens. */
  expiresInS: number
  /** Metadata that replace the right ones. */
  metadata: Record<string, unknown>
  /** Parameters of the redirect to the client, instead of the right ones. */
  callback: Record<string, string>
  /** Responses to polls with a device code, before the tokens. */
  readonly pollErrors: string[]
  /** The refresh token that is valid now. */
  refreshToken: string | undefined
  /** Called before the response to a refresh. */
  onRefresh: () => void
  /** Forms of the requests to the token endpoint and to revoke. */
  readonly forms: Record<string, string>[]
}

export async function remoteServer(t: TestContext, cli: Cli): Promise<RemoteServer> {
  const backend = await serveInstance(t, cli)
  const server = createServer((request, response) => void handle(request, response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const state: RemoteServer = {
    base,
    sub: 'github:1',
    expiresInS: 900,
    metadata: {},
    callback: {},
    pollErrors: [],
    refreshToken: undefined,
    onRefresh: () => {},
    forms: [],
  }
  let challenge = ''
  let rotations = 0
  const issue = async (): Promise<object> => {
    state.refreshToken = `refresh-${++rotations}`
    return {
      access_token: await issueBearer(backend.host, { sub: state.sub }),
      token_type: 'Bearer',
      expires_in: state.expiresInS,
      refresh_token: state.refreshToken,
    }
  }
  const endpoints: Record<string, (url: URL, form: Record<string, string>) => Promise<[number, object]>> = {
    '/.well-known/oauth-authorization-server': async () => [
      200,
      {
        issuer: base,
        authorization_endpoint: `${base}/auth/authorize`,
        token_endpoint: `${base}/auth/token`,
        device_authorization_endpoint: `${base}/auth/device_authorization`,
        revocation_endpoint: `${base}/auth/revoke`,
        response_types_supported: ['code'],
        code_challenge_methods_supported: ['S256'],
        authorization_response_iss_parameter_supported: true,
        ...state.metadata,
      },
    ],
    '/auth/device_authorization': async () => [
      200,
      {
        device_code: 'device',
        user_code: 'WXYZ-1234',
        verification_uri: `${base}/auth/device`,
        expires_in: 60,
        interval: 1,
      },
    ],
    '/auth/token': async (_url, form) => {
      state.forms.push(form)
      assert.deepEqual([form.client_id, form.resource], ['svc-cli', `${base}/v1`])
      if (form.grant_type === 'refresh_token') {
        state.onRefresh()
        return form.refresh_token === state.refreshToken ? [200, await issue()] : [400, { error: 'invalid_grant' }]
      }
      const isCode = form.grant_type === 'authorization_code'
      const error = isCode ? undefined : state.pollErrors.shift()
      if (error !== undefined) return [400, { error }]
      if (isCode)
        assert.equal(
          createHash('sha256')
            .update(form.code_verifier ?? '')
            .digest('base64url'),
          challenge,
        )
      return [200, await issue()]
    },
    '/auth/revoke': async (_url, form) => {
      state.forms.push(form)
      if (form.token === state.refreshToken) state.refreshToken = undefined
      return [200, {}]
    },
  }
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const url = new URL(request.url ?? '', base)
    const body = await text(request)
    if (url.pathname === '/auth/authorize') {
      const query = Object.fromEntries(url.searchParams)
      challenge = query.code_challenge ?? ''
      const callback = { code: 'code', state: query.state ?? '', iss: base, ...state.callback }
      response.writeHead(302, { Location: `${query.redirect_uri}?${new URLSearchParams(callback)}` }).end()
      return
    }
    const endpoint = endpoints[url.pathname]
    if (endpoint) {
      const [status, json] = await endpoint(url, Object.fromEntries(new URLSearchParams(body)))
      response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(json))
      return
    }
    const headers = { Authorization: request.headers.authorization ?? '', 'Content-Type': 'application/json' }
    const init = { method: request.method ?? 'GET', headers, ...(body === '' ? {} : { body }) }
    const answer = await fetch(`${backend.url}${request.url}`, init)
    response.writeHead(answer.status, { 'Content-Type': answer.headers.get('content-type') ?? '' })
    response.end(await answer.text())
  }
  return state
}

async function serveInstance(t: TestContext, cli: Cli) {
  const environment = sourceOf('the test', new Map([['SVC_DATA_DIR', cli.dir]]))
  const host = await openInstance(await findInstance('demo', environment), { clock: systemClock })
  const served = await serve({
    host,
    sources: [sourceOf('the test', new Map([['WEB_LISTEN', '127.0.0.1:0']]))],
    print: () => {},
    log: await openLog({ to: { write: () => {} } }),
  })
  t.after(() => served.close())
  return { host, url: served.urls.proxyd ?? assert.fail('no proxyd') }
}

/** Runs `svc login` and opens the printed address like a browser. `pages` gets the bodies that the browser shows. */
export async function loginWithBrowser(cli: Cli, line: string, pages: string[] = []): Promise<Ran> {
  const browsing: Promise<void>[] = []
  const heardError = (text: string): void => {
    const url = /^ {2}(http\S+\/auth\/authorize\?\S+)$/m.exec(text)?.[1]
    if (url !== undefined) browsing.push(fetch(url).then(async (page) => void pages.push(await page.text())))
  }
  const options: RunOptions = { heardError, stopped: new Promise<void>(() => {}) }
  const ran = await cli.run(line, options)
  await Promise.all(browsing)
  return ran
}
