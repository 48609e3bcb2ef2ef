// A session survives kills of the server while its token is rotated.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { authenticateSession } from '../../src/core/people/browser-sessions.ts'
import { createSession, sessionTokens } from '../../src/core/people/sessions.ts'
import { openHost } from '../../src/daemons/process/host.ts'
import type { StoreAddress } from '../../src/store/index.ts'
import { fakeClock } from '../support/clock.ts'
import { freshStore, onEveryEngine } from '../support/host.ts'

const CHILD = join(import.meta.dirname, '..', 'support', 'session-child.ts')
const KILLS = 10
const YEAR_MS = 365 * 24 * 3_600_000

interface BrowserState {
  readonly token: string
  readonly now: number
}

/** Runs the child and kills it after some rotations; returns what the browser received. */
async function rotateUntilKilled(store: StoreAddress, start: BrowserState, rotations: number): Promise<BrowserState> {
  const child = spawn(process.execPath, [CHILD, JSON.stringify({ store, ...start })], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exited = once(child, 'exit')
  let [last, count] = [start, 0]
  for await (const line of createInterface({ input: child.stdout })) {
    const [token = '', now = ''] = line.split(' ')
    last = { token, now: Number(now) }
    count++
    if (count === rotations) child.kill('SIGKILL')
  }
  assert.deepEqual(await exited, [null, 'SIGKILL'])
  return last
}

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
    let browser: BrowserState = { token, now: clock.now() }
    for (let kill = 0; kill < KILLS; kill++) {
      browser = await rotateUntilKilled(store, browser, 5 + kill * 3)
      clock.advance(browser.now - clock.now())
      assert.equal((await authenticateSession(host, browser.token, true))?.sub, 'local:ada', `after kill ${kill + 1}`)
    }
    // Replaced tokens are removed, except the previous one.
    assert.ok((await host.engine.read((tx) => sessionTokens.count(tx))) <= 3)
  })
})
