// What the requests of signed-in people and of bearers do to the store, including the work of authd in the background.
import assert from 'node:assert/strict'
import { verifyBearer } from '../../src/core/access/bearers.ts'
import { authenticateSession, GRACE_MS, ROTATE_AFTER_MS } from '../../src/core/people/browser-sessions.ts'
import { removeEndedRows } from '../../src/core/people/ended-rows.ts'
import { createSession, revokeOtherSessions, revokeSession } from '../../src/core/people/sessions.ts'
import { createSignInLink, takeSignInLink } from '../../src/core/people/sign-in-links.ts'
import { bearersResource } from '../../src/resources/bearers.ts'
import { sessionsResource } from '../../src/resources/sessions.ts'
import { signingKeysResource } from '../../src/resources/signing-keys.ts'
import type { FakeClock } from './clock.ts'
import type { TestHost } from './host.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** The clock moves while it runs and is where it was afterwards. */
export async function usePeople(on: TestHost): Promise<void> {
  const startMs = on.clock.now()
  await useSession(on, on.clock)
  await useBearers(on)
  await on.host.engine.transaction((tx) => removeEndedRows(tx, on.clock.now(), 5))
  on.clock.advance(startMs - on.clock.now())
}

async function useSession({ host, as }: TestHost, clock: FakeClock): Promise<void> {
  const started = { sub: 'github:old1', kind: 'browser', method: 'link', idleMs: DAY_MS, maxMs: 2 * DAY_MS } as const
  const { session, token } = await host.engine.transaction(async (tx) => {
    const link = await createSignInLink(tx, host, 'github:old1')
    assert.equal(await takeSignInLink(tx, link, host.clock.now()), 'github:old1')
    return createSession(tx, host, started)
  })
  clock.advance(6 * 60_000)
  assert.ok(await authenticateSession(host, token, false))
  clock.advance(ROTATE_AFTER_MS)
  const next = (await authenticateSession(host, token, true))?.renewedToken ?? ''
  assert.ok(await authenticateSession(host, token, true))
  assert.ok(await authenticateSession(host, next, true))
  clock.advance(GRACE_MS)
  await as({ kind: 'person', sub: session.sub }).call(sessionsResource.verbs.list, { limit: 10 })
  await host.engine.transaction((tx) => revokeOtherSessions(tx, session.sub, session.family_id))
  await host.engine.transaction((tx) => revokeSession(tx, session.family_id))
}

async function useBearers({ host, cli, as }: TestHost): Promise<void> {
  const { bearer, id } = await cli.call(bearersResource.verbs.create, { sub: 'github:old1' })
  for (let n = 0; n < 2; n++) assert.equal((await verifyBearer(host, bearer)).kind, 'person')
  await as({ kind: 'person', sub: 'github:old1' }).call(bearersResource.verbs.list, { limit: 10 })
  await cli.call(bearersResource.verbs.revoke, { id })
  await cli.call(signingKeysResource.verbs.rotate, {})
  // Last uses are written in the background.
  await host.engine.transaction(async () => {})
}
