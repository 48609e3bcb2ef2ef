// A bot of Telegram from the command that connects it to the answers, with the real program and a server in place of the platform's.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { parentOf, processesBelow, processesWith } from '../support/processes.ts'
import { type Instance, instance, type SvcExit } from '../support/svc.ts'
import { openTelegramServer, TELEGRAM_TOKEN, type TelegramServer } from '../support/telegram-server.ts'
import { until } from '../support/until.ts'

const BIN = join(import.meta.dirname, '..', '..', 'bin', 'svc.js')

const setUp = async (t: TestContext) => {
  const telegram = await openTelegramServer(t)
  const demo = await instance(t, { TELEGRAM_API_URL: telegram.url })
  return { telegram, demo }
}

/** Types the token on standard input. */
async function connect({ root }: Instance, telegram: TelegramServer, ...flags: string[]): Promise<SvcExit> {
  const child = spawn(process.execPath, [BIN, 'channel', 'demo', 'add', 'telegram', '--token', '-', ...flags], {
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      SVC_DATA_DIR: join(root, '..'),
      TELEGRAM_API_URL: telegram.url,
    },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  child.stdin.end(`${TELEGRAM_TOKEN}\n`)
  const said = { stdout: '', stderr: '' }
  child.stdout.on('data', (chunk) => (said.stdout += chunk))
  child.stderr.on('data', (chunk) => (said.stderr += chunk))
  const [code] = await once(child, 'close')
  return { code, ...said }
}

const adaptersOf = (pid: number | undefined): string[] => processesBelow(pid, 'src/channels/process/main.ts')

test('a person talks to an agent through a bot, over a crash of its adapter and of svc', async (t) => {
  const { telegram, demo } = await setUp(t)
  const connected = await connect(demo, telegram)
  assert.equal(connected.code, 0, connected.stderr)
  assert.match(
    connected.stdout,
    /^connected telegram as @ada_test_bot \(Ada\)\ninvite: https:\/\/t\.me\/ada_test_bot\?startgroup=true\n$/,
  )
  assert.match(connected.stderr, /\/setprivacy/)
  assert.equal((await demo.run('group', 'demo', 'add', 'telegram:user/42', 'team')).code, 0)

  const first = await demo.serve()
  telegram.say({ text: 'one' })
  const countOf = (word: string): number => telegram.sent.filter(({ text }) => text.includes(`> ${word}\n`)).length
  await until(() => countOf('one') === 1)
  const status = async () => (await demo.run('channel', 'demo', 'status')).stdout
  await until(async () => /^telegram\ttelegram\thealthy/m.test(await status()))

  const [adapter = ''] = adaptersOf(first.child.pid)
  process.kill(Number(adapter), 'SIGKILL')
  telegram.say({ text: 'two' })
  await until(() => countOf('two') === 1)
  // Otherwise the lease of the delivery must expire before the next message of the chat is sent.
  await until(async () => /^telegram\ttelegram\t0\t0$/m.test(await status()))

  first.child.kill('SIGKILL')
  await first.ended
  telegram.say({ text: 'three' })
  const second = await demo.serve()
  await until(() => countOf('three') === 1)
  assert.deepEqual(['one', 'two', 'three'].map(countOf), [1, 1, 1])

  const removed = await demo.run('channel', 'demo', 'rm', 'telegram')
  assert.deepEqual(
    [removed.code, removed.stdout],
    [0, 'removed the account telegram and the registration of telegram\n'],
  )
  await until(() => adaptersOf(second.child.pid).length === 0)
  const { code, stderr } = await second.stop()
  assert.equal(code, 0)
  assert.doesNotMatch(stderr, /stand-in-token/)
})

test('an account that the platform refuses is not saved, and leaves others alone', async (t) => {
  const { telegram, demo } = await setUp(t)
  telegram.revoke()
  const refused = await connect(demo, telegram)
  assert.equal(refused.code, 1)
  assert.match(refused.stderr, /Telegram does not accept this token.*\n.*--no-check saves it without a check/s)
  assert.doesNotMatch(refused.stdout + refused.stderr, /stand-in-token/)
  assert.match((await demo.run('channel', 'demo', 'list')).stderr, /no adapter secrets/)
  assert.equal((await connect(demo, telegram, '--no-check')).code, 0)
  assert.match((await connect(demo, telegram, '--no-check')).stderr, /belongs to the adapter telegram/)
})

test('the adapters end with svc, also if it is killed', async (t) => {
  const { telegram, demo } = await setUp(t)
  await connect(demo, telegram)
  const served = await demo.serve()
  await until(() => adaptersOf(served.child.pid).length === 1)
  const [adapter = ''] = adaptersOf(served.child.pid)
  const front = parentOf(adapter)
  process.kill(Number(front), 'SIGKILL')
  await until(() => !processesWith('src/channels/process/main.ts').includes(adapter))
  // The supervisor starts another front, which starts another adapter.
  await until(() => adaptersOf(served.child.pid).length === 1)
  assert.equal((await served.stop()).code, 0)
  assert.equal(adaptersOf(served.child.pid).length, 0)
})
