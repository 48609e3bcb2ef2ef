import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { type TestContext, test } from 'node:test'
import { until } from '../../test/support/until.ts'
import { PEER_FD, ROLE_VARIABLE, URLS_VARIABLE } from './messages.ts'
import { Supervisor, type SupervisorOptions } from './supervisor.ts'

/** A child that is ready and answers orders of the test: it sends what it is told to send, or does what it is told to do. */
const CHILD = `
const { ${ROLE_VARIABLE}: role, ${URLS_VARIABLE}: urls } = process.env
const { Socket } = require('node:net')
const seen = []
const say = (message) => process.send(message)
const line = {}
const connect = (socket) => {
  line.peer = socket.on('error', () => {}).on('data', (data) => say({ kind: 'heard', from: String(data) })).unref()
}
connect(new Socket({ fd: ${PEER_FD} }))
process.on('message', (message, handle) => {
  if (message.kind === 'peer-socket') return connect(handle)
  seen.push(message)
  if (message.kind !== 'peer') return
  const { order } = message.message
  if (order === 'exit') process.exit(3)
  if (order === 'refuse') process.exit(1)
  if (order === 'hang') for (;;);
  if (order === 'write') line.peer.write(String(process.pid))
  if (order === 'report') say({ kind: 'peer', message: { report: { role, urls, seen } } })
})
process.on('SIGTERM', () => process.exit(0))
if (role === 'front' && process.env.FAILS) process.exit(7)
say({ kind: 'ready', urls: { proxyd: 'http://127.0.0.1:7' } })
setInterval(() => say({ kind: 'alive' }), 20)
`

interface Spawned {
  readonly role: string
  readonly child: ChildProcess
  readonly messages: unknown[]
}

function open(t: TestContext, options: Partial<SupervisorOptions> = {}, env: Record<string, string> = {}) {
  const spawned: Spawned[] = []
  const restarts: string[] = []
  let readyCount = 0
  const supervisor = new Supervisor({
    spawn: (variables) => {
      const child = spawn(process.execPath, ['-e', CHILD], {
        env: { ...process.env, ...env, ...variables },
        stdio: ['ignore', 'ignore', 'inherit', 'ipc', 'pipe'],
      })
      const messages: unknown[] = []
      child.on('message', (message) => messages.push(message))
      spawned.push({ role: variables[ROLE_VARIABLE] ?? '', child, messages })
      return child
    },
    onReady: () => void readyCount++,
    onRestart: (role, reason) => void restarts.push(`${role}: ${reason}`),
    ...options,
  })
  const ended = supervisor.run()
  t.after(async () => {
    supervisor.stop()
    supervisor.stop()
    await ended
  })
  const all = (role: string): Spawned[] => spawned.filter((each) => each.role === role)
  /** Resolves when this many processes of the role were ready. */
  const ready = (role: string, count = 1) =>
    until(() => all(role).filter(({ messages }) => messages.length > 1).length >= count)
  const order = (to: Spawned | undefined, order: string): void =>
    void to?.child.send({ kind: 'peer', message: { order } })
  const receive = (from: Spawned | undefined, message: object): void => void from?.child.emit('message', message)
  return { supervisor, ended, all, ready, order, receive, restarts, readyCount: () => readyCount }
}

test('starts the front, and the runner only when the front asks for it', async (t) => {
  const { all, ready, receive, readyCount } = open(t)
  await ready('front')
  assert.deepEqual([all('front').length, all('runner').length, readyCount()], [1, 0, 1])
  receive(all('front')[0], { kind: 'start-runner' })
  receive(all('front')[0], { kind: 'start-runner' })
  await ready('runner')
  assert.deepEqual([all('front').length, all('runner').length, readyCount()], [1, 1, 1])
})

test('ends with the exit code of a front that cannot start', async (t) => {
  const { ended, restarts } = open(t, {}, { FAILS: 'yes' })
  assert.equal(await ended, 7)
  assert.deepEqual(restarts, [])
})

test('ends with a front that ends with a reason, and stops the runner', async (t) => {
  const { ended, all, ready, receive, order, restarts } = open(t)
  await ready('front')
  receive(all('front')[0], { kind: 'start-runner' })
  await ready('runner')
  order(all('front')[0], 'refuse')
  assert.equal(await ended, 1)
  assert.deepEqual([restarts, all('runner')[0]?.child.exitCode], [[], 0])
})

