import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { CookieBrowser } from '../../../test/support/cookie-browser.ts'
import { type EngineName, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { CLIENT, serveSmallProvider } from '../../../test/support/openid-servers.ts'
import { serveHost } from '../../../test/support/served-host.ts'
import { accounts } from '../../core/people/accounts.ts'
import { identityClaims } from '../../core/people/identities.ts'
import { createSignInLink } from '../../core/people/sign-in-links.ts'
import { audit } from '../../registry/audit.ts'

const BASE = 'http://localhost:8080'
const start = (name: string): string => `${BASE}/auth/provider/${name}`

async function setUp(t: TestContext, engine: EngineName = 'sqlite') {
  const [corp, partner] = [await serveSmallProvider(t), await serveSmallProvider(t)]
  corp.claims = { sub: 'anna', email: 'anna@example.com', email_verified: true, name: 'Anna' }
  partner.claims = { sub: '77', email: 'a@partner.example', email_verified: true }
  const on = await serveHost(t, {
    on: await testHost(t, engine),
    daemons: ['proxyd', 'authd'],
    settings: {
      ...Object.fromEntries(
        Object.entries({ CORP: corp, PARTNER: partner }).flatMap(([name, { issuer }]) => [
          [`OIDC_${name}_ISSUER`, issuer],
          [`OIDC_${name}_ID`, CLIENT.id],
          [`OIDC_${name}_SECRET`, CLIENT.secret],
        ]),
      ),
      SIGN_IN_ALLOW: '*@example.com',
    },
  })
  const open = (): CookieBrowser => new CookieBrowser({ [BASE]: on.url() })
  const me = async (browser: CookieBrowser): Promise<string> => (await browser.fetch(`${BASE}/auth/me`)).text()
  const linkHref = async (browser: CookieBrowser, name: string): Promise<string> => {
    const [, href] = new RegExp(`href="(/auth/provider/${name}\\?link=[^"]+)"`).exec(await me(browser)) ?? []
    return `${BASE}${href ?? assert.fail('no link button')}`
  }
  return {
    ...on,
    corp,
    partner,
    open,
    me,
    linkHref,
    signIn: async (name: string): Promise<CookieBrowser> => {
      const browser = open()
      await browser.walk(start(name))
      return browser
    },
    subOf: async (browser: CookieBrowser): Promise<string | undefined> =>
      /signed in as (?:<strong>[^<]*<\/strong>, )?<code>([^<]+)</.exec(await me(browser))?.[1],
    unlink: async (browser: CookieBrowser, sub: string): Promise<Response> => {
      const csrf = /name="csrf" value="([^"]+)"/.exec(await me(browser))?.[1] ?? ''
      return browser.post(`${BASE}/auth/me/unlink`, { csrf, sub })
    },
    claims: () => on.host.engine.read((tx) => identityClaims.list(tx, {}, [['sub', 'asc']])),
  }
}

onEveryEngine('linking an account', (engine) => {
  test('signs in as the first account from then on, and unlinking ends that', async (t) => {
    const on = await setUp(t, engine)
    const browser = await on.signIn('corp')
    const { response, url } = await browser.walk(await on.linkHref(browser, 'partner'))
    assert.deepEqual([response?.status, url], [200, `${BASE}/auth/me#ways`])
    const claims = await on.claims()
    assert.deepEqual(
      claims.map(({ sub }) => sub),
      ['oidc:corp/anna', 'oidc:partner/77'],
    )
    // Its own address is not in SIGN_IN_ALLOW, but that of the account it is linked to.
    const other = await on.signIn('partner')
    assert.equal(await on.subOf(other), 'oidc:corp/anna')
    assert.match(await on.me(other), /oidc:partner\/77.*Unlink/s)
    const rows = await on.host.engine.read((tx) => audit.list(tx, { action: 'identities.link_own' }))
    assert.equal(rows.length, 1)
    // Linking it again changes nothing.
    await browser.walk(await on.linkHref(browser, 'partner'))
    assert.deepEqual(await on.claims(), claims)
    const unlinked = await on.unlink(browser, 'oidc:partner/77')
    assert.equal(unlinked.headers.get('Location'), '/auth/me#ways')
    // The sessions that it started end with it.
    assert.equal(await on.subOf(other), undefined)
    assert.equal(await on.subOf(browser), 'oidc:corp/anna')
    assert.equal((await on.open().walk(start('partner'))).response?.status, 403)
    await browser.walk(await on.linkHref(browser, 'partner'))
    assert.equal(await on.subOf(await on.signIn('partner')), 'oidc:corp/anna')
  })

  test('is refused if it belongs to another person', async (t) => {
    const on = await setUp(t, engine)
    await on.grant('oidc:partner/77', 'interact', 'team')
    const browser = await on.signIn('corp')
    const attempts = async (): Promise<Response | undefined> =>
      (await browser.walk(await on.linkHref(browser, 'partner'))).response
    // It has rights.
    assert.equal((await attempts())?.status, 409)
    await on.signIn('partner')
    await on.ungrant('oidc:partner/77', 'interact', 'team')
    // It has signed in by itself.
    const response = await attempts()
    assert.equal(response?.status, 409)
    assert.match((await response?.text()) ?? '', /oidc:partner\/77 belongs to another person/)
    assert.deepEqual(await on.claims(), [])
    // It is linked to another person.
    on.corp.claims = { sub: 'ben', email: 'ben@example.com', email_verified: true }
    await on.host.engine.transaction((tx) => accounts.remove(tx, { sub: 'oidc:partner/77' }))
    const ben = await on.signIn('corp')
    await ben.walk(await on.linkHref(ben, 'partner'))
    assert.equal((await attempts())?.status, 409)
    assert.equal(await on.subOf(await on.signIn('partner')), 'oidc:corp/ben')
  })
})

