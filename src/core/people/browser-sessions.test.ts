import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import { overrideEngine } from '../../../test/support/engine-override.ts'
import { type EngineName, freshStore, onEveryEngine, type TestHost, testHost } from '../../../test/support/host.ts'
import { type AuthenticatedSession, authenticateSession, GRACE_MS, ROTATE_AFTER_MS } from './browser-sessions.ts'
import { createSession, revokeSession, sessions, sessionTokens, successorOf } from './sessions.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

interface StartOptions {
  readonly idleMs?: number
  readonly maxMs?: number
  readonly kind?: 'browser' | 'client'
}

async function start(
  { host }: TestHost,
  { idleMs = 14 * DAY_MS, maxMs = 90 * DAY_MS, kind = 'browser' }: StartOptions = {},
) {
  const begun = { sub: 'local:ada', kind, method: 'link', idleMs, maxMs } as const
  const { session, token } = await host.engine.transaction((tx) => createSession(tx, host, begun))
  return { id: session.family_id, token }
}

async function opened(t: TestContext, engine: EngineName, options?: StartOptions) {
  const on = await testHost(t, engine)
  const { id, token } = await start(on, options)
  const use = (given: string, canRenew = true): Promise<AuthenticatedSession | undefined> =>
    authenticateSession(on.host, given, canRenew)
  return { ...on, id, token, use }
}

const mustRenew = (session: AuthenticatedSession | undefined): string => {
  assert.ok(session?.renewedToken, 'the token was not renewed')
  return session.renewedToken
}

