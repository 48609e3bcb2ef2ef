// Refreshes the session of an OAuth client again and again, and prints each new token with the time, until it is killed.
import { writeSync } from 'node:fs'
import { refreshClientSession } from '../../src/core/people/client-sessions.ts'
import { openHost } from '../../src/daemons/process/host.ts'
import { fakeClock } from './clock.ts'

const { store, token: first, now } = JSON.parse(process.argv[2] ?? '{}')
const clock = fakeClock()
clock.advance(now - clock.now())
const host = await openHost({
  instance: 'test',
  store,
  secretsKey: 'a key of the tests',
  webBase: 'http://localhost',
  clock,
})
let token: string = first
for (;;) {
  clock.advance(3_600_000)
  const verdict = await host.engine.transaction((tx) => refreshClientSession(tx, host, { token, clientId: 'c' }))
  if (verdict.outcome !== 'refreshed') throw new Error(`the refresh was ${verdict.outcome}`)
  token = verdict.token
  writeSync(1, `${token} ${clock.now()}\n`)
}
