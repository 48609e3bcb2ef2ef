// Adding passkeys and signing in with them, through the front door, with an authenticator in software.
import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { type ResponseOptions, SoftAuthenticator } from '../../../test/support/authenticator.ts'
import { type EngineName, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { type ServedHost, serveHost } from '../../../test/support/served-host.ts'
import { browserOf, cookiesOf, type SignedInBrowser, signIn } from '../../../test/support/sign-in.ts'
import { listPasskeys, PASSKEYS_MAX, type PasskeyRow, passkeys, usedChallenges } from '../../core/people/passkeys.ts'
import { sessions } from '../../core/people/sessions.ts'
import { audit } from '../../registry/audit.ts'

const ORIGIN = 'http://localhost:8080'
const MINUTE_MS = 60_000

async function opened(t: TestContext, engine: EngineName = 'sqlite'): Promise<ServedHost> {
  const s = await serveHost(t, { on: await testHost(t, engine), daemons: ['proxyd', 'authd'] })
  await s.grant('local:ada', 'interact', 'team')
  await s.grant('local:bob', 'interact', 'team')
  return s
}

/** A request of the script in the pages. */
function send(s: ServedHost, path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(s.url() + path, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Origin: ORIGIN, ...headers },
    body: JSON.stringify(body),
  })
}

const problemOf = async (response: Response) => JSON.parse(await response.text())

interface Ceremony {
  readonly options: { challenge: string; user: { id: string; name: string } } & Record<string, unknown>
  readonly cookie: string
}

async function begin(s: ServedHost, path: string, headers?: Record<string, string>): Promise<Ceremony> {
  const response = await send(s, path, {}, headers)
  assert.equal(response.status, 200, await response.clone().text())
  return { options: JSON.parse(await response.text()), cookie: cookiesOf(response) }
}

const beginAdding = (s: ServedHost, { cookie, csrf }: SignedInBrowser): Promise<Ceremony> =>
  begin(s, '/auth/passkeys/options', { Cookie: cookie, 'X-CSRF-Token': csrf })

type Changes = Partial<ResponseOptions>

async function add(
  s: ServedHost,
  browser: SignedInBrowser,
  key: SoftAuthenticator,
  changes: Changes & { name?: string } = {},
): Promise<Response> {
  const { options, cookie } = await beginAdding(s, browser)
  const { name, ...rest } = changes
  const response = key.register({ origin: ORIGIN, challenge: options.challenge, ...rest })
  const headers = { Cookie: `${browser.cookie}; ${cookie}`, 'X-CSRF-Token': browser.csrf }
  return send(s, '/auth/passkeys', { response, ...(name === undefined ? {} : { name }) }, headers)
}

async function signInBy(s: ServedHost, key: SoftAuthenticator, changes: Changes = {}): Promise<Response> {
  const { options, cookie } = await begin(s, '/auth/passkey/options')
  const response = key.signIn({ origin: ORIGIN, challenge: options.challenge, ...changes })
  return send(s, '/auth/passkey/sign-in', { response, next: '/auth/devices' }, { Cookie: cookie })
}

const stored = (s: ServedHost, sub = 'local:ada'): Promise<PasskeyRow[]> =>
  s.host.engine.read((tx) => listPasskeys(tx, sub))

/** A person with one passkey, as most tests need. */
async function withPasskey(t: TestContext, engine?: EngineName, changes?: Changes) {
  const s = await opened(t, engine)
  const [browser, key] = [await signIn(s, 'local:ada'), new SoftAuthenticator()]
  assert.equal((await add(s, browser, key, changes)).status, 201)
  return { s, browser, key }
}

