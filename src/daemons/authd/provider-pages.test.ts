import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { CookieBrowser } from '../../../test/support/cookie-browser.ts'
import { onEveryEngine, testHost } from '../../../test/support/host.ts'
import {
  CLIENT,
  type SmallProvider,
  serveRealProvider,
  serveSmallProvider,
} from '../../../test/support/openid-servers.ts'
import { type ServedHost, serveHost } from '../../../test/support/served-host.ts'
import { accounts } from '../../core/people/accounts.ts'
import { sessions } from '../../core/people/sessions.ts'
import { createSignInLink } from '../../core/people/sign-in-links.ts'
import { invitesResource } from '../../resources/invites.ts'
import { withoutSessionCookie } from '../http/session-cookie.ts'
import { attemptCookie, readAttempt, startAttempt } from './provider-attempt.ts'

const BASE = 'http://localhost:8080'

interface SignInSetup extends ServedHost {
  readonly provider: SmallProvider
  open(): CookieBrowser
  /** The sub of the browser's session. */
  subOf(browser: CookieBrowser): Promise<string | undefined>
}

interface SetupOptions {
  readonly settings?: Record<string, string>
  readonly on?: Awaited<ReturnType<typeof testHost>>
}

async function setUp(t: TestContext, { settings, on }: SetupOptions = {}): Promise<SignInSetup> {
  const provider = await serveSmallProvider(t)
  provider.claims = { sub: 'anna', email: 'anna@example.com', email_verified: true, name: 'Anna' }
  const served = await serveHost(t, {
    ...(on ? { on } : {}),
    daemons: ['proxyd', 'authd'],
    settings: { ...openIdSettings('CORP', provider.issuer), SIGN_IN_ALLOW: '*@example.com', ...settings },
  })
  return {
    ...served,
    provider,
    open: () => new CookieBrowser({ [BASE]: served.url() }),
    subOf: async (browser) => {
      const response = await browser.fetch(`${BASE}/auth/me`, { headers: { Accept: 'application/json' } })
      const body: unknown = response.status === 200 ? await response.json() : undefined
      return typeof body === 'object' && body !== null && 'sub' in body ? String(body.sub) : undefined
    },
  }
}

function openIdSettings(name: string, issuer: string): Record<string, string> {
  return { [`OIDC_${name}_ISSUER`]: issuer, [`OIDC_${name}_ID`]: CLIENT.id, [`OIDC_${name}_SECRET`]: CLIENT.secret }
}

const isCallback = (url: string): boolean => url.startsWith(`${BASE}/auth/provider/`) && url.includes('/callback')
const START = `${BASE}/auth/provider/corp`

async function textOf(response: Response | undefined): Promise<string> {
  return (await response?.text()) ?? assert.fail('no response')
}

test('signs in at a real OpenID provider, once per code', async (t) => {
  const redirectUri = `${BASE}/auth/provider/real/callback`
  const issuer = await serveRealProvider(t, redirectUri, {
    anna: { email: 'anna@example.com', email_verified: true, name: 'Anna' },
  })
  const on = await setUp(t, { settings: openIdSettings('REAL', issuer) })
  const browser = on.open()
  const start = `${BASE}/auth/provider/real?next=%2Fauth%2Fme%3Fa%3D1`
  const { url: callback } = await browser.walk(start, { login: 'anna', password: 'x' }, isCallback)
  const attempt = browser.cookieHeader(callback)
  const response = await browser.fetch(callback)
  assert.equal(response.status, 303)
  assert.equal(response.headers.get('Location'), '/auth/me?a=1')
  assert.equal(await on.subOf(browser), 'oidc:real/anna')
  const [account] = await on.host.engine.read((tx) => accounts.list(tx))
  assert.deepEqual(
    [account?.issuer, account?.subject, account?.email, account?.email_verified, account?.name],
    [issuer, 'anna', 'anna@example.com', true, 'Anna'],
  )
  // The browser no longer has the attempt; a copy of it does not help either, because the provider takes a code once.
  const again = await browser.fetch(callback)
  assert.equal(again.status, 400)
  const replayed = await on.open().fetch(callback, { headers: { Cookie: attempt } })
  assert.equal(replayed.status, 422)
  assert.deepEqual(replayed.headers.getSetCookie().length, 1)
  const log = JSON.stringify(on.logged())
  assert.match(log, /invalid_grant|unexpected/)
  for (const secret of [CLIENT.secret, new URL(callback).searchParams.get('code') ?? '?'])
    assert.ok(!log.includes(secret), 'the log has a secret')
})

