// Sessions at the API: reading works, writing needs the CSRF header, and a session is never a service.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { json } from '../../../test/support/link-host.ts'
import { type ServedHost, serveHost } from '../../../test/support/served-host.ts'
import { type SignedInBrowser, signIn } from '../../../test/support/sign-in.ts'
import { messages } from '../../core/messages/messages.ts'
import { secrets } from '../../core/secrets/secrets.ts'
import { CSRF_HEADER } from './credentials.ts'

interface Api extends ServedHost {
  readonly ada: SignedInBrowser
  send(path: string, headers: Record<string, string>, body: object, method?: string): Promise<Response>
}

/** Ada administers `team`. */
async function openApi(t: TestContext, settings: Record<string, string> = {}): Promise<Api> {
  const served = await serveHost(t, { settings })
  await served.groups('main', 'team')
  await served.grant('local:ada', 'admin', 'team')
  return {
    ...served,
    ada: await signIn(served, 'local:ada'),
    send: (path, headers, body, method = 'POST') => fetch(served.url() + path, { method, ...json(body, headers) }),
  }
}

const SECRET = { scope_kind: 'folder', owner: 'team', key: 'NAME', value: 'x' }
const PING = { jsonrpc: '2.0', id: 1, method: 'ping' }
const MCP = { Accept: 'application/json, text/event-stream' }

test('reads with a session, and writes with its CSRF token only', async (t) => {
  const api = await openApi(t)
  const { ada } = api
  assert.equal((await ada.get('/v1/groups', { Accept: '*/*' })).status, 200)
  assert.equal((await fetch(`${api.url()}/v1/groups`, { method: 'HEAD', headers: { Cookie: ada.cookie } })).status, 200)
  const other = await signIn(api, 'local:ada')
  for (const header of ['', 'x', `${ada.csrf}x`, other.csrf]) {
    const headers = { Cookie: ada.cookie, Origin: new URL(api.url()).origin, ...(header && { [CSRF_HEADER]: header }) }
    const refused = await api.send('/v1/secrets', headers, SECRET)
    assert.equal(refused.status, 403, header)
    assert.match(await refused.text(), /needs the header X-CSRF-Token/)
  }
  assert.equal(await api.host.engine.read((tx) => secrets.count(tx)), 0)
  const own = { Cookie: ada.cookie, [CSRF_HEADER]: ada.csrf }
  assert.equal((await api.send('/v1/secrets', own, SECRET)).status, 201)
  assert.equal((await api.send('/v1/secrets', own, { ...SECRET, owner: 'main' })).status, 403)
  const pk = encodeURIComponent('folder/team/NAME')
  assert.equal((await api.send(`/v1/secrets/${pk}`, { Cookie: ada.cookie }, {}, 'DELETE')).status, 403)
  assert.equal(await api.host.engine.read((tx) => secrets.count(tx)), 1)
})

test('pages of other sites can neither read nor write with a session, even with its CSRF token', async (t) => {
  const api = await openApi(t)
  const own = { Cookie: api.ada.cookie, [CSRF_HEADER]: api.ada.csrf }
  const { origin } = new URL(api.url())
  for (const foreign of [
    { Origin: 'https://evil.example' },
    { Origin: 'null' },
    { Origin: `${origin}0` },
    { Origin: 'https://evil.example', 'Sec-Fetch-Site': 'same-origin' },
  ]) {
    const written = await api.send('/v1/secrets', { ...own, ...foreign }, SECRET)
    assert.equal(written.status, 403, JSON.stringify(foreign))
    assert.match(await written.text(), /sent from another site/)
    assert.equal((await fetch(`${api.url()}/v1/groups`, { headers: { ...own, ...foreign } })).status, 403)
  }
  assert.equal((await api.send('/v1/secrets', { ...own, 'Sec-Fetch-Site': 'cross-site' }, SECRET)).status, 403)
  assert.equal(await api.host.engine.read((tx) => secrets.count(tx)), 0)
  assert.equal((await fetch(`${api.url()}/v1/groups`, { headers: { ...own, Origin: origin } })).status, 200)
  assert.equal((await api.send('/v1/secrets', { ...own, Origin: origin }, SECRET)).status, 201)
  // A bearer is no cookie: browsers do not add it by themselves.
  const bearer = { Authorization: `Bearer ${await api.bearer({ sub: 'local:ada' })}`, Origin: 'https://evil.example' }
  assert.equal((await api.send('/v1/secrets', bearer, SECRET)).status, 201)
})