onEveryEngine('a passkey', (engine) => {
  test('is added after a sign-in by link and signs in as the same person', async (t) => {
    const { s, key } = await withPasskey(t, engine)
    const [row] = await stored(s)
    assert.deepEqual(
      [row?.id, row?.sub, row?.counter, row?.name, row?.last_used_at],
      [key.id, 'local:ada', 0, 'Unknown browser', undefined],
    )
    const answer = await signInBy(s, key)
    assert.deepEqual([answer.status, await problemOf(answer)], [200, { next: '/auth/devices' }])
    const me = await (await browserOf(s, cookiesOf(answer))).get('/auth/me', { Accept: 'application/json' })
    assert.equal(JSON.parse(await me.text()).sub, 'local:ada')
    assert.notEqual((await stored(s))[0]?.last_used_at, undefined)
    const methods = await s.host.engine.read((tx) => sessions.list(tx))
    assert.deepEqual(methods.map(({ method }) => method).sort(), ['link', 'passkey'])
    const actions = await s.host.engine.read((tx) => audit.list(tx, { resource: 'passkeys' }))
    assert.deepEqual(
      actions.map(({ action, actor, key: of, outcome }) => [action, actor, of, outcome]),
      [
        ['passkeys.add', 'local:ada', key.id, 'ok'],
        ['passkeys.use', 'local:ada', key.id, 'ok'],
      ],
    )
  })

  test('signs in once with each response', async (t) => {
    const { s, key } = await withPasskey(t, engine)
    const { options, cookie } = await begin(s, '/auth/passkey/options')
    const response = key.signIn({ origin: ORIGIN, challenge: options.challenge })
    const replay = () => send(s, '/auth/passkey/sign-in', { response }, { Cookie: cookie })
    const statuses = await Promise.all([replay(), replay(), replay()])
    assert.deepEqual(statuses.map(({ status }) => status).sort(), [200, 400, 400])
    const later = await replay()
    assert.deepEqual(
      [later.status, (await problemOf(later)).detail],
      [400, 'this response of a passkey was used before or is too old'],
    )
  })

  test('keeps used challenges only until they expire', async (t) => {
    const { s, key } = await withPasskey(t, engine)
    const count = () => s.host.engine.read((tx) => usedChallenges.count(tx))
    await signInBy(s, key)
    assert.equal(await count(), 2)
    s.clock.advance(5 * MINUTE_MS + 1)
    await signInBy(s, key)
    assert.equal(await count(), 1)
  })

  test('with a counter that falls or stays is refused and audited', async (t) => {
    const { s, key } = await withPasskey(t, engine, { counter: 2 ** 32 - 10 })
    for (const counter of [2 ** 32 - 10, 5, 0]) {
      const answer = await signInBy(s, key, { counter })
      assert.deepEqual([answer.status, answer.headers.getSetCookie()], [403, []])
      assert.match((await problemOf(answer)).detail, /may have been copied: its counter is \d+ after 4294967286/)
    }
    const denied = await s.host.engine.read((tx) => audit.list(tx, { action: 'passkeys.use' }))
    assert.deepEqual(
      denied.map(({ actor, outcome }) => [actor, outcome]),
      Array.from({ length: 3 }, () => ['local:ada', 'denied']),
    )
    assert.equal((await signInBy(s, key, { counter: 2 ** 32 - 9 })).status, 200)
    assert.equal((await stored(s))[0]?.counter, 2 ** 32 - 9)
  })

  test('signs in with other backup flags than before', async (t) => {
    const { s, key } = await withPasskey(t, engine)
    assert.equal((await signInBy(s, key, { isEligible: true, isBackedUp: true })).status, 200)
    const [row] = await stored(s)
    assert.deepEqual([row?.is_backup_eligible, row?.is_backed_up], [true, true])
    assert.equal((await signInBy(s, key, { isEligible: true })).status, 200)
    assert.equal((await signInBy(s, key)).status, 200)
    // Backed up without being eligible is impossible.
    assert.equal((await signInBy(s, key, { isBackedUp: true })).status, 400)
  })

  test('is renamed and removed by its owner only', async (t) => {
    const { s, browser, key } = await withPasskey(t, engine)
    const bob = await signIn(s, 'local:bob')
    const of = { id: key.id }
    assert.equal((await bob.post('/auth/passkeys/rename', { ...of, name: 'Mine' })).status, 404)
    assert.equal((await bob.post('/auth/passkeys/remove', of)).status, 404)
    assert.equal((await browser.post('/auth/passkeys/rename', { ...of, name: 'x'.repeat(65) })).status, 400)
    assert.equal((await browser.post('/auth/passkeys/rename', { ...of, name: ' ' })).status, 400)
    assert.equal((await browser.post('/auth/passkeys/rename', { ...of, name: 'x'.repeat(64) })).status, 303)
    assert.equal((await stored(s))[0]?.name, 'x'.repeat(64))
    assert.equal((await browser.post('/auth/passkeys/remove', of)).status, 303)
    assert.deepEqual(await stored(s), [])
    const answer = await signInBy(s, key)
    assert.deepEqual([answer.status, (await problemOf(answer)).detail], [401, 'this server does not know that passkey'])
    assert.equal((await browser.post('/auth/passkeys/remove', of)).status, 404)
  })

  test('of another person is removed by an operator', async (t) => {
    const { s, key } = await withPasskey(t, engine)
    await s.operator('local:root')
    const operator = await signIn(s, 'local:root')
    assert.equal((await operator.post('/auth/passkeys/rename', { id: key.id, name: 'x' })).status, 404)
    assert.equal((await operator.post('/auth/passkeys/remove', { id: key.id })).status, 303)
    assert.deepEqual(await stored(s), [])
  })

  test('cannot be added a second time, by the same person or another', async (t) => {
    const { s, browser, key } = await withPasskey(t, engine)
    const bob = await signIn(s, 'local:bob')
    for (const person of [browser, bob]) {
      const answer = await add(s, person, key)
      assert.deepEqual([answer.status, (await problemOf(answer)).detail], [409, 'this passkey is in use already'])
    }
    assert.deepEqual(await stored(s, 'local:bob'), [])
  })

  test('is one of at most 20', async (t) => {
    const { s, browser } = await withPasskey(t, engine)
    const [row] = await stored(s)
    assert.ok(row)
    await s.host.engine.transaction(async (tx) => {
      for (let n = 2; n < PASSKEYS_MAX; n++) await passkeys.insert(tx, { ...row, id: `key${n}` })
    })
    assert.equal((await add(s, browser, new SoftAuthenticator())).status, 201)
    assert.equal((await stored(s)).length, 20)
    const answer = await add(s, browser, new SoftAuthenticator())
    assert.deepEqual([answer.status, (await problemOf(answer)).detail], [409, 'you have 20 passkeys already'])
  })
})

