import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onEveryEngine, testHost } from '../../../test/support/host.ts'
import { issuedBearers } from '../../core/access/issued-bearers.ts'
import { createSession, revokeSession, sessions, sessionTokens } from '../../core/people/sessions.ts'
import { createSignInLink, signInLinks } from '../../core/people/sign-in-links.ts'
import { rotateSigningKey } from '../../core/secrets/signing-key-rotation.ts'
import { signingKeys } from '../../core/secrets/signing-keys.ts'
import { bearersResource } from '../../resources/bearers.ts'
import { cleanSessions } from './session-cleanup.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

onEveryEngine('the cleanup of sessions', (engine) => {
  test('marks expired sessions, and removes rows 30 days after their end in steps', async (t) => {
    const { host, clock, cli } = await testHost(t, engine)
    const start = { sub: 'local:ada', kind: 'browser', method: 'link', idleMs: HOUR_MS, maxMs: 40 * DAY_MS } as const
    const ids = await host.engine.transaction(async (tx) => {
      const made: string[] = []
      for (let n = 0; n < 7; n++) made.push((await createSession(tx, host, start)).session.family_id)
      await createSession(tx, host, { ...start, idleMs: 40 * DAY_MS })
      await createSignInLink(tx, host, 'local:ada')
      return made
    })
    await host.engine.transaction((tx) => revokeSession(tx, ids[0] ?? ''))
    await cli.call(bearersResource.verbs.create, { sub: 'local:ada', ttl_ms: HOUR_MS })
    await host.engine.transaction((tx) => rotateSigningKey(tx, host, { endsNow: true }))
    const clean = () =>
      cleanSessions({ host, log: { warn: () => {} }, stepRows: 2 }, new AbortController().signal, clock.now())
    const states = async () => (await host.engine.read((tx) => sessions.list(tx))).map(({ status }) => status).sort()
    const counts = () =>
      host.engine.read(async (tx) => [
        await sessions.count(tx),
        await sessionTokens.count(tx),
        await signInLinks.count(tx),
        await issuedBearers.count(tx),
        await signingKeys.count(tx),
      ])
    clock.advance(HOUR_MS - 1)
    await clean()
    assert.deepEqual(await states(), [...Array(7).fill('active'), 'revoked'])
    clock.advance(1)
    await clean()
    assert.deepEqual(await states(), ['active', ...Array(6).fill('expired'), 'revoked'])
    clock.advance(30 * DAY_MS - 1)
    await clean()
    // The link and the ended key are over for longer.
    assert.deepEqual(await counts(), [8, 8, 0, 1, 1])
    clock.advance(1)
    await clean()
    assert.deepEqual(await counts(), [1, 1, 0, 0, 1])
  })

  test('stops between two steps', async (t) => {
    const { host, clock } = await testHost(t, engine)
    const start = { sub: 'local:ada', kind: 'browser', method: 'link', idleMs: HOUR_MS, maxMs: HOUR_MS } as const
    await host.engine.transaction(async (tx) => {
      for (let n = 0; n < 3; n++) await createSession(tx, host, start)
    })
    clock.advance(31 * DAY_MS)
    await cleanSessions({ host, log: { warn: () => {} }, stepRows: 1 }, AbortSignal.abort(), clock.now())
    assert.equal(await host.engine.read((tx) => sessions.count(tx)), 3)
  })
})