onEveryEngine('an account', (engine) => {
  test('is issuer and subject, so the same e-mail address at another provider is another person', async (t) => {
    const other = await serveSmallProvider(t)
    other.claims = { sub: 'anna', email: 'anna@example.com', email_verified: true }
    const on = await setUp(t, {
      on: await testHost(t, engine),
      settings: openIdSettings('PARTNER', other.issuer),
    })
    const browser = on.open()
    await browser.walk(START)
    assert.equal(await on.subOf(browser), 'oidc:corp/anna')
    const second = on.open()
    await second.walk(`${BASE}/auth/provider/partner`)
    assert.equal(await on.subOf(second), 'oidc:partner/anna')
    const rows = await on.host.engine.read((tx) => accounts.list(tx))
    assert.equal(new Set(rows.map(({ issuer }) => issuer)).size, 2)
  })

  test('ends the session of another person in the same browser', async (t) => {
    const on = await setUp(t, { on: await testHost(t, engine) })
    const browser = on.open()
    await browser.walk(START)
    const before = browser.cookieHeader(BASE)
    on.provider.claims = { sub: 'ben', email: 'ben@example.com', email_verified: true }
    await browser.walk(START)
    assert.equal(await on.subOf(browser), 'oidc:corp/ben')
    const old = await on.open().fetch(`${BASE}/auth/me`, { headers: { Cookie: before } })
    assert.equal(old.status, 303)
    const rows = await on.host.engine.read((tx) => sessions.list(tx, { status: 'active' }))
    assert.deepEqual(
      rows.map(({ sub, method }) => [sub, method]),
      [['oidc:corp/ben', 'corp']],
    )
  })
})

test('refuses the accounts of another issuer under the same provider name', async (t) => {
  const on = await testHost(t)
  const first = await setUp(t, { on })
  await first.open().walk(START)
  const tenant = `${first.provider.issuer}/other-tenant`
  await on.host.engine.transaction((tx) => accounts.update(tx, { sub: 'oidc:corp/anna' }, { issuer: tenant }))
  const browser = first.open()
  const { response } = await browser.walk(START)
  assert.equal(response?.status, 409)
  assert.equal(await first.subOf(browser), undefined)
})

suite('an e-mail address', () => {
  for (const email_verified of [false, undefined, 'true', 'false', 1, null, {}])
    test(`does not count with email_verified ${JSON.stringify(email_verified)}`, async (t) => {
      const on = await setUp(t)
      on.provider.claims = { sub: 'anna', email: 'anna@example.com', email_verified }
      const browser = on.open()
      const { response } = await browser.walk(START)
      assert.equal(response?.status, 403)
      const page = await textOf(response)
      assert.match(page, /Corp confirmed that you are <strong>anna@example.com, which is not verified/)
      assert.match(page, /Ask its operator/)
      assert.match(page, /oidc:corp\/anna/)
      assert.equal(await on.subOf(browser), undefined)
      // A line for the sub is enough.
      await on.grant('oidc:corp/anna', 'interact', 'team')
      await browser.walk(START)
      assert.equal(await on.subOf(browser), 'oidc:corp/anna')
    })
})

