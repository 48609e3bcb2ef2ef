import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type EngineName, isRefusal, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { type ServedHost, serveHost } from '../../../test/support/served-host.ts'
import { browserOf, cookiesOf, formRequest, signIn } from '../../../test/support/sign-in.ts'
import { acl } from '../../core/access/acl.ts'
import { accounts } from '../../core/people/accounts.ts'
import { sessions } from '../../core/people/sessions.ts'
import { identitiesResource } from '../../resources/identities.ts'
import { invitesResource } from '../../resources/invites.ts'
import { sessionsResource } from '../../resources/sessions.ts'
import { GUESSES_PER_MINUTE } from './guess-limit.ts'

const { create, list, revoke } = invitesResource.verbs
const INVALID = 'This invite is not valid; ask the person who sent it for a new one.'

interface InviteTest extends ServedHost {
  mint(over?: object): Promise<string>
  /** A request of a browser without a session. */
  visit(path: string, headers?: Record<string, string>): Promise<Response>
  post(path: string, fields: Record<string, string>, headers?: Record<string, string>): Promise<Response>
  grantsOf(sub: string): Promise<string[]>
  used(): Promise<number | undefined>
}

async function open(t: TestContext, engine: EngineName, webBase?: string): Promise<InviteTest> {
  const on = await testHost(t, engine)
  const served = await serveHost(t, {
    on: webBase === undefined ? on : { ...on, host: { ...on.host, webBase } },
    daemons: ['proxyd', 'authd', 'onbod'],
  })
  await served.groups('main', 'team')
  return {
    ...served,
    mint: async (over = {}) => {
      const { accept_url = '' } = await served.cli.call(create, { target_glob: 'team/**', ...over })
      return new URL(accept_url).pathname
    },
    visit: (path, headers = {}) =>
      fetch(served.url() + path, { redirect: 'manual', headers: { Accept: 'text/html', ...headers } }),
    post: (path, fields, headers) => fetch(served.url() + path, formRequest(served.url(), fields, headers)),
    grantsOf: async (sub) =>
      (await served.host.engine.read((tx) => acl.list(tx, { principal: sub }))).map(
        ({ action, scope }) => `${action} ${scope}`,
      ),
    used: async () => (await served.cli.call(list, {})).invites[0]?.used_count,
  }
}

