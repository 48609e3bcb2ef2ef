// Device authorization over HTTP: the program's endpoint and the person's page.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { type JsonAnswer, postOauth, registerOauthClient } from '../../../../test/support/oauth.ts'
import { type ServedHost, serveHost } from '../../../../test/support/served-host.ts'
import { type SignedInBrowser, signIn } from '../../../../test/support/sign-in.ts'
import { DEVICE_USER_CODE_LENGTH, formatUserCode } from '../../../core/people/device-codes.ts'
import { sessions } from '../../../core/people/sessions.ts'
import { canonicalUserCode } from '../../../core/people/user-codes.ts'

const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'

async function opened(t: TestContext): Promise<ServedHost & { ada: SignedInBrowser }> {
  const s = await serveHost(t, { daemons: ['proxyd', 'authd'] })
  return { ...s, ada: await signIn(s, 'local:ada') }
}

const request = (s: ServedHost, fields: Record<string, string> = {}): Promise<JsonAnswer> =>
  postOauth(s, '/auth/device_authorization', { client_id: 'svc-cli', resource: 'http://localhost:8080/v1', ...fields })

const poll = (s: ServedHost, device_code: unknown): Promise<JsonAnswer> =>
  postOauth(s, '/auth/token', { grant_type: DEVICE_GRANT, client_id: 'svc-cli', device_code: String(device_code) })

test('a person types the code, sees the client and allows it', async (t) => {
  const s = await opened(t)
  const { device_code, user_code, ...rest } = await request(s)
  assert.deepEqual(rest, {
    status: 200,
    verification_uri: 'http://localhost:8080/auth/device',
    verification_uri_complete: `http://localhost:8080/auth/device?user_code=${user_code}`,
    expires_in: 600,
    interval: 5,
  })
  assert.equal((await poll(s, device_code)).error, 'authorization_pending')
  assert.match(
    await (await s.ada.get(`/auth/device?user_code=${user_code}`)).text(),
    new RegExp(`value="${user_code}"`),
  )
  const typed = ` ${String(user_code).toLowerCase().replace('-', ' ')} `
  const shown = await (await s.ada.post('/auth/device', { user_code: typed })).text()
  assert.match(shown, /<strong>svc command line<\/strong>/)
  assert.match(shown, /Never type a code that another person sent you/)
  s.clock.advance(5000)
  assert.equal((await poll(s, device_code)).error, 'authorization_pending')
  const done = await s.ada.post('/auth/device', { user_code: String(user_code), decision: 'allow' })
  assert.equal(done.status, 200)
  s.clock.advance(5000)
  const { access_token } = await poll(s, device_code)
  assert.equal((await s.ask('/v1/sessions', String(access_token))).status, 200)
  const [row] = await s.host.engine.read((tx) => sessions.list(tx, { kind: 'client' }))
  assert.deepEqual([row?.sub, row?.name], ['local:ada', 'svc command line'])
})

test('a denied request ends', async (t) => {
  const s = await opened(t)
  const { device_code, user_code } = await request(s)
  await s.ada.post('/auth/device', { user_code: String(user_code), decision: 'deny' })
  assert.equal((await poll(s, device_code)).error, 'access_denied')
})

test('the page needs a session, and its form the CSRF field', async (t) => {
  const s = await opened(t)
  const { device_code, user_code } = await request(s)
  const page = await fetch(`${s.url()}/auth/device?user_code=${user_code}`, { redirect: 'manual' })
  assert.match(page.headers.get('location') ?? '', /^\/auth\/sign-in\?next=%2Fauth%2Fdevice/)
  const fields = { user_code: String(user_code), decision: 'allow' }
  assert.equal((await s.ada.post('/auth/device', { ...fields, csrf: '' })).status, 403)
  assert.equal((await s.ada.post('/auth/device', fields, { Origin: 'https://evil.example' })).status, 403)
  assert.equal((await s.ada.post('/auth/device', fields, { Cookie: '' })).status, 401)
  assert.equal((await poll(s, device_code)).error, 'authorization_pending')
})

test('20 codes may be typed in ten minutes, by one person or from one address', async (t) => {
  const s = await opened(t)
  const bob = await signIn(s, 'local:bob')
  for (let index = 0; index < 20; index++)
    assert.equal((await s.ada.post('/auth/device', { user_code: 'BBBB-BBBB' })).status, 404)
  for (const browser of [s.ada, bob])
    assert.equal((await browser.post('/auth/device', { user_code: 'BBBB-BBBB' })).status, 429)
  s.clock.advance(600_000)
  assert.equal((await bob.post('/auth/device', { user_code: 'BBBB-BBBB' })).status, 404)
})

test('only clients that registered for it may ask, and 20 times in ten minutes', async (t) => {
  const s = await opened(t)
  const redirect_uris = ['http://localhost/cb']
  const plain = await registerOauthClient(s, { redirect_uris })
  const device = await registerOauthClient(s, { redirect_uris, grant_types: [DEVICE_GRANT] })
  assert.equal((await request(s, { client_id: String(plain.client_id) })).error, 'unauthorized_client')
  assert.equal((await request(s, { client_id: String(device.client_id) })).status, 200)
  assert.equal((await request(s, { client_id: 'https://app.example/client.json' })).error, 'invalid_client')
  assert.equal((await request(s, { resource: 'https://evil.example' })).error, 'invalid_target')
  assert.equal((await request(s, { client_id: '' })).error, 'invalid_request')
  for (let index = 5; index < 20; index++) assert.equal((await request(s)).status, 200)
  assert.equal((await request(s)).status, 429)
})

test('a user code has one canonical spelling', () => {
  for (const typed of ['BCDF-GHJK', 'bcdfghjk', ' bcdf ghjk ', 'B-C-D-F-G-H-J-K'])
    assert.equal(canonicalUserCode(typed, DEVICE_USER_CODE_LENGTH), 'BCDFGHJK')
  for (const typed of [
    '',
    'BCDFGHJ',
    'BCDFGHJKL',
    'ACDFGHJK',
    'BCDFGHJ1',
    'BCDFGHJ\u212A',
    'ßCDFGHJ',
    `${' '.repeat(13)}BCDFGHJK`,
  ])
    assert.equal(canonicalUserCode(typed, DEVICE_USER_CODE_LENGTH), undefined, typed)
  fc.assert(
    fc.property(fc.string({ maxLength: 24 }), (text) => {
      const code = canonicalUserCode(text, DEVICE_USER_CODE_LENGTH)
      if (code !== undefined) assert.equal(canonicalUserCode(formatUserCode(code), DEVICE_USER_CODE_LENGTH), code)
    }),
  )
})
