// An OAuth client stays signed in when the server is killed between the commit of a refresh and its answer.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { refreshClientSession, startClientSession } from '../../src/core/people/client-sessions.ts'
import { sessions, sessionTokens } from '../../src/core/people/sessions.ts'
import { freshStore, onEveryEngine, testHost } from '../support/host.ts'
import { runUntilKilled, type TokenState } from '../support/token-child.ts'

const KILLS = 8

onEveryEngine('a client whose server is killed during a refresh', (engine) => {
  test('continues with the last token that it received, on one branch', async (t) => {
    const store = await freshStore(t, engine)
    const { host, clock } = await testHost(t, engine, store)
    const grant = { sub: 'local:ada', clientId: 'c', clientName: 'A client', aud: 'svc:test', scope: 'account' }
    const { session, token } = await host.engine.transaction((tx) => startClientSession(tx, host, grant))
    let client: TokenState = { token, now: clock.now() }
    for (let kill = 0; kill < KILLS; kill++) {
      client = await runUntilKilled('refresh-child.ts', store, client, 4 + kill * 3)
      // The server may have committed one refresh more, an hour later on its clock.
      clock.advance(client.now - clock.now())
      const verdict = await host.engine.transaction((tx) =>
        refreshClientSession(tx, host, { token: client.token, clientId: 'c' }),
      )
      assert.ok(verdict.outcome === 'refreshed', `${verdict.outcome} after kill ${kill + 1}`)
      client = { token: verdict.token, now: clock.now() + 3_600_000 }
    }
    const tokens = await host.engine.read((tx) => sessionTokens.list(tx, { family_id: session.family_id }))
    assert.equal(tokens.filter(({ replaced_at }) => replaced_at === undefined).length, 1)
    const row = await host.engine.read((tx) => sessions.find(tx, { family_id: session.family_id }))
    assert.deepEqual([row?.status, row?.rotations], ['active', tokens.length - 1])
  })
})