onEveryEngine('the page of an invite', (engine) => {
  test('shows who invites to what, and changes nothing', async (t) => {
    const on = await open(t, engine)
    const path = await on.mint({ max_uses: 7, expires_at: '2026-02-03T00:00:00Z' })
    for (let visits = 0; visits < 3; visits++) {
      const response = await on.visit(path)
      assert.equal(response.status, 200)
      const text = await response.text()
      assert.match(text, /The operator of this server invites you to administer the folder <code>team<\/code>/)
      assert.match(text, /Sign in to accept/)
      assert.doesNotMatch(text, /2026-02-03|\b7\b/)
      assert.equal(response.headers.get('Referrer-Policy'), 'strict-origin')
      assert.equal(response.headers.get('X-Frame-Options'), 'DENY')
      assert.equal(response.headers.get('Cache-Control'), 'no-store')
      assert.deepEqual(response.headers.getSetCookie(), [])
    }
    assert.equal(await on.used(), 0)
  })

  test('is the same for unknown, expired, used up and revoked invites', async (t) => {
    const on = await open(t, engine)
    const [expired, used, revoked] = [
      await on.mint({ expires_at: '2026-01-01T00:01:00Z' }),
      await on.mint(),
      await on.mint(),
    ]
    await on.cli.call(revoke, { token_id: revoked.slice('/invite/'.length) })
    assert.equal((await (await signIn(on, 'local:first')).post(used, { action: 'accept' })).status, 303)
    on.clock.advance(60_000)
    const bodies = new Set<string>()
    for (const path of [expired, used, revoked, '/invite/unknown', '/invite/:token', `/invite/${'A'.repeat(43)}`]) {
      for (const response of [await on.visit(path), await on.post(path, { action: 'sign_in' })]) {
        assert.equal(response.status, 404)
        assert.deepEqual(response.headers.getSetCookie(), [])
        bodies.add(await response.text())
      }
    }
    assert.equal(bodies.size, 1)
    assert.ok([...bodies][0]?.includes(INVALID))
    assert.equal((await on.visit(`/invite/${'A'.repeat(1000)}`)).status, 404)
  })

  test('accepts it for the signed-in person, once', async (t) => {
    const on = await open(t, engine)
    const path = await on.mint({ max_uses: 2 })
    const browser = await signIn(on, 'local:ada')
    assert.match(await (await browser.get(path)).text(), /value="accept" autofocus>Accept</)
    for (let times = 0; times < 2; times++) {
      const response = await browser.post(path, { action: 'accept' })
      assert.equal(response.status, 303)
      assert.match(response.headers.get('Location') ?? '', /^\/chat\/~[^/]+\/$/)
    }
    assert.deepEqual([await on.grantsOf('local:ada'), await on.used()], [['admin team/**'], 1])
    assert.match(await (await browser.get(path)).text(), /Invite accepted/)
  })

  test('leads to the account page if the glob names several folders or none that exists', async (t) => {
    const on = await open(t, engine)
    const browser = await signIn(on, 'local:ada')
    for (const target_glob of ['team/*', 'later/**']) {
      const response = await browser.post(await on.mint({ target_glob }), { action: 'accept' })
      assert.deepEqual([response.status, response.headers.get('Location')], [303, '/auth/me'])
    }
  })

  test('accepts nothing from other sites and without the token of the form', async (t) => {
    const on = await open(t, engine)
    const path = await on.mint()
    const browser = await signIn(on, 'local:ada')
    const foreign: Record<string, string>[] = [
      { Origin: 'https://evil.example' },
      { Origin: 'null' },
      { Origin: 'https://evil.example', 'Sec-Fetch-Site': 'same-site' },
    ]
    for (const headers of foreign) {
      assert.equal((await browser.post(path, { action: 'accept' }, headers)).status, 403)
      for (const action of ['sign_in', 'create']) {
        const response = await on.post(path, { action, name: 'Ada' }, headers)
        assert.deepEqual([response.status, response.headers.getSetCookie()], [403, []])
      }
    }
    for (const csrf of ['', 'x', browser.csrf.slice(1)])
      assert.equal((await browser.post(path, { action: 'accept', csrf })).status, 403)
    const other = await signIn(on, 'local:bob')
    assert.equal((await browser.post(path, { action: 'accept', csrf: other.csrf })).status, 403)
    assert.deepEqual([await on.grantsOf('local:ada'), await on.used()], [[], 0])
  })

  test('remembers the invite while the person signs in', async (t) => {
    const on = await open(t, engine)
    const path = await on.mint()
    const response = await on.post(path, { action: 'sign_in' })
    assert.deepEqual([response.status, response.headers.get('Location')], [303, '/auth/sign-in'])
    assert.deepEqual(response.headers.getSetCookie(), [
      `svc_invite_test=${path.slice('/invite/'.length)}; Path=/; Max-Age=1800; HttpOnly; SameSite=Lax`,
    ])
    assert.equal(await on.used(), 0)
  })

  test('sets the cookie for this host only if it is served over HTTPS', async (t) => {
    const on = await open(t, engine, 'https://svc.example')
    const path = await on.mint()
    const [cookie = ''] = (await on.post(path, { action: 'sign_in' })).headers.getSetCookie()
    assert.match(cookie, /^__Host-svc_invite=[^;]{43}; Path=\/; Max-Age=1800; HttpOnly; SameSite=Lax; Secure$/)
  })

  test('creates an account with the chosen name, which has the grant at once', async (t) => {
    const on = await open(t, engine)
    const path = await on.mint()
    const response = await on.post(path, { action: 'create', name: ' Ada Łovelace ' })
    assert.deepEqual([response.status, response.headers.get('Location')], [303, path])
    const cookie = cookiesOf(response).split('; ')[0] ?? ''
    const browser = await browserOf(on, cookie)
    const [account] = await on.host.engine.read((tx) => accounts.list(tx))
    assert.match(account?.sub ?? '', /^local:ada-ovelace-[a-z2-9]{4}$/)
    assert.equal(account?.name, 'Ada Łovelace')
    assert.deepEqual([await on.grantsOf(account?.sub ?? ''), await on.used()], [['admin team/**'], 1])
    const page = await (await browser.get(path)).text()
    assert.match(page, /Invite accepted/)
    assert.match(page, /href="\/auth\/passkeys"/)
    const [session] = await on.host.engine.read((tx) => sessions.list(tx))
    assert.equal(session?.method, 'invite')
  })

  test('never signs in to an account that exists, has a grant or is linked', async (t) => {
    const on = await open(t, engine)
    const invite_token = (await on.mint({ max_uses: 9 })).slice('/invite/'.length)
    await signIn(on, 'local:ada-abcd')
    await on.grant('local:boss-abcd', 'admin', 'team/**')
    await on.cli.call(identitiesResource.verbs.link, { sub: 'local:first', name: 'First' })
    const [identity] = (await on.cli.call(identitiesResource.verbs.list, {})).identities
    await on.cli.call(identitiesResource.verbs.link, { sub: 'local:second-abcd', id: identity?.id })
    const times = { idle_ms: 3_600_000, max_ms: 3_600_000 }
    for (const sub of ['local:ada-abcd', 'local:boss-abcd', 'local:second-abcd', 'github:1']) {
      const account = { sub, issuer: 'local', subject: sub, email_verified: false }
      const input = { account, method: 'invite', is_allowed: true, invite_token, ...times }
      const request = on.as({ kind: 'person', sub }, 'dash')
      await assert.rejects(request.call(sessionsResource.verbs.sign_in, input), isRefusal('conflict', 'exists already'))
    }
  })

  test('creates no account without a name or after the last use', async (t) => {
    const on = await open(t, engine)
    const path = await on.mint()
    for (const name of ['', ' ', 'x'.repeat(65), 'a\u0007'])
      assert.equal((await on.post(path, { action: 'create', name })).status, 400)
    assert.equal((await on.post(path, { action: 'create', name: 'x'.repeat(64) })).status, 303)
    assert.equal((await on.post(path, { action: 'create', name: 'Bob' })).status, 404)
    assert.equal((await on.host.engine.read((tx) => accounts.list(tx))).length, 1)
  })

  test('leaves accounts and sessions only to those who were fast enough', async (t) => {
    const on = await open(t, engine)
    const path = await on.mint({ max_uses: 2 })
    const names = Array.from({ length: 8 }, (_, n) => `Person ${n}`)
    const responses = await Promise.all(names.map((name) => on.post(path, { action: 'create', name })))
    assert.equal(responses.filter(({ status }) => status === 303).length, 2)
    const [people, live] = await on.host.engine.read(async (tx) => [await accounts.count(tx), await sessions.list(tx)])
    assert.deepEqual([people, await on.used()], [2, 2])
    assert.equal(live.filter(({ status }) => status === 'active').length, 2)
  })

  test('shows nothing of an invite whose issuer has lost the authority, and logs the reason', async (t) => {
    const on = await open(t, engine)
    await on.grant('local:boss', 'admin', 'team/**')
    const boss = on.as({ kind: 'person', sub: 'local:boss' })
    const { token } = await boss.call(create, { target_glob: 'team/**' })
    const browser = await signIn(on, 'local:ada')
    assert.match(await (await browser.get(`/invite/${token}`)).text(), /local:boss invites you/)
    await on.ungrant('local:boss', 'admin', 'team/**')
    for (const response of [await browser.get(`/invite/${token}`), await browser.post(`/invite/${token}`)]) {
      assert.equal(response.status, 404)
      assert.ok((await response.text()).includes(INVALID))
    }
    assert.deepEqual(await on.grantsOf('local:ada'), [])
    assert.ok(!JSON.stringify(on.logged()).includes(token))
  })

  test('slows down guesses, per address, and not those who hold an invite', async (t) => {
    const on = await open(t, engine)
    const path = await on.mint()
    for (let guess = 0; guess < GUESSES_PER_MINUTE; guess++) {
      assert.equal((await on.visit(path)).status, 200)
      assert.equal((await on.visit(`/invite/guess-${guess}`)).status, 404)
    }
    assert.equal((await on.visit('/invite/one-more')).status, 429)
    assert.equal((await on.post('/invite/one-more', { action: 'sign_in' })).status, 429)
    on.clock.advance(60_000)
    assert.equal((await on.visit(path)).status, 200)
  })
})
