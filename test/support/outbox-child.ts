// A process that sends the outbox of a store until it is killed. Prints `ready`.

import { openHost } from '../../src/daemons/process/host.ts'
import { OutboxWorker } from '../../src/daemons/routd/outbox-worker.ts'
import type { StoreAddress } from '../../src/store/index.ts'
import { fakeClock } from './clock.ts'

const { store, now }: { store: StoreAddress; now: number } = JSON.parse(process.argv[2] ?? '')
const host = await openHost({
  instance: 'test',
  store,
  secretsKey: 'a key of the tests',
  webBase: 'http://localhost:8080',
  clock: fakeClock(now),
})
new OutboxWorker({ host, log: { warn: () => {} } })
console.log('ready')
// The timers of the worker do not keep the process alive.
setInterval(() => {}, 1000)
