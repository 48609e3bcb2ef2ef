import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryEngine, testHost } from '../../../test/support/host.ts'
import { serveHost } from '../../../test/support/served-host.ts'
import { formRequest, signIn } from '../../../test/support/sign-in.ts'

const BEARER = /eyJ[\w-]+\.[\w-]+\.[\w-]+/

onEveryEngine('/auth/bearers', (engine) => {
  test('creates a bearer that is shown once, lists it, and revokes it at once', async (t) => {
    const s = await serveHost(t, { on: await testHost(t, engine), daemons: ['proxyd', 'authd', 'routd'] })
    await s.groups('team', 'other')
    await s.grant('local:ada', 'interact', 'team')
    const ada = await signIn(s, 'local:ada')
    const form = await (await ada.get('/auth/bearers')).text()
    assert.match(form, /You have no bearers/)
    assert.match(form, /<option value="team">/)
    assert.doesNotMatch(form, /<option value="other">/)
    const made = await ada.post('/auth/bearers', { name: 'my <script>', folder: 'team', lifetime: '24h' })
    const page = await made.text()
    assert.deepEqual([made.status, made.headers.get('cache-control')], [200, 'no-store'])
    const [bearer = ''] = BEARER.exec(page) ?? []
    assert.equal((await s.ask('/v1/groups', bearer)).status, 200)
    const listed = await (await ada.get('/auth/bearers')).text()
    assert.doesNotMatch(listed, BEARER)
    assert.match(listed, /my &lt;script&gt; in <code>team<\/code>/)
    const id = /name="id" value="([\w-]+)"/.exec(listed)?.[1] ?? ''
    const ben = await signIn(s, 'local:ben')
    assert.equal((await ben.post('/auth/bearers/revoke', { id })).status, 404)
    assert.equal((await ada.post('/auth/bearers/revoke', { id })).status, 303)
    assert.equal((await s.ask('/v1/groups', bearer)).status, 401)
    assert.match(await (await ada.get('/auth/bearers')).text(), /revoked, /)
    assert.doesNotMatch(JSON.stringify(s.logged()), BEARER)
  })
})

test('after 15 minutes the page offers to sign in again for a bearer of more than a day', async (t) => {
  const s = await serveHost(t, { daemons: ['proxyd', 'authd'] })
  const ada = await signIn(s, 'local:ada')
  const page = async () => (await ada.get('/auth/bearers')).text()
  assert.doesNotMatch(await page(), /Sign in again/)
  assert.equal((await ada.post('/auth/bearers', { name: 'x', lifetime: '720h' })).status, 200)
  s.clock.advance(15 * 60_000)
  assert.match(await page(), /Sign in again<\/a> to create one for longer than a day/)
  const refused = await ada.post('/auth/bearers', { name: 'x', lifetime: '168h' })
  assert.equal(refused.status, 403)
  assert.match(await refused.text(), /needs a sign-in of the last 15 minutes/)
  assert.equal((await ada.post('/auth/bearers', { name: 'x', lifetime: '24h' })).status, 200)
})

test('a form of another site, without the CSRF token or without a session creates nothing', async (t) => {
  const s = await serveHost(t, { daemons: ['proxyd', 'authd'] })
  const ada = await signIn(s, 'local:ada')
  const fields = { name: 'x', lifetime: '1h' }
  assert.equal((await ada.post('/auth/bearers', { ...fields, csrf: '' })).status, 403)
  assert.equal((await ada.post('/auth/bearers', fields, { Origin: 'https://evil.example' })).status, 403)
  const url = `${s.url()}/auth/bearers`
  assert.equal((await fetch(url, formRequest(url, { ...fields, csrf: ada.csrf }))).status, 401)
  const bearer = await s.bearer({ sub: 'local:ada' })
  const init = formRequest(url, { ...fields, csrf: ada.csrf }, { Authorization: `Bearer ${bearer}` })
  assert.equal((await fetch(url, init)).status, 401)
  assert.equal((await ada.post('/auth/bearers', { ...fields, lifetime: '721h' })).status, 400)
  assert.equal((await ada.post('/auth/bearers', { ...fields, lifetime: 'long' })).status, 400)
  assert.match(await (await ada.get('/auth/bearers')).text(), /You have no bearers/)
  const visitor = await fetch(url, { redirect: 'manual' })
  assert.deepEqual([visitor.status, visitor.headers.get('location')], [303, '/auth/sign-in?next=%2Fauth%2Fbearers'])
})
