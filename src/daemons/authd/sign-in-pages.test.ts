// One-time sign-in links and signing out, through the front door.
import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { type EngineName, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { type ServedHost, serveHost } from '../../../test/support/served-host.ts'
import { cookiesOf, formRequest, signIn, signInLink } from '../../../test/support/sign-in.ts'
import { sessions } from '../../core/people/sessions.ts'
import { signInLinks } from '../../core/people/sign-in-links.ts'
import { audit } from '../../registry/audit.ts'

async function opened(t: TestContext, engine: EngineName = 'sqlite'): Promise<ServedHost> {
  return serveHost(t, { on: await testHost(t, engine), daemons: ['proxyd', 'authd'] })
}

const post = (link: string, headers?: Record<string, string>): Promise<Response> =>
  fetch(link, formRequest(link, {}, headers))

const HTML = { headers: { Accept: 'text/html' } }

onEveryEngine('a one-time sign-in link', (engine) => {
  test('leads operators and administrators to the dashboard, others to their account', async (t) => {
    const s = await opened(t, engine)
    await s.operator('local:op')
    await s.grant('local:admin', 'admin', 'team')
    await s.grant('local:user', 'interact', 'team')
    const found: Record<string, string | null> = {}
    for (const sub of ['local:op', 'local:admin', 'local:user', 'local:stranger'])
      found[sub] = (await post(await signInLink(s, sub))).headers.get('location')
    const account = '/auth/me'
    assert.deepEqual(found, {
      'local:op': '/dash/',
      'local:admin': '/dash/',
      'local:user': account,
      'local:stranger': account,
    })
  })

  test('shows who signs in and changes nothing until the button is pressed', async (t) => {
    const s = await opened(t, engine)
    const link = await signInLink(s, 'local:ada')
    for (const method of ['GET', 'HEAD', 'GET']) {
      const page = await fetch(link, { method, ...HTML })
      assert.equal(page.status, 200)
      assert.deepEqual(page.headers.getSetCookie(), [])
      if (method === 'GET') assert.match(await page.text(), /sign in as <code>local:ada<\/code>/)
    }
    assert.equal(await s.host.engine.read((tx) => sessions.count(tx)), 0)
    const answer = await post(link)
    assert.deepEqual([answer.status, answer.headers.get('location')], [303, '/auth/me'])
    const [cookie = ''] = answer.headers.getSetCookie()
    assert.match(cookie, /^svc_session_test=[\w-]{43}; Path=\/; Max-Age=34560000; HttpOnly; SameSite=Lax$/)
    const [row] = await s.host.engine.read((tx) => sessions.list(tx))
    assert.deepEqual([row?.sub, row?.method, row?.kind, row?.status], ['local:ada', 'link', 'browser', 'active'])
    const [audited] = await s.host.engine.read((tx) => audit.list(tx, { action: 'sessions.sign_in' }))
    assert.deepEqual([audited?.actor, audited?.outcome, audited?.key], ['local:ada', 'ok', row?.family_id])
    assert.doesNotMatch(JSON.stringify(audited), new RegExp(link.slice(-43)))
  })

  test('works once, also for parallel requests', async (t) => {
    const s = await opened(t, engine)
    const link = await signInLink(s, 'local:ada')
    const answers = await Promise.all(Array.from({ length: 8 }, () => post(link)))
    assert.deepEqual(answers.map(({ status }) => status).sort(), [303, ...Array.from({ length: 7 }, () => 404)])
    assert.equal(await s.host.engine.read((tx) => sessions.count(tx)), 1)
    assert.equal((await fetch(link, HTML)).status, 404)
  })

  test('works for 15 minutes', async (t) => {
    const s = await opened(t, engine)
    const [first, second] = [await signInLink(s, 'local:ada'), await signInLink(s, 'local:ada')]
    s.clock.advance(15 * 60_000 - 1)
    assert.equal((await post(first)).status, 303)
    s.clock.advance(1)
    assert.equal((await post(second)).status, 404)
    // A new link removes expired ones.
    s.clock.advance(1)
    await signInLink(s, 'local:ada')
    assert.equal(await s.host.engine.read((tx) => signInLinks.count(tx)), 1)
  })

  test('signing in ends the previous session of the browser', async (t) => {
    const s = await opened(t, engine)
    const ada = await signIn(s, 'local:ada')
    const link = await signInLink(s, 'local:bob')
    assert.equal((await post(link, { Cookie: ada.cookie })).status, 303)
    assert.equal((await ada.get('/auth/me')).headers.get('location'), '/auth/sign-in?next=%2Fauth%2Fme')
    const rows = await s.host.engine.read((tx) => sessions.list(tx))
    assert.deepEqual(
      new Map(rows.map(({ sub, status }) => [sub, status])),
      new Map([
        ['local:ada', 'revoked'],
        ['local:bob', 'active'],
      ]),
    )
  })
})

suite('sign-in links and forms', () => {
  test('unknown, used, expired and malformed links look the same', async (t) => {
    const s = await opened(t)
    const [used, expired] = [await signInLink(s, 'local:ada'), await signInLink(s, 'local:ada')]
    await post(used)
    s.clock.advance(15 * 60_000)
    const links = [
      used,
      expired,
      `${s.url()}/auth/link/${'A'.repeat(43)}`,
      `${s.url()}/auth/link/:token`,
      `${s.url()}/auth/link/x`,
    ]
    const pages = new Set<string>()
    for (const link of links) {
      for (const answer of [await fetch(link, HTML), await post(link)]) {
        assert.equal(answer.status, 404)
        assert.deepEqual(answer.headers.getSetCookie(), [])
        pages.add(await answer.text())
      }
    }
    assert.equal(pages.size, 1)
  })

  test('a form of another site or without an origin is refused and uses up nothing', async (t) => {
    const s = await opened(t)
    const link = await signInLink(s, 'local:ada')
    const { Origin, ...without } = {
      Origin: '',
      Accept: 'text/html',
      'Content-Type': 'application/x-www-form-urlencoded',
    }
    for (const headers of [
      { ...without, Origin: 'https://evil.example' },
      { ...without, Origin: 'null' },
      { ...without, Origin: `${new URL(link).origin}.evil.example` },
      { ...without, 'Sec-Fetch-Site': 'cross-site' },
      without,
    ]) {
      const answer = await fetch(link, { method: 'POST', headers, body: '', redirect: 'manual' })
      assert.equal(answer.status, 403)
    }
    const own = { ...without, 'Sec-Fetch-Site': 'same-origin' }
    assert.equal((await fetch(link, { method: 'POST', headers: own, body: '', redirect: 'manual' })).status, 303)
  })

  test('the next page after a link is a path of this server', async (t) => {
    const s = await opened(t)
    const targets: [string, string][] = [
      ['/priv/team/', '/priv/team/'],
      ['//evil.example/', '/auth/me'],
      ['https://evil.example/', '/auth/me'],
      ['/\\evil.example', '/auth/me'],
      ['/%09/evil.example', '/%09/evil.example'],
      ['/\t/evil.example', '/auth/me'],
    ]
    for (const [next, expected] of targets) {
      const link = `${await signInLink(s, 'local:ada')}?next=${encodeURIComponent(next)}`
      assert.equal((await post(link)).headers.get('location'), expected, next)
    }
  })

  test('signing out needs the token of the form and ends the session', async (t) => {
    const s = await opened(t)
    const ada = await signIn(s, 'local:ada')
    const eve = await signIn(s, 'local:eve')
    for (const csrf of ['', eve.csrf]) assert.equal((await ada.post('/auth/sign-out', { csrf })).status, 403)
    assert.equal((await ada.get('/auth/me')).status, 200)
    const answer = await ada.post('/auth/sign-out')
    assert.equal(answer.headers.get('location'), '/auth/sign-in')
    assert.match(cookiesOf(answer), /^svc_session_test=$/)
    assert.equal((await ada.get('/auth/me')).status, 303)
    assert.equal((await eve.get('/auth/me')).status, 200)
  })

  test('pages for people cannot be framed, cached or indexed', async (t) => {
    const s = await opened(t)
    const { headers } = await (await signIn(s, 'local:ada')).get('/auth/me')
    assert.equal(headers.get('x-frame-options'), 'DENY')
    assert.match(headers.get('content-security-policy') ?? '', /^default-src 'none'.*frame-ancestors 'none'$/)
    assert.deepEqual([headers.get('cache-control'), headers.get('x-robots-tag')], ['no-store', 'noindex'])
  })
})