onEveryEngine('a browser session', (engine) => {
  test('its token is replaced after 15 minutes, not before, and only if the response can set a cookie', async (t) => {
    const { clock, token, use, id } = await opened(t, engine)
    assert.deepEqual(await use(token), { id, sub: 'local:ada', startedMs: clock.now() })
    clock.advance(ROTATE_AFTER_MS - 1)
    assert.equal((await use(token))?.renewedToken, undefined)
    clock.advance(1)
    assert.equal((await use(token, false))?.renewedToken, undefined)
    const next = mustRenew(await use(token))
    assert.match(next, /^[\w-]{43}$/)
    assert.notEqual(next, token)
  })

  test('a hundred parallel requests of two processes across a rotation get the same successor', async (t) => {
    const store = await freshStore(t, engine)
    const [on, other] = [await testHost(t, engine, store), await testHost(t, engine, store)]
    const { token } = await start(on)
    for (const { clock } of [on, other]) clock.advance(ROTATE_AFTER_MS)
    const hosts = Array.from({ length: 100 }, (_, n) => (n % 2 === 0 ? on.host : other.host))
    const answers = await Promise.all(hosts.map((host) => authenticateSession(host, token, true)))
    assert.deepEqual([...new Set(answers.map(mustRenew))], [successorOf(on.host.keyring, token)])
    const [row] = await on.host.engine.read((tx) => sessions.list(tx))
    assert.equal(row?.rotations, 1)
    assert.equal(await on.host.engine.read((tx) => sessionTokens.count(tx)), 2)
  })

  test('a retry after a lost answer works hours later and gets the same successor', async (t) => {
    const { clock, token, use } = await opened(t, engine)
    clock.advance(ROTATE_AFTER_MS)
    const lost = mustRenew(await use(token))
    clock.advance(5 * HOUR_MS)
    assert.equal(mustRenew(await use(token)), lost)
    assert.equal((await use(token, false))?.renewedToken, undefined)
    assert.ok(await use(lost))
  })

  test('a replaced token is refused 60 seconds after the first use of its successor', async (t) => {
    const { clock, token, use } = await opened(t, engine)
    clock.advance(ROTATE_AFTER_MS)
    const next = mustRenew(await use(token))
    clock.advance(HOUR_MS)
    await use(next)
    clock.advance(GRACE_MS - 1)
    assert.equal(mustRenew(await use(token)), next)
    clock.advance(1)
    assert.equal(await use(token), undefined)
    assert.ok(await use(next))
  })

  test('a successor that is first used after 15 minutes does not end the grace time of its predecessor', async (t) => {
    const { clock, token, use } = await opened(t, engine)
    clock.advance(ROTATE_AFTER_MS)
    const next = mustRenew(await use(token))
    clock.advance(HOUR_MS)
    // The browser sends parallel requests: the first answer arrives, and its page loads more with the new token.
    assert.equal(mustRenew(await use(token)), next)
    await use(next)
    await use(next)
    assert.equal(mustRenew(await use(token)), next)
    clock.advance(GRACE_MS)
    mustRenew(await use(next))
    assert.equal(await use(token), undefined)
  })

  test('ends exactly when it was not used for its idle time', async (t) => {
    const idle = await opened(t, engine, { idleMs: HOUR_MS })
    idle.clock.advance(HOUR_MS - 1)
    assert.ok(await idle.use(idle.token))
    idle.clock.advance(HOUR_MS - 1)
    assert.ok(await idle.use(mustRenew(await idle.use(idle.token))))
    idle.clock.advance(HOUR_MS)
    assert.equal(await idle.use(successorOf(idle.host.keyring, idle.token)), undefined)
    assert.equal(await idle.use(idle.token), undefined)
  })

  test('ends exactly at its absolute time, however often it is used', async (t) => {
    const { clock, token, use } = await opened(t, engine, { idleMs: 2 * HOUR_MS, maxMs: 5 * HOUR_MS })
    let current = token
    for (let n = 0; n < 4; n++) {
      clock.advance(HOUR_MS)
      current = (await use(current))?.renewedToken ?? current
    }
    clock.advance(HOUR_MS - 1)
    assert.ok(await use(current))
    clock.advance(1)
    assert.equal(await use(current), undefined)
  })

  test('use without rotation extends it', async (t) => {
    const { clock, token, use } = await opened(t, engine, { idleMs: HOUR_MS })
    for (let n = 0; n < 5; n++) {
      clock.advance(HOUR_MS - 1)
      assert.ok(await use(token, false))
    }
  })

  test('survives a clock that is set back', async (t) => {
    const { clock, token, use } = await opened(t, engine)
    clock.advance(ROTATE_AFTER_MS)
    const next = mustRenew(await use(token))
    clock.advance(-DAY_MS)
    assert.equal(mustRenew(await use(token)), next)
    assert.ok(await use(next))
    assert.equal((await use(next))?.renewedToken, undefined)
    clock.advance(DAY_MS + ROTATE_AFTER_MS)
    assert.ok(await use(next))
  })

  test('a revoked session is refused at once in every process, with each of its tokens', async (t) => {
    const store = await freshStore(t, engine)
    const [on, other] = [await testHost(t, engine, store), await testHost(t, engine, store)]
    const { id, token } = await start(on)
    for (const { clock } of [on, other]) clock.advance(ROTATE_AFTER_MS)
    const next = mustRenew(await authenticateSession(on.host, token, true))
    assert.ok(await authenticateSession(other.host, next, true))
    await on.host.engine.transaction((tx) => revokeSession(tx, id))
    for (const host of [on.host, other.host])
      for (const each of [token, next]) assert.equal(await authenticateSession(host, each, true), undefined)
  })

  test('a token of an OAuth client is no cookie', async (t) => {
    const { token, use } = await opened(t, engine, { kind: 'client' })
    assert.equal(await use(token), undefined)
  })

  test('tokens that are malformed, unknown, or a successor that was never made are refused', async (t) => {
    const { host, token, use } = await opened(t, engine)
    const made = successorOf(host.keyring, token)
    for (const given of ['', 'x', token.slice(1), `${token}=`, `${token}a`, 'a'.repeat(43), made])
      assert.equal(await use(given), undefined, given)
    assert.ok(await use(token))
  })

  test('rotates 1,000 times, keeping two tokens', async (t) => {
    const { host, clock, token, use } = await opened(t, engine, { idleMs: 90 * DAY_MS, maxMs: 900 * DAY_MS })
    let current = token
    for (let n = 0; n < (engine === 'sqlite' ? 1000 : 100); n++) {
      clock.advance(ROTATE_AFTER_MS)
      // The first use confirms the token, and the next one after the grace time replaces it.
      await use(current)
      clock.advance(GRACE_MS)
      current = (await use(current))?.renewedToken ?? current
    }
    assert.notEqual(current, token)
    assert.ok(await use(current))
    assert.ok((await host.engine.read((tx) => sessionTokens.count(tx))) <= 2)
  })
})