suite('a passkey of a person without access', () => {
  test('does not sign in', async (t) => {
    const { s, key } = await withPasskey(t)
    await s.ungrant('local:ada', 'interact', 'team')
    const answer = await signInBy(s, key)
    assert.deepEqual([answer.status, answer.headers.getSetCookie()], [403, []])
    assert.equal((await problemOf(answer)).detail, 'local:ada may not sign in')
  })
})

suite('a response that does not verify', () => {
  /** One sentence, which names neither the expected origin nor the challenge; the log has the reason. */
  async function assertRefused(s: ServedHost, answer: Response, reason: RegExp): Promise<void> {
    const { status, detail, hint } = await problemOf(answer)
    assert.deepEqual([status, detail, hint], [400, 'the response of the passkey could not be verified', 'try again'])
    assert.deepEqual(answer.headers.getSetCookie(), [])
    const logged = s.logged().filter(({ msg }) => msg === 'a passkey was refused')
    assert.match(JSON.stringify(logged.at(-1)), reason)
  }

  test('is refused while signing in', async (t) => {
    const { s, key } = await withPasskey(t)
    const [other, [row]] = [new SoftAuthenticator(), await stored(s)]
    const cases: [Changes, RegExp][] = [
      [{ origin: 'http://127.0.0.1:8080' }, /origin/],
      [{ origin: 'https://evil.example' }, /origin/],
      [{ rpId: 'evil.example' }, /RP ?ID/i],
      [{ challenge: 'AAAA' }, /challenge/],
      [{ isVerified: false }, /verification required/],
      [{ userHandle: 'AAAA' }, /user handle/],
    ]
    for (const [changes, reason] of cases) await assertRefused(s, await signInBy(s, key, changes), reason)
    assert.equal((await signInBy(s, key, { userHandle: row?.user_handle ?? '' })).status, 200)
    // The key of another authenticator under this id.
    const { options, cookie } = await begin(s, '/auth/passkey/options')
    const response = { ...other.signIn({ origin: ORIGIN, challenge: options.challenge }), id: key.id, rawId: key.id }
    assert.equal((await send(s, '/auth/passkey/sign-in', { response }, { Cookie: cookie })).status, 400)
  })

  test('is refused while adding a passkey', async (t) => {
    const s = await opened(t)
    const browser = await signIn(s, 'local:ada')
    const cases: [Changes, RegExp][] = [
      [{ origin: 'http://127.0.0.1:8080' }, /origin/],
      [{ rpId: 'evil.example' }, /RP ?ID/i],
      [{ challenge: 'AAAA' }, /challenge/],
      [{ isVerified: false }, /verif/],
      [{ certificates: [Buffer.from('a certificate that names a URL')] }, /certificates/],
    ]
    for (const [changes, reason] of cases)
      await assertRefused(s, await add(s, browser, new SoftAuthenticator(), changes), reason)
    assert.deepEqual(await stored(s), [])
  })

  test('is refused with 400 whatever its members are', async (t) => {
    const { s, key } = await withPasskey(t)
    const { options, cookie } = await begin(s, '/auth/passkey/options')
    const good = key.signIn({ origin: ORIGIN, challenge: options.challenge })
    const bad = [
      undefined,
      'x',
      {},
      { ...good, type: 'password' },
      { ...good, id: '../../x' },
      { ...good, rawId: 'other' },
      { ...good, response: {} },
      { ...good, response: { ...good.response, authenticatorData: '' } },
      { ...good, response: { ...good.response, authenticatorData: '%%%' } },
      { ...good, response: { ...good.response, clientDataJSON: 'AAAA' } },
      { ...good, response: { ...good.response, signature: 'AAAA' } },
    ]
    for (const response of bad) {
      const answer = await send(s, '/auth/passkey/sign-in', { response }, { Cookie: cookie })
      assert.equal(answer.status, 400, JSON.stringify(response))
    }
  })
})