test('starts a process again that ended, with the addresses of the front before it, and says why', async (t) => {
  const { all, ready, receive, order, restarts, readyCount } = open(t)
  await ready('front')
  receive(all('front')[0], { kind: 'start-runner' })
  await ready('runner')
  order(all('runner')[0], 'exit')
  await ready('runner', 2)
  all('front')[0]?.child.kill('SIGKILL')
  await ready('front', 2)
  assert.deepEqual(restarts, ['runner: it ended with exit code 3', 'front: it was ended by SIGKILL'])
  assert.equal(readyCount(), 1)
  order(all('front')[1], 'report')
  const reportOf = (from: Spawned | undefined) =>
    from?.messages.flatMap((message) => {
      const { report } = (message as { message?: { report?: Record<string, unknown> } }).message ?? {}
      return report ? [report] : []
    })[0]
  await until(() => reportOf(all('front')[1]) !== undefined)
  const report = reportOf(all('front')[1])
  assert.equal(report?.urls, '{"proxyd":"http://127.0.0.1:7"}')
  const { processes } = (report?.seen as { processes: Record<string, unknown>[] }[]).findLast((m) => m.processes) ?? {}
  assert.deepEqual(
    processes?.map(({ role, restarts: count, pid }) => [role, count, typeof pid]),
    [
      ['front', 1, 'number'],
      ['runner', 1, 'number'],
    ],
  )
})

test('kills a process that is stopped or loops, and starts another', async (t) => {
  const { all, ready, receive, order, restarts } = open(t, { silenceMs: 1000 })
  await ready('front')
  receive(all('front')[0], { kind: 'start-runner' })
  await ready('runner')
  order(all('runner')[0], 'hang')
  await ready('runner', 2)
  all('front')[0]?.child.kill('SIGSTOP')
  await ready('front', 2)
  assert.deepEqual(restarts, ['runner: it showed no sign of life for 1 s', 'front: it showed no sign of life for 1 s'])
})

test('passes messages between front and runner, and drops those for a process that does not run', async (t) => {
  const { all, ready, receive } = open(t)
  await ready('front')
  receive(all('front')[0], { kind: 'peer', message: { order: 'report' } })
  receive(all('front')[0], { kind: 'start-runner' })
  await ready('runner')
  receive(all('front')[0], { kind: 'peer', message: { order: 'report' } })
  const reports = (): number =>
    all('runner')[0]?.messages.filter((m) => (m as { kind: string }).kind === 'peer').length ?? 0
  await until(() => reports() === 1)
})

test('connects front and runner by a socket, and again when one of them is replaced', async (t) => {
  const { all, ready, receive, order } = open(t)
  const mustBeConnected = async (front: Spawned | undefined, runner: Spawned | undefined): Promise<void> => {
    const hasHeard = (to: Spawned | undefined, from: Spawned | undefined): boolean =>
      to?.messages.some((message) => (message as { from?: string }).from === `${from?.child.pid}`) ?? false
    for (const process of [front, runner]) order(process, 'write')
    await until(() => hasHeard(front, runner) && hasHeard(runner, front))
  }
  await ready('front')
  receive(all('front')[0], { kind: 'start-runner' })
  await ready('runner')
  await mustBeConnected(all('front')[0], all('runner')[0])
  all('front')[0]?.child.kill('SIGKILL')
  await ready('front', 2)
  await mustBeConnected(all('front')[1], all('runner')[0])
  all('runner')[0]?.child.kill('SIGKILL')
  await ready('runner', 2)
  await mustBeConnected(all('front')[1], all('runner')[1])
})

test('stops its children with SIGTERM and ends with 0', async (t) => {
  const { supervisor, ended, all, ready, receive } = open(t)
  await ready('front')
  receive(all('front')[0], { kind: 'start-runner' })
  await ready('runner')
  supervisor.stop()
  assert.equal(await ended, 0)
  for (const { child } of [...all('front'), ...all('runner')]) assert.equal(child.exitCode, 0)
})

test('kills its children when it is stopped twice', async (t) => {
  const { supervisor, ended, all, ready } = open(t)
  await ready('front')
  const [front] = all('front')
  front?.child.kill('SIGSTOP')
  supervisor.stop()
  supervisor.stop()
  await ended
  assert.equal(front?.child.signalCode, 'SIGKILL')
})

test('a process that fails at once is started again after growing pauses', async (t) => {
  const pauses: number[] = []
  const { all, ready, receive, order } = open(t, { onRestart: (_role, _reason, pauseMs) => void pauses.push(pauseMs) })
  await ready('front')
  receive(all('front')[0], { kind: 'start-runner' })
  for (let count = 1; count <= 3; count++) {
    await ready('runner', count)
    order(all('runner')[count - 1], 'exit')
    await once(all('runner')[count - 1]?.child as ChildProcess, 'exit')
  }
  await until(() => pauses.length === 3)
  assert.deepEqual(pauses, [100, 200, 400])
})