interface Step {
  readonly afterMs: number
  /** How many rotations ago the token was the newest. */
  readonly age: number
  readonly canRenew: boolean
  readonly parallel: number
}

interface ModelToken {
  readonly text: string
  readonly createdMs: number
  confirmedMs: number | undefined
}

/** The rules of a session in memory. */
class SessionModel {
  readonly tokens: ModelToken[]
  readonly #endsMs: number
  readonly #idleMs: number
  #expiresMs: number
  #renewedMs: number

  constructor(text: string, nowMs: number, { idleMs, maxMs }: Required<Omit<StartOptions, 'kind'>>) {
    this.tokens = [{ text, createdMs: nowMs, confirmedMs: nowMs }]
    this.#idleMs = idleMs
    this.#endsMs = nowMs + maxMs
    this.#expiresMs = nowMs + Math.min(idleMs, maxMs)
    this.#renewedMs = nowMs
  }

  /** Whether the token counts, and its successor. */
  use(token: ModelToken, nowMs: number, canRenew: boolean, derive: (text: string) => string) {
    const last = this.tokens.at(-1)
    if (!last || nowMs >= this.#expiresMs) return undefined
    if (token === this.tokens.at(-2)) {
      if (last.confirmedMs !== undefined && nowMs - last.confirmedMs >= GRACE_MS) return undefined
      return { renewed: canRenew ? last.text : undefined }
    }
    if (token !== last) return undefined
    token.confirmedMs ??= nowMs
    const isDue = nowMs - token.createdMs >= ROTATE_AFTER_MS && nowMs - token.confirmedMs >= GRACE_MS
    const rotates = canRenew && isDue
    if (rotates || nowMs - this.#renewedMs >= 5 * MINUTE_MS) {
      this.#renewedMs = nowMs
      this.#expiresMs = Math.min(nowMs + this.#idleMs, this.#endsMs)
    }
    if (!rotates) return { renewed: undefined }
    const text = derive(token.text)
    this.tokens.push({ text, createdMs: nowMs, confirmedMs: undefined })
    return { renewed: text }
  }
}

const STEP: fc.Arbitrary<Step> = fc.record({
  afterMs: fc.oneof(
    fc.constantFrom(
      0,
      1,
      GRACE_MS - 1,
      GRACE_MS,
      5 * MINUTE_MS,
      ROTATE_AFTER_MS - 1,
      ROTATE_AFTER_MS,
      HOUR_MS - 1,
      HOUR_MS,
    ),
    fc.integer({ min: 0, max: 20 * MINUTE_MS }),
  ),
  age: fc.constantFrom(0, 0, 0, 0, 1, 1, 2, 3),
  canRenew: fc.boolean(),
  parallel: fc.constantFrom(1, 1, 3),
})

test('behaves like its model for any sequence of requests, lost answers and parallel ones', async (t) => {
  const on = await testHost(t)
  const { host, clock } = on
  const times = { idleMs: HOUR_MS, maxMs: 6 * HOUR_MS }
  await fc.assert(
    fc.asyncProperty(fc.array(STEP, { maxLength: 30 }), async (steps) => {
      const model = new SessionModel((await start(on, times)).token, clock.now(), times)
      for (const { afterMs, age, canRenew, parallel } of steps) {
        clock.advance(afterMs)
        const token = model.tokens.at(-1 - age)
        if (!token) continue
        const expected = model.use(token, clock.now(), canRenew, (text) => successorOf(host.keyring, text))
        const uses = Array.from({ length: parallel }, () => authenticateSession(host, token.text, canRenew))
        for (const answer of await Promise.all(uses)) {
          assert.equal(answer !== undefined, expected !== undefined)
          assert.equal(answer?.renewedToken, expected?.renewed)
        }
      }
    }),
    { numRuns: 60 },
  )
})

test('a rotation whose transaction fails leaves the old token valid', async (t) => {
  const on = await testHost(t)
  const { token } = await start(on)
  on.clock.advance(ROTATE_AFTER_MS)
  const transaction = () => Promise.reject(new Error('the disk is full'))
  const broken = { ...on.host, engine: overrideEngine(on.host.engine, { transaction }) }
  await assert.rejects(authenticateSession(broken, token, true), /the disk is full/)
  mustRenew(await authenticateSession(on.host, token, true))
})