suite('linking', () => {
  test('never happens by e-mail address', async (t) => {
    const on = await setUp(t)
    on.partner.claims = { sub: '77', email: 'anna@example.com', email_verified: true }
    await on.signIn('corp')
    assert.equal(await on.subOf(await on.signIn('partner')), 'oidc:partner/77')
    assert.deepEqual(await on.claims(), [])
  })

  test('needs a sign-in of the last 15 minutes, at the start and at the end', async (t) => {
    const on = await setUp(t)
    const browser = await on.signIn('corp')
    const href = await on.linkHref(browser, 'partner')
    const { url: callback } = await browser.walk(href, {}, (url) => url.includes('/callback'))
    on.clock.advance(6 * 60_000)
    const { url: late } = await browser.walk(href, {}, (url) => url.includes('/callback'))
    on.clock.advance(9 * 60_000 - 1)
    assert.notEqual(late, callback)
    assert.match(await on.me(browser), /Link Partner/)
    on.clock.advance(1)
    assert.equal((await browser.fetch(late)).status, 403)
    assert.equal((await browser.fetch(href)).status, 403)
    const page = await on.me(browser)
    assert.ok(!page.includes('Link Partner'))
    assert.match(page, /href="\/auth\/sign-in\?again=1&amp;next=%2Fauth%2Fme">Sign in again/)
    assert.deepEqual(await on.claims(), [])
    await browser.walk(`${start('corp')}?next=%2Fauth%2Fme`)
    assert.match(await on.me(browser), /Link Partner/)
  })

  test('starts only on the page of the same session and provider', async (t) => {
    const on = await setUp(t)
    const [anna, stranger] = [await on.signIn('corp'), on.open()]
    const href = await on.linkHref(anna, 'partner')
    const own = new URL(href).searchParams.get('link') ?? ''
    assert.equal((await stranger.fetch(href)).status, 401)
    for (const proof of ['', '1', `${own}x`, 'ä'.repeat(own.length), own.slice(1)])
      assert.equal((await anna.fetch(`${start('partner')}?link=${encodeURIComponent(proof)}`)).status, 403, proof)
    assert.equal((await anna.fetch(`${start('corp')}?link=${own}`)).status, 403)
    on.corp.claims = { sub: 'ben', email: 'ben@example.com', email_verified: true }
    assert.equal((await (await on.signIn('corp')).fetch(href)).status, 403)
  })

  test('ends with the session that started it', async (t) => {
    const on = await setUp(t)
    const browser = await on.signIn('corp')
    const href = await on.linkHref(browser, 'partner')
    const { url: callback } = await browser.walk(href, {}, (url) => url.includes('/callback'))
    on.corp.claims = { sub: 'ben', email: 'ben@example.com', email_verified: true }
    await browser.walk(start('corp'))
    assert.equal((await browser.fetch(callback)).status, 403)
    assert.deepEqual(await on.claims(), [])
    // Nor does it become a sign-in.
    assert.equal(await on.subOf(browser), 'oidc:corp/ben')
  })
})

suite('unlinking', () => {
  test('keeps the account that the person acts as, the last way in, and the accounts of others', async (t) => {
    const on = await setUp(t)
    const token = await on.host.engine.transaction((tx) => createSignInLink(tx, on.host, 'local:me'))
    const browser = on.open()
    await browser.post(`${BASE}/auth/link/${token}`, {})
    assert.equal((await on.unlink(browser, 'local:me')).status, 409)
    assert.equal((await on.unlink(browser, 'oidc:partner/77')).status, 404)
    await browser.walk(await on.linkHref(browser, 'partner'))
    const last = await on.unlink(browser, 'oidc:partner/77')
    assert.equal(last.status, 409)
    assert.match(await last.text(), /the only account with which you can sign in/)
    await browser.walk(await on.linkHref(browser, 'corp'))
    assert.equal((await on.unlink(browser, 'oidc:partner/77')).status, 303)
    assert.equal((await on.unlink(browser, 'oidc:corp/anna')).status, 409)
    assert.equal((await on.unlink(browser, 'not a sub')).status, 400)
  })

  test('needs a recent sign-in, the CSRF token and our origin', async (t) => {
    const on = await setUp(t)
    const browser = await on.signIn('corp')
    await browser.walk(await on.linkHref(browser, 'partner'))
    const unlink = `${BASE}/auth/me/unlink`
    const csrf = /name="csrf" value="([^"]+)"/.exec(await on.me(browser))?.[1] ?? assert.fail('no token')
    const fields = { csrf, sub: 'oidc:partner/77' }
    assert.equal((await browser.post(unlink, { ...fields, csrf: 'x' })).status, 403)
    assert.equal((await browser.post(unlink, fields, { Origin: 'https://evil.example' })).status, 403)
    assert.equal((await on.open().post(unlink, fields)).status, 401)
    on.clock.advance(15 * 60_000)
    assert.equal((await browser.post(unlink, fields)).status, 403)
    assert.equal((await on.claims()).length, 2)
  })
})
