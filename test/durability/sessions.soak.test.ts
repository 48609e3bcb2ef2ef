// A session survives kills of the server while its token is rotated.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { authenticateSession } from '../../src/core/people/browser-sessions.ts'
import { createSession, sessionTokens } from '../../src/core/people/sessions.ts'
import { openHost } from '../../src/daemons/process/host.ts'
import { fakeClock } from '../support/clock.ts'
import { freshStore, onEveryEngine } from '../support/host.ts'
import { runUntilKilled, type TokenState } from '../support/token-child.ts'

const KILLS = 10
const YEAR_MS = 365 * 24 * 3_600_000

onEveryEngine('a session whose server is killed during rotation', (engine) => {
  test('continues with the last token that the browser received', async (t) => {
    const store = await freshStore(t, engine)
    const clock = fakeClock()
    const host = await openHost({
      instance: 'test',
      store,
      secretsKey: 'a key of the tests',
      webBase: 'http://localhost:8080',
      clock,
    })
    t.after(() => host.close())
    const { token } = await host.engine.transaction((tx) =>
      createSession(tx, host, {
        sub: 'local:ada',
        kind: 'browser',
        method: 'link',
        idleMs: YEAR_MS,
        maxMs: 100 * YEAR_MS,
      }),
    )
    let browser: TokenState = { token, now: clock.now() }
    for (let kill = 0; kill < KILLS; kill++) {
      browser = await runUntilKilled('session-child.ts', store, browser, 5 + kill * 3)
      clock.advance(browser.now - clock.now())
      assert.equal((await authenticateSession(host, browser.token, true))?.sub, 'local:ada', `after kill ${kill + 1}`)
    }
    // Replaced tokens are removed, except the previous one.
    assert.ok((await host.engine.read((tx) => sessionTokens.count(tx))) <= 3)
  })
})
