// The account page and the list of devices, through the front door.
import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { type EngineName, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { type ServedHost, serveHost } from '../../../test/support/served-host.ts'
import { type SignedInBrowser, signIn } from '../../../test/support/sign-in.ts'
import { accounts } from '../../core/people/accounts.ts'
import { sessions } from '../../core/people/sessions.ts'

async function opened(t: TestContext, engine: EngineName = 'sqlite'): Promise<ServedHost> {
  return serveHost(t, { on: await testHost(t, engine), daemons: ['proxyd', 'authd'] })
}

const show = async (browser: SignedInBrowser, path: string): Promise<string> => (await browser.get(path)).text()

const isSignedIn = async (browser: SignedInBrowser): Promise<boolean> => (await browser.get('/auth/me')).status === 200

/** The names of the listed devices. */
const devicesIn = (page: string): string[] =>
  [...page.matchAll(/<strong>([^<]*)<\/strong>/g)].map(([, name = '']) => name)

onEveryEngine('the account page', (engine) => {
  test('lists the folders that the person may talk to', async (t) => {
    const s = await opened(t, engine)
    await s.groups('main', 'team', 'team/sales', 'other')
    await s.grant('local:ada', 'interact', 'team/**')
    await s.grant('local:ada', 'interact', 'team')
    await s.grant('local:ada', 'interact', 'team/sales', 'deny')
    const ada = await signIn(s, 'local:ada')
    const page = await show(ada, '/auth/me')
    assert.deepEqual(devicesIn(page), ['team'])
    assert.match(page, /<button class="quiet">Chat<span class="unseen"> with team<\/span><\/button>/)
    const bob = await signIn(s, 'local:bob')
    assert.match(await show(bob, '/auth/me'), /You may not talk to an agent yet/)
  })

  test('tells programs who they are and their CSRF token', async (t) => {
    const s = await opened(t, engine)
    const ada = await signIn(s, 'local:ada')
    await s.host.engine.transaction((tx) => accounts.update(tx, { sub: 'local:ada' }, { name: 'Ada <b>' }))
    const json = JSON.parse(await (await ada.get('/auth/me', { Accept: 'application/json' })).text())
    assert.deepEqual(json, { sub: 'local:ada', name: 'Ada <b>', csrf: ada.csrf, session: ada.session, folders: [] })
    assert.match(await show(ada, '/auth/me'), /<strong>Ada &lt;b&gt;<\/strong>, <code>local:ada<\/code>/)
  })

  test('suggests a passkey to a person who has none', async (t) => {
    const s = await opened(t, engine)
    assert.match(await show(await signIn(s, 'local:ada'), '/auth/me'), /href="\/auth\/passkeys">Add a passkey/)
  })
})

onEveryEngine('the devices page', (engine) => {
  test('lists the own sessions, marks the current one, and signs out single ones', async (t) => {
    const s = await opened(t, engine)
    const [ada, phone, bob] = [await signIn(s, 'local:ada'), await signIn(s, 'local:ada'), await signIn(s, 'local:bob')]
    await s.host.engine.transaction((tx) => sessions.update(tx, { family_id: phone.session }, { name: 'Phone <x>' }))
    const page = await show(ada, '/auth/devices')
    assert.deepEqual(devicesIn(page), ['Unknown browser', 'Phone &lt;x&gt;'])
    assert.equal(page.split('this device').length, 2)
    assert.match(page, /127\.0\.0\.1 · signed in just now with a link/)
    assert.doesNotMatch(page, new RegExp(bob.session))

    // Not those of others, not twice, and not without the CSRF token.
    assert.equal((await ada.post('/auth/devices', { family_id: bob.session })).status, 404)
    assert.equal((await ada.post('/auth/devices', { family_id: phone.session, csrf: bob.csrf })).status, 403)
    assert.equal(await isSignedIn(phone), true)
    assert.equal((await ada.post('/auth/devices', { family_id: phone.session })).status, 303)
    assert.equal((await ada.post('/auth/devices', { family_id: phone.session })).status, 404)
    assert.deepEqual([await isSignedIn(phone), await isSignedIn(ada), await isSignedIn(bob)], [false, true, true])
    assert.doesNotMatch(await show(ada, '/auth/devices'), /Sign out all other devices/)
  })

  test('signs out all others', async (t) => {
    const s = await opened(t, engine)
    const [ada, phone, tablet, bob] = [
      await signIn(s, 'local:ada'),
      await signIn(s, 'local:ada'),
      await signIn(s, 'local:ada'),
      await signIn(s, 'local:bob'),
    ]
    assert.match(await show(ada, '/auth/devices'), /Sign out all other devices/)
    assert.equal((await ada.post('/auth/devices/others')).status, 303)
    const live = await Promise.all([ada, phone, tablet, bob].map(isSignedIn))
    assert.deepEqual(live, [true, false, false, true])
  })

  test('does not list sessions that have expired', async (t) => {
    const s = await opened(t, engine)
    const [ada, old] = [await signIn(s, 'local:ada'), await signIn(s, 'local:ada')]
    await s.host.engine.transaction((tx) =>
      sessions.update(tx, { family_id: old.session }, { expires_at: '2020-01-01T00:00:00.000Z' }),
    )
    assert.equal(devicesIn(await show(ada, '/auth/devices')).length, 1)
  })
})

suite('the pages of a person', () => {
  test('send others to the sign-in page and back', async (t) => {
    const s = await opened(t)
    for (const path of ['/auth/me', '/auth/devices', '/auth/passkeys']) {
      const answer = await fetch(s.url() + path, { redirect: 'manual', headers: { Accept: 'text/html' } })
      assert.deepEqual(
        [answer.status, answer.headers.get('location')],
        [303, `/auth/sign-in?next=${encodeURIComponent(path)}`],
      )
    }
    const bearer = await s.bearer({ sub: 'local:ada' })
    const withBearer = await s.ask('/auth/devices', bearer, { redirect: 'manual', headers: { Accept: 'text/html' } })
    assert.equal(withBearer.status, 303)
  })

  test('are never stored, framed or given a script from elsewhere', async (t) => {
    const s = await opened(t)
    const ada = await signIn(s, 'local:ada')
    for (const path of ['/', '/auth/me', '/auth/devices', '/auth/passkeys']) {
      const { headers, status } = await ada.get(path)
      assert.deepEqual(
        [status, headers.get('cache-control'), headers.get('x-frame-options')],
        [200, 'no-store', 'DENY'],
      )
      assert.match(headers.get('content-security-policy') ?? '', /^default-src 'none';.*frame-ancestors 'none'$/)
    }
  })
})

suite('the front page', () => {
  test('links to the account of a signed-in person', async (t) => {
    const s = await opened(t)
    const ada = await signIn(s, 'local:ada')
    assert.match(await show(ada, '/'), /signed in as <code>local:ada<\/code>.[\s\S]*href="\/auth\/me">Your account</)
    const stranger = await (await fetch(s.url(), { headers: { Accept: 'text/html' } })).text()
    assert.match(stranger, /href="\/auth\/sign-in">Sign in</)
    assert.doesNotMatch(stranger, /local:/)
  })
})
