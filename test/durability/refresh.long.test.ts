// An OAuth client stays signed in when the server is killed between the commit of a refresh and its answer.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { refreshClientSession, startClientSession } from '../../src/core/people/client-sessions.ts'
import { sessions, sessionTokens } from '../../src/core/people/sessions.ts'
import type { StoreAddress } from '../../src/store/index.ts'
import { freshStore, onEveryEngine, testHost } from '../support/host.ts'

const CHILD = join(import.meta.dirname, '..', 'support', 'refresh-child.ts')
const KILLS = 8

interface ClientState {
  readonly token: string
  readonly now: number
}

/** Runs the child and kills it after some refreshes; returns the last answer that the client received. */
async function refreshUntilKilled(store: StoreAddress, start: ClientState, refreshes: number): Promise<ClientState> {
  const child = spawn(process.execPath, [CHILD, JSON.stringify({ store, ...start })], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  let [last, count] = [start, 0]
  for await (const line of createInterface({ input: child.stdout })) {
    const [token = '', now = ''] = line.split(' ')
    last = { token, now: Number(now) }
    count++
    if (count === refreshes) child.kill('SIGKILL')
  }
  assert.deepEqual(await exited, [null, 'SIGKILL'])
  return last
}

onEveryEngine('a client whose server is killed during a refresh', (engine) => {
  test('continues with the last token that it received, on one branch', async (t) => {
    const store = await freshStore(t, engine)
    const { host, clock } = await testHost(t, engine, store)
    const grant = { sub: 'local:ada', clientId: 'c', clientName: 'A client', aud: 'svc:test', scope: 'account' }
    const { session, token } = await host.engine.transaction((tx) => startClientSession(tx, host, grant))
    let client: ClientState = { token, now: clock.now() }
    for (let kill = 0; kill < KILLS; kill++) {
      client = await refreshUntilKilled(store, client, 4 + kill * 3)
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
