import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { isRefusal, testHost } from '../../../test/support/host.ts'
import { serveHost } from '../../../test/support/served-host.ts'
import { signIn } from '../../../test/support/sign-in.ts'
import { issueBearer } from '../../core/access/bearers.ts'
import { createSession } from '../../core/people/sessions.ts'
import { authenticate, CSRF_HEADER } from './credentials.ts'
import { sessionCookieName } from './session-cookie.ts'

async function opened(t: TestContext) {
  const { host } = await testHost(t)
  const started = { sub: 'local:ada', kind: 'browser', method: 'link', idleMs: 3_600_000, maxMs: 3_600_000 } as const
  const { token, session } = await host.engine.transaction((tx) => createSession(tx, host, started))
  const bearerOf = async (sub: string): Promise<string> =>
    `Bearer ${await issueBearer(host, { sub, kind: sub.startsWith('service:') ? 'service' : 'user' })}`
  const cookie = `${sessionCookieName(host)}=${token}`
  return { host, cookie, session: session.family_id, bearerOf }
}

test('a cookie, a bearer, or both of one person name the caller', async (t) => {
  const { host, cookie, session, bearerOf } = await opened(t)
  const authorization = await bearerOf('local:ada')
  assert.deepEqual((await authenticate(host, { cookie })).caller, { kind: 'person', sub: 'local:ada', session })
  for (const credentials of [{ authorization }, { authorization, cookie }])
    assert.deepEqual((await authenticate(host, credentials)).caller, { kind: 'person', sub: 'local:ada' })
  assert.deepEqual(await authenticate(host, {}), {})
})

test('a cookie and a bearer of another person or of a service are refused', async (t) => {
  const { host, cookie, bearerOf } = await opened(t)
  for (const sub of ['local:ben', 'service:timed']) {
    const { caller, fault } = await authenticate(host, { authorization: await bearerOf(sub), cookie })
    assert.equal(caller, undefined)
    assert.ok(isRefusal('unauthenticated', 'belong to different callers')(fault))
  }
})

test('an invalid bearer beside a valid cookie is refused; half a credential is not replaced by another', async (t) => {
  const { host, cookie } = await opened(t)
  for (const authorization of ['Bearer x.y.z', 'bearer ', 'Bearer a.b.c, Bearer a.b.c']) {
    const { caller, fault } = await authenticate(host, { authorization, cookie })
    assert.equal(caller, undefined, authorization)
    assert.equal(fault?.code, 'unauthenticated')
  }
})

test('an invalid cookie beside a valid bearer does not count', async (t) => {
  const { host, bearerOf } = await opened(t)
  const cookie = `${sessionCookieName(host)}=${'x'.repeat(43)}`
  assert.equal((await authenticate(host, { cookie })).caller, undefined)
  const { caller } = await authenticate(host, { authorization: await bearerOf('local:ada'), cookie })
  assert.deepEqual(caller, { kind: 'person', sub: 'local:ada' })
})

test('Basic credentials, which may be meant for a backend, leave the session alone', async (t) => {
  const { host, cookie, session } = await opened(t)
  const authorization = `Basic ${Buffer.from('a:b').toString('base64')}`
  assert.deepEqual((await authenticate(host, { authorization, cookie })).caller, {
    kind: 'person',
    sub: 'local:ada',
    session,
  })
  assert.equal((await authenticate(host, { authorization })).caller, undefined)
})

test('a service bearer is never a person', async (t) => {
  const { host, bearerOf } = await opened(t)
  const { caller } = await authenticate(host, { authorization: await bearerOf('service:timed') })
  assert.deepEqual(caller, { kind: 'service', sub: 'service:timed' })
})

test('a session needs the CSRF header to write at /v1, a bearer does not', async (t) => {
  const s = await serveHost(t, { daemons: ['proxyd', 'authd', 'routd'] })
  await s.operator('local:ada')
  const ada = await signIn(s, 'local:ada')
  const create = async (path: string, headers: Record<string, string>): Promise<number> => {
    const body = JSON.stringify({ path, redirect_to: '/x', auth: 'public' })
    const init = { method: 'POST', body, headers: { 'Content-Type': 'application/json', ...headers } }
    return (await fetch(`${s.url()}/v1/proxyd_routes`, init)).status
  }
  const Cookie = ada.cookie
  assert.equal(await create('/a', { Cookie }), 403)
  assert.equal(await create('/a', { Cookie, [CSRF_HEADER]: 'x' }), 403)
  const ben = await signIn(s, 'local:ben')
  assert.equal(await create('/a', { Cookie, [CSRF_HEADER]: ben.csrf }), 403)
  assert.equal(await create('/a', { Cookie, [CSRF_HEADER]: ada.csrf }), 201)
  const Authorization = `Bearer ${await s.bearer({ sub: 'local:ada' })}`
  assert.equal(await create('/b', { Authorization }), 201)
  assert.equal(await create('/c', { Authorization, Cookie }), 201)
  const list = await fetch(`${s.url()}/v1/groups`, { headers: { Cookie } })
  assert.equal(list.status, 200)
})