test('the token of an ended session opens nothing', async (t) => {
  const api = await openApi(t)
  const { ada } = api
  await ada.post('/auth/sign-out')
  const headers = { Cookie: ada.cookie, [CSRF_HEADER]: ada.csrf }
  assert.equal((await fetch(`${api.url()}/v1/groups`, { headers })).status, 401)
  assert.equal((await api.send('/v1/secrets', headers, SECRET)).status, 401)
})

test('verbs of the command line stay closed at REST for operators, with a session and with a bearer', async (t) => {
  const api = await openApi(t)
  await api.operator('local:ada')
  const headers = { Cookie: api.ada.cookie, [CSRF_HEADER]: api.ada.csrf }
  assert.equal((await api.send('/v1/groups', headers, { folder: 'new' })).status, 405)
  assert.equal((await api.send('/v1/acl', headers, {})).status, 405)
  assert.equal((await api.send('/v1/users', headers, {})).status, 404)
})

test('MCP needs the CSRF header with a session, and pages of other sites are refused', async (t) => {
  const api = await openApi(t)
  const own = { Cookie: api.ada.cookie, ...MCP }
  const withCsrf = { ...own, [CSRF_HEADER]: api.ada.csrf }
  assert.equal((await api.send('/mcp', own, PING)).status, 403)
  assert.equal((await api.send('/mcp', { ...withCsrf, Origin: 'https://evil.example' }, PING)).status, 403)
  const answer = await api.send('/mcp', withCsrf, PING)
  assert.equal(answer.status, 200, await answer.text())
})

test('CORS stays closed where a session counts', async (t) => {
  const api = await openApi(t)
  const headers = {
    Origin: 'https://evil.example',
    Cookie: api.ada.cookie,
    'Access-Control-Request-Method': 'POST',
    'Access-Control-Request-Headers': CSRF_HEADER,
  }
  for (const path of ['/v1/secrets', '/v1/groups', '/mcp', '/auth/me', '/auth/chat', '/auth/sign-in']) {
    for (const method of ['OPTIONS', 'GET', 'POST']) {
      const answer = await fetch(api.url() + path, { method, headers, redirect: 'manual' })
      const names = [...answer.headers.keys()].filter((name) => name.startsWith('access-control-'))
      assert.deepEqual(names, [], `${method} ${path}`)
    }
  }
  // Links are open to pages of all sites, without credentials.
  const link = await fetch(`${api.url()}/chat/${'A'.repeat(43)}/`, { headers })
  assert.equal(link.headers.get('access-control-allow-origin'), '*')
  assert.equal(link.headers.get('access-control-allow-credentials'), null)
})

test('a session is neither a daemon nor an adapter, whatever rights the person has', async (t) => {
  const api = await openApi(t, { CHANNEL_SECRET: 'a secret of the adapters, long enough' })
  await api.operator('local:ada')
  const headers = { Cookie: api.ada.cookie, [CSRF_HEADER]: api.ada.csrf }
  assert.equal((await fetch(`${api.url()}/v1/tasks/due`, { headers })).status, 403)
  const log = { task_id: 'x', status: 'success' }
  assert.equal((await api.send('/v1/tasks/runlog', headers, log)).status, 403)
  assert.equal((await api.send('/v1/tasks/x/reschedule', headers, {})).status, 403)
  const message = { jid: 'telegram:1', sender: 'telegram:2', content: 'hi' }
  const atRoutd = (path: string, body: object) =>
    fetch(api.url('routd') + path, { method: 'POST', ...json(body, headers) })
  assert.equal((await atRoutd('/v1/messages', message)).status, 401)
  const adapter = { name: 'x', url: 'http://127.0.0.1:1', jid_prefixes: ['telegram:'] }
  assert.equal((await atRoutd('/v1/channels/register', adapter)).status, 401)
  assert.equal(await api.host.engine.read((tx) => messages.count(tx)), 0)
})

test('a cookie is no credential in other places, and other places are no cookie', async (t) => {
  const api = await openApi(t)
  const [name = '', token = ''] = api.ada.cookie.split('=')
  for (const headers of [
    { Authorization: `Bearer ${token}` },
    { Cookie: `${api.ada.cookie}; ${api.ada.cookie}` },
    { Cookie: `x${name}=${token}` },
    { 'X-User-Sub': 'local:ada' },
    { 'X-API-Key': token },
  ])
    assert.equal((await fetch(`${api.url()}/v1/groups`, { headers })).status, 401, JSON.stringify(headers))
  assert.equal((await fetch(`${api.url()}/v1/groups?${api.ada.cookie}&access_token=${token}`)).status, 401)
  assert.ok(!JSON.stringify(api.logged()).includes(token))
})