suite('a callback', () => {
  test('in another browser signs that one in as no person', async (t) => {
    const on = await setUp(t)
    const attacker = on.open()
    const { url: callback } = await attacker.walk(START, {}, isCallback)
    const victim = on.open()
    const response = await victim.fetch(callback)
    assert.equal(response.status, 400)
    assert.match(await response.text(), /not started in this browser/)
    assert.equal(await on.subOf(victim), undefined)
    // Nor with an attempt of its own.
    await victim.walk(START, {}, isCallback)
    assert.equal((await victim.fetch(callback)).status, 422)
    assert.equal(await on.subOf(victim), undefined)
  })

  test('does not accept two attempts at once, of which a sibling domain may have planted one', async (t) => {
    const on = await setUp(t)
    const browser = on.open()
    const { url: callback } = await browser.walk(START, {}, isCallback)
    browser.setCookie(callback, 'svc_attempt_test_corp', 'planted', '/auth')
    assert.equal((await browser.fetch(callback)).status, 400)
  })

  test('is refused 10 minutes after the start, and not before', async (t) => {
    const on = await setUp(t)
    for (const [ms, status] of [
      [10 * 60_000 - 1, 303],
      [10 * 60_000, 400],
    ] as const) {
      const browser = on.open()
      const { url: callback } = await browser.walk(START, {}, isCallback)
      on.clock.advance(ms)
      assert.equal((await browser.fetch(callback)).status, status)
    }
  })

  const tampered: Record<string, (provider: SmallProvider) => void> = {
    'the state of another attempt': (provider) => {
      provider.callback = { state: 'another' }
    },
    'no state': (provider) => {
      provider.callback = { state: null }
    },
    'another issuer': (provider) => {
      provider.callback = { iss: 'https://evil.example' }
    },
    'no issuer': (provider) => {
      provider.callback = { iss: null }
    },
    'an unknown code': (provider) => {
      provider.callback = { code: 'guessed' }
    },
    'an error of the provider': (provider) => {
      provider.callback = { code: null, error: 'access_denied', error_description: '<script>alert(1)</script>' }
    },
    'another nonce': (provider) => {
      provider.claims.nonce = 'another'
    },
    'a token for another client': (provider) => {
      provider.claims.aud = 'another'
    },
    'a token of another issuer': (provider) => {
      provider.claims.iss = 'https://evil.example'
    },
    'an expired token': (provider) => {
      provider.claims.exp = Math.floor(Date.now() / 1000) - 3600
    },
    'a token signed with another key': (provider) => {
      provider.signsWrongly = true
    },
    'an empty subject': (provider) => {
      provider.claims.sub = ''
    },
    'a subject that is too long': (provider) => {
      provider.claims.sub = 'a'.repeat(247)
    },
  }
  for (const [name, tamper] of Object.entries(tampered))
    test(`with ${name} shows a calm page and starts no session`, async (t) => {
      const on = await setUp(t)
      tamper(on.provider)
      const browser = on.open()
      const { response } = await browser.walk(`${START}?next=%2Fchat`)
      assert.equal(response?.status, 422)
      const page = await textOf(response)
      assert.match(page, /Corp did not sign you in/)
      assert.match(page, /href="\/auth\/provider\/corp\?next=%2Fchat">Try again/)
      assert.ok(!page.includes('script') && !page.includes('evil'), page)
      assert.equal(await on.subOf(browser), undefined)
      assert.equal((await on.host.engine.read((tx) => sessions.list(tx))).length, 0)
    })

  test('accepts the longest subject', async (t) => {
    const on = await setUp(t)
    on.provider.claims.sub = 'a'.repeat(246)
    const browser = on.open()
    await browser.walk(START)
    assert.equal((await on.subOf(browser))?.length, 256)
  })
})

test('a provider that is down shows a sentence, and works again when it is back', async (t) => {
  const on = await setUp(t)
  on.provider.status = 503
  const browser = on.open()
  const down = await browser.fetch(START)
  assert.equal(down.status, 503)
  assert.match(await down.text(), /Corp cannot be reached at the moment/)
  const asJson = await browser.fetch(START, { headers: { Accept: 'application/json' } })
  assert.match(await asJson.text(), /"code":"unavailable"/)
  on.provider.status = 200
  await browser.walk(START)
  assert.equal(await on.subOf(browser), 'oidc:corp/anna')
  // Discovery is cached.
  await browser.walk(START)
  assert.equal(on.provider.requests.filter((line) => line.includes('openid-configuration')).length, 3)
})

test('headers of clients and proxies change no URL and no cookie', async (t) => {
  const on = await setUp(t)
  const evil = { 'X-Forwarded-Host': 'evil.example', 'X-Forwarded-Proto': 'https', Forwarded: 'host=evil.example' }
  const plain = await on.open().fetch(START)
  for (const Host of ['localhost:8080', 'evil.example']) {
    const response = await on.open().fetch(START, { headers: { ...evil, Host } })
    const to = new URL(response.headers.get('Location') ?? '')
    assert.equal(to.searchParams.get('redirect_uri'), `${BASE}/auth/provider/corp/callback`)
    const shape = (cookie: string): string => cookie.replace(/=[\w-]+;/, '=…;')
    assert.deepEqual(response.headers.getSetCookie().map(shape), plain.headers.getSetCookie().map(shape))
  }
  for (const address of ['not an address', '::1', '1.2.3.4, ,', ','.repeat(2000), '%', '[::1]:80'])
    for (const path of [`${START}/callback?code=1`, `${BASE}/auth/sign-in`, START]) {
      const { status } = await on.open().fetch(path, { headers: { 'X-Forwarded-For': address } })
      assert.ok(status < 500, `${status} with ${address}`)
    }
})

test('no header of a client names a person', async (t) => {
  const on = await setUp(t)
  const names = [
    'X-User-Sub',
    'X-Forwarded-User',
    'X-Remote-User',
    'Remote-User',
    'X-WebAuth-User',
    'X-Forwarded-Email',
  ]
  const headers = Object.fromEntries(names.map((name) => [name, 'local:operator']))
  const response = await on.open().fetch(`${BASE}/auth/me`, { headers })
  assert.equal(response.headers.get('Location'), '/auth/sign-in?next=%2Fauth%2Fme')
})