suite('sign-ins that fail', () => {
  test('are limited to 60 a minute for each address, and good ones are not', async (t) => {
    const { s, key } = await withPasskey(t)
    const statuses = await Promise.all(
      Array.from({ length: 61 }, async () => (await send(s, '/auth/passkey/sign-in', {})).status),
    )
    assert.deepEqual(statuses.sort(), [...Array.from({ length: 60 }, () => 400), 429])
    assert.equal((await signInBy(s, key)).status, 200)
  })
})

suite('a challenge', () => {
  test('lasts 5 minutes', async (t) => {
    const { s, key } = await withPasskey(t)
    const { options, cookie } = await begin(s, '/auth/passkey/options')
    const response = key.signIn({ origin: ORIGIN, challenge: options.challenge })
    s.clock.advance(5 * MINUTE_MS)
    assert.equal((await send(s, '/auth/passkey/sign-in', { response }, { Cookie: cookie })).status, 400)
    s.clock.advance(-1)
    assert.equal((await send(s, '/auth/passkey/sign-in', { response }, { Cookie: cookie })).status, 200)
  })

  test('counts only in the browser that asked for it, and for the purpose that it asked for', async (t) => {
    const { s, browser, key } = await withPasskey(t)
    const [own, other] = [await begin(s, '/auth/passkey/options'), await begin(s, '/auth/passkey/options')]
    const response = key.signIn({ origin: ORIGIN, challenge: own.options.challenge })
    const adding = await beginAdding(s, browser)
    const cookies = [undefined, other.cookie, 'svc_passkey_test=AAAA', `${own.cookie}; ${other.cookie}`, adding.cookie]
    for (const Cookie of cookies) {
      const answer = await send(s, '/auth/passkey/sign-in', { response }, Cookie === undefined ? {} : { Cookie })
      assert.equal(answer.status, 400, String(Cookie))
    }
    const bob = await signIn(s, 'local:bob')
    const registered = new SoftAuthenticator().register({ origin: ORIGIN, challenge: adding.options.challenge })
    for (const cookie of [adding.cookie, own.cookie]) {
      const headers = { Cookie: `${bob.cookie}; ${cookie}`, 'X-CSRF-Token': bob.csrf }
      assert.equal((await send(s, '/auth/passkeys', { response: registered }, headers)).status, 400)
    }
  })
})

