// A process that uses a session and rotates its token with every request until it is killed. Prints each token that a browser
// would have, with the time.
import { authenticateSession, ROTATE_AFTER_MS } from '../../src/core/people/browser-sessions.ts'
import { openHost } from '../../src/daemons/process/host.ts'
import type { StoreAddress } from '../../src/store/index.ts'
import { fakeClock } from './clock.ts'

const input: { store: StoreAddress; token: string; now: number } = JSON.parse(process.argv[2] ?? '')
const clock = fakeClock(input.now)
const host = await openHost({
  instance: 'test',
  store: input.store,
  secretsKey: 'a key of the tests',
  webBase: 'http://localhost:8080',
  clock,
})
for (let { token } = input; ; ) {
  clock.advance(ROTATE_AFTER_MS)
  const session = await authenticateSession(host, token, true)
  if (!session) throw new Error('the session was refused')
  token = session.renewedToken ?? token
  process.stdout.write(`${token} ${clock.now()}\n`)
}