test('under https the attempt cookie is bound to the host, and backends do not get it', async (t) => {
  const { host } = await testHost(t)
  const secure = { ...host, webBase: 'https://svc.example' }
  const attempt = startAttempt(host, { next: '/chat' })
  const line = attemptCookie(secure, 'corp', attempt)
  assert.match(line, /^__Host-svc_attempt_corp=[\w-]+; Path=\/; Max-Age=600; HttpOnly; SameSite=Lax; Secure$/)
  const [cookie = ''] = line.split(';')
  assert.deepEqual(readAttempt(secure, 'corp', cookie), attempt)
  // It does not count for another provider, nor after a change of one character.
  assert.equal(readAttempt(secure, 'other', cookie.replace('corp', 'other')), undefined)
  assert.equal(
    readAttempt(secure, 'corp', `${cookie.slice(0, -3)}${cookie.endsWith('AAA') ? 'BBB' : 'AAA'}`),
    undefined,
  )
  assert.equal(withoutSessionCookie(secure, `${cookie}; __Host-svc_invite=x; own=1`), 'own=1')
})

test('a session that is renewed at the start of a sign-in keeps its new cookie', async (t) => {
  const on = await setUp(t)
  const browser = on.open()
  await browser.walk(START)
  on.clock.advance(14 * 60_000)
  const page = await (await browser.fetch(`${BASE}/auth/me`)).text()
  const href = /href="(\/auth\/provider\/corp\?link=[^"]+)"/.exec(page)?.[1] ?? assert.fail('no link')
  on.clock.advance(2 * 60_000)
  const names = (await browser.fetch(`${BASE}${href}`)).headers.getSetCookie().map((line) => line.split('=')[0])
  // It is no longer recent, so no attempt starts, but the session goes on.
  assert.deepEqual(names, ['svc_session_test'])
})

test('the attempt cookie is HttpOnly, Lax and limited to the provider', async (t) => {
  const on = await setUp(t)
  const [cookie = ''] = (await on.open().fetch(START)).headers.getSetCookie()
  assert.match(
    cookie,
    /^svc_attempt_test_corp=[\w-]+; Path=\/auth\/provider\/corp; Max-Age=600; HttpOnly; SameSite=Lax$/,
  )
})

test('next is a path of this server on every route that redirects', { timeout: 120_000 }, async (t) => {
  const on = await setUp(t)
  const browser = on.open()
  await browser.walk(START)
  const evil = fc.oneof(
    fc.constantFrom(
      '//evil.example',
      '/\\evil.example',
      'https://evil.example',
      '/\t/evil.example',
      '/%09/evil.example',
    ),
    fc.constantFrom('/..//evil.example', '/.//evil.example', '/a/..//evil.example', 'javascript:alert(1)', '/\r\nX: 1'),
    fc.webUrl(),
    fc.string().map((text) => `/${text}`),
    fc.string({ unit: 'binary' }),
  )
  const isOwn = (header: string | null): void => {
    const location = header ?? assert.fail('no redirect')
    assert.equal(new URL(location, BASE).origin, BASE, location)
    assert.match(location, /^\/(?![/\\])/)
  }
  await fc.assert(
    fc.asyncProperty(evil, async (next) => {
      const query = `next=${encodeURIComponent(next.toWellFormed())}`
      isOwn((await browser.fetch(`${BASE}/auth/sign-in?${query}`)).headers.get('Location'))
      const token = await on.host.engine.transaction((tx) => createSignInLink(tx, on.host, 'local:me'))
      isOwn((await on.open().post(`${BASE}/auth/link/${token}?${query}`, {})).headers.get('Location'))
    }),
    { numRuns: 40 },
  )
  await fc.assert(
    fc.asyncProperty(evil, async (next) => {
      on.clock.advance(60_000)
      const other = on.open()
      const start = `${START}?next=${encodeURIComponent(next.toWellFormed())}`
      const { url } = await other.walk(start, {}, isCallback)
      isOwn((await other.fetch(url)).headers.get('Location'))
    }),
    { numRuns: 15 },
  )
})