suite('adding a passkey', () => {
  test('needs a sign-in of the last 15 minutes, or a tap of a passkey', async (t) => {
    const { s, browser, key } = await withPasskey(t)
    const headers = (of: SignedInBrowser) => ({ Cookie: of.cookie, 'X-CSRF-Token': of.csrf })
    s.clock.advance(15 * MINUTE_MS - 1)
    const { options, cookie } = await beginAdding(s, browser)
    s.clock.advance(1)
    const response = new SoftAuthenticator().register({ origin: ORIGIN, challenge: options.challenge })
    const late = await send(
      s,
      '/auth/passkeys',
      { response },
      { ...headers(browser), Cookie: `${browser.cookie}; ${cookie}` },
    )
    for (const answer of [late, await send(s, '/auth/passkeys/options', {}, headers(browser))]) {
      assert.equal(answer.status, 403)
      assert.match((await problemOf(answer)).detail, /a sign-in of the last 15 minutes/)
    }
    const again = await browserOf(s, cookiesOf(await signInBy(s, key)))
    assert.equal((await add(s, again, new SoftAuthenticator(), { name: 'Second' })).status, 201)
    assert.deepEqual(
      (await stored(s)).map(({ name }) => name),
      ['Unknown browser', 'Second'],
    )
  })

  test('needs a session, its CSRF token and our origin', async (t) => {
    const s = await opened(t)
    const { cookie, csrf } = await signIn(s, 'local:ada')
    const path = '/auth/passkeys/options'
    const bearer = await s.bearer({ sub: 'local:ada' })
    assert.equal((await send(s, path, {})).status, 401)
    assert.equal((await send(s, path, {}, { Authorization: `Bearer ${bearer}` })).status, 401)
    assert.equal((await send(s, path, {}, { Cookie: cookie })).status, 403)
    assert.equal((await send(s, path, {}, { Cookie: cookie, 'X-CSRF-Token': 'x' })).status, 403)
    for (const Origin of ['https://evil.example', 'null'])
      assert.equal((await send(s, path, {}, { Cookie: cookie, 'X-CSRF-Token': csrf, Origin })).status, 403)
    assert.equal((await send(s, path, {}, { Cookie: cookie, 'X-CSRF-Token': csrf })).status, 200)
    for (const other of ['/auth/passkey/options', '/auth/passkey/sign-in'])
      assert.equal((await send(s, other, {}, { Origin: 'https://evil.example' })).status, 403)
  })

  test('asks for a verified person, a discoverable key and no attestation', async (t) => {
    const { s, browser, key } = await withPasskey(t)
    const { options } = await beginAdding(s, browser)
    const { rp, user, attestation, authenticatorSelection, pubKeyCredParams, excludeCredentials } = options
    assert.deepEqual(rp, { name: 'svc at localhost', id: 'localhost' })
    assert.deepEqual(authenticatorSelection, {
      residentKey: 'required',
      userVerification: 'required',
      requireResidentKey: true,
    })
    assert.deepEqual(
      (pubKeyCredParams as { alg: number }[]).map(({ alg }) => alg),
      [-8, -7, -257],
    )
    assert.deepEqual([attestation, (excludeCredentials as { id: string }[]).map(({ id }) => id)], ['none', [key.id]])
    // One handle for all passkeys of a person, which does not contain the sub.
    assert.equal(user.id, (await stored(s))[0]?.user_handle)
    assert.doesNotMatch(Buffer.from(user.id, 'base64url').toString(), /ada/)
    const { options: signing } = await begin(s, '/auth/passkey/options')
    assert.deepEqual(
      [signing.rpId, signing.userVerification, signing.allowCredentials],
      ['localhost', 'required', undefined],
    )
  })
})

suite('the passkey script', () => {
  test('is cached with a validator', async (t) => {
    const s = await opened(t)
    const url = `${s.url()}/auth/passkey.js`
    const first = await fetch(url)
    assert.equal(first.headers.get('content-type'), 'text/javascript; charset=utf-8')
    const etag = first.headers.get('etag') ?? ''
    assert.match(etag, /^"\w+/)
    assert.equal((await fetch(url, { headers: { 'If-None-Match': etag } })).status, 304)
    const text = await first.text()
    assert.doesNotMatch(text, /^(import|export) /m)
  })

  test('and the sign-in page are smaller than 15 KB together', async (t) => {
    const s = await opened(t)
    const page = await (await fetch(`${s.url()}/auth/sign-in`, { headers: { Accept: 'text/html' } })).text()
    const script = await (await fetch(`${s.url()}/auth/passkey.js`)).text()
    const paths = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path)
    assert.deepEqual(paths, ['/auth/passkey.js', '/', 'http://localhost:8080'])
    assert.ok(gzipSync(page).length + gzipSync(script).length < 15 * 1024)
  })
})