suite('a person with an invite', () => {
  test('may enter and goes to the invite unless next says otherwise', async (t) => {
    const on = await setUp(t, { settings: { SIGN_IN_ALLOW: '' } })
    await on.groups('team')
    const { token } = await on.cli.call(invitesResource.verbs.create, { target_glob: 'team', max_uses: 1 })
    const browser = on.open()
    await browser.walk(START)
    assert.equal(await on.subOf(browser), undefined)
    browser.setCookie(BASE, 'svc_invite_test', token)
    const { url } = await browser.walk(START, {}, isCallback)
    assert.equal((await browser.fetch(url)).headers.get('Location'), `/invite/${token}`)
    const { url: second } = await browser.walk(`${START}?next=%2Fauth%2Fme`, {}, isCallback)
    assert.equal((await browser.fetch(second)).headers.get('Location'), '/auth/me')
    assert.equal(await on.subOf(browser), 'oidc:corp/anna')
  })

  test('does not enter with a token that is not an invite', async (t) => {
    const on = await setUp(t, { settings: { SIGN_IN_ALLOW: '' } })
    for (const token of ['a'.repeat(43), '../../evil', '']) {
      const browser = on.open()
      browser.setCookie(BASE, 'svc_invite_test', token)
      assert.equal((await browser.walk(START)).response?.status, 403)
    }
  })
})

suite('the sign-in page', () => {
  test('has a button per provider, is small and keeps next', async (t) => {
    const on = await setUp(t, {
      settings: { GITHUB_ID: 'g', GITHUB_SECRET: 'gs', DISCORD_ID: 'd', DISCORD_SECRET: 'ds' },
    })
    const response = await on.open().fetch(`${BASE}/auth/sign-in?next=%2Fchat%2Fx`)
    const page = await response.text()
    assert.deepEqual(
      [...page.matchAll(/href="([^"]+)">Continue with (\w+)</g)].map(([, href, title]) => [href, title]),
      [
        ['/auth/provider/corp?next=%2Fchat%2Fx', 'Corp'],
        ['/auth/provider/github?next=%2Fchat%2Fx', 'GitHub'],
        ['/auth/provider/discord?next=%2Fchat%2Fx', 'Discord'],
      ],
    )
    assert.match(page, /svc login test local:operator/)
    // Only scripts are loaded in addition.
    assert.ok(!/<(?:link|img)\b/.test(page))
    const scripts = [...page.matchAll(/<script [^>]*src="([^"]+)"/g)].map(([, src]) => on.open().fetch(`${BASE}${src}`))
    const parts = [page, ...(await Promise.all((await Promise.all(scripts)).map((script) => script.text())))]
    const bytes = parts.reduce((sum, part) => sum + gzipSync(part).byteLength, 0)
    assert.ok(bytes < 15_000, `${bytes} bytes`)
  })

  test('sends signed-in people on, unless they have to sign in again', async (t) => {
    const on = await setUp(t)
    const browser = on.open()
    await browser.walk(START)
    const onward = await browser.fetch(`${BASE}/auth/sign-in?next=%2Fchat%2Fx`)
    assert.deepEqual([onward.status, onward.headers.get('Location')], [303, '/chat/x'])
    assert.equal((await browser.fetch(`${BASE}/auth/sign-in?again=1&next=%2Fchat%2Fx`)).status, 200)
  })

  test('has nothing for unknown providers', async (t) => {
    const on = await setUp(t)
    for (const name of ['github', 'CORP', 'nope', ':name', '*', 'toString', 'corp%2f..'])
      for (const path of ['', '/callback'])
        assert.equal((await on.open().fetch(`${BASE}/auth/provider/${name}${path}`)).status, 404, name + path)
  })
})

test('wrong links and callbacks of one address are limited and stop no valid link', async (t) => {
  const on = await setUp(t, { settings: { TRUSTED_PROXIES: '127.0.0.1' } })
  const from = { 'X-Forwarded-For': '2001:db8::1' }
  const wrong = `${BASE}/auth/link/${'a'.repeat(43)}`
  for (let count = 0; count < 60; count++) assert.equal((await on.open().post(wrong, {}, from)).status, 404)
  const limited = await on.open().post(wrong, {}, { 'X-Forwarded-For': '2001:db8::2' })
  assert.deepEqual([limited.status, limited.headers.get('Retry-After')], [429, '1'])
  // Another network is not affected, and a valid link works for the limited one too.
  assert.equal((await on.open().post(wrong, {}, { 'X-Forwarded-For': '2001:db8:0:1::1' })).status, 404)
  const token = await on.host.engine.transaction((tx) => createSignInLink(tx, on.host, 'local:me'))
  assert.equal((await on.open().post(`${BASE}/auth/link/${token}`, {}, from)).status, 303)
  const callback = await on.open().fetch(`${START}/callback?code=1&state=1`, { headers: from })
  assert.equal(callback.status, 429)
  on.clock.advance(1000)
  assert.equal((await on.open().post(wrong, {}, from)).status, 404)
})
