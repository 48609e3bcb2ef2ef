// A bot of Telegram from the command that connects it to the answers, with the real program and a server in place of the platform's.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { chatEndpoint } from '../support/chat-endpoint.ts'
import { adaptersBelow, parentOf, processesWith } from '../support/processes.ts'
import { type Instance, instance, type SvcExit } from '../support/svc.ts'
import { openTelegramServer, TELEGRAM_TOKEN, type TelegramServer } from '../support/telegram-server.ts'
import { until } from '../support/until.ts'

const BIN = join(import.meta.dirname, '..', '..', 'bin', 'svc.js')

/** Before the other rows. */
const HOLD = `acl:
  - {principal: 'folder:team', action: 'hold:mcp:set_group_open', scope: '**', effect: allow, params: '', predicate: ''}
`

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

  const [adapter = ''] = adaptersBelow(first.child.pid)
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
  await until(() => adaptersBelow(second.child.pid).length === 0)
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
  await until(() => adaptersBelow(served.child.pid).length === 1)
  const [adapter = ''] = adaptersBelow(served.child.pid)
  const front = parentOf(adapter)
  process.kill(Number(front), 'SIGKILL')
  await until(() => !processesWith('src/channels/process/main.ts').includes(adapter))
  // The supervisor starts another front, which starts another adapter.
  await until(() => adaptersBelow(served.child.pid).length === 1)
  assert.equal((await served.stop()).code, 0)
  assert.equal(adaptersBelow(served.child.pid).length, 0)
})

test('a person reads an answer while it is being written, and it becomes the message, also after a crash', async (t) => {
  const [telegram, model] = [await openTelegramServer(t), await chatEndpoint(t)]
  const settings = { AGENT_RUNTIME: 'openai', OPENAI_BASE_URL: model.url, OPENAI_MODEL: 'm', SANDBOX: 'none' }
  const demo = await instance(t, { ...settings, TELEGRAM_API_URL: telegram.url })
  await connect(demo, telegram)
  await demo.run('group', 'demo', 'add', 'telegram:user/42', 'team')
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const write = (content: string): string => JSON.stringify({ choices: [{ index: 0, delta: { content } }] })
  model.answer(async (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(`data: ${write('Once upon')}\n\n`)
    await first.promise
    response.write(`data: ${write(' a time')}\n\n`)
    await second.promise
    response.end(`data: ${write(' it was done.')}\n\ndata: [DONE]\n\n`)
  })
  const served = await demo.serve()
  telegram.say({ text: 'Tell me a story' })
  const texts = (): string[] => telegram.sent.map(({ text }) => text)
  await until(() => texts().join() === 'Once upon')
  first.resolve()
  await until(() => texts().join() === 'Once upon a time')
  const [adapter = ''] = adaptersBelow(served.child.pid)
  process.kill(Number(adapter), 'SIGKILL')
  await until(() => !adaptersBelow(served.child.pid).includes(adapter))
  second.resolve()
  await until(() => texts().join() === 'Once upon a time it was done.')
  assert.equal((await served.stop()).code, 0)
})

test('an operator approves a call of the agent with a button, and the message then says so', async (t) => {
  const { telegram, demo } = await setUp(t)
  await connect(demo, telegram)
  await demo.run('group', 'demo', 'add', 'sandbox:lobby', 'team')
  await demo.run('group', 'demo', 'grant', 'telegram:user/42', '**')
  await demo.run('settings', 'demo', 'set', 'APPROVAL_CHAT', 'telegram:user/42')
  const manifest = join(demo.root, '..', 'demo.yaml')
  writeFileSync(manifest, (await demo.run('export', 'demo')).stdout.replace(/^acl:(?: \[\])?\n/m, HOLD))
  const applied = await demo.run('apply', 'demo', manifest)
  assert.equal(applied.code, 0, applied.stderr)
  const served = await demo.serve()
  const call = '/tool set_group_open {"open": false}'
  const held = await demo.run('sandbox', 'demo', 'say', 'lobby', 'mia', call, '--wait')
  assert.match(held.stdout, /is held until an operator sends \/approve/)
  await until(() => telegram.sent.length === 1)
  const [asked] = telegram.sent
  assert.match(
    asked?.text ?? '',
    /^The agent of team asks to call set_group_open \([0-9a-f]{8}\)\.\n\n```\n\{"open":false\}/,
  )
  telegram.press?.(asked?.id ?? '', 'approve')
  await until(() => /Approved by Mia Berg \(telegram:user\/42\)\.$/.test(telegram.sent[0]?.text ?? ''))
  assert.deepEqual([telegram.sent.length, telegram.buttonsOf?.(asked?.id ?? '')], [1, []])
  const again = await demo.run('sandbox', 'demo', 'say', 'lobby', 'mia', call, '--wait')
  assert.doesNotMatch(again.stdout, /is held/)
  assert.equal((await served.stop()).code, 0)
})

test('Telegram delivers by webhook through the front door, over a crash of the adapter', async (t) => {
  const telegram = await openTelegramServer(t)
  const base = 'https://chat.example.com'
  const demo = await instance(t, { TELEGRAM_API_URL: telegram.url, WEB_HOST: base })
  await connect(demo, telegram)
  await demo.run('group', 'demo', 'add', 'telegram:user/42', 'team')
  const set = await demo.run('channel', 'demo', 'set', 'telegram', 'receive', 'webhook')
  assert.equal(set.code, 0, set.stderr)
  const served = await demo.serve()
  const door = served.urls.get('proxyd') ?? ''
  telegram.rewriteWebhook((url) => url.replace(base, door))
  const countOf = (word: string): number => telegram.sent.filter(({ text }) => text.includes(`> ${word}\n`)).length
  telegram.say({ text: 'one' })
  await until(() => countOf('one') === 1)
  const [adapter = ''] = adaptersBelow(served.child.pid)
  process.kill(Number(adapter), 'SIGKILL')
  telegram.say({ text: 'two' })
  await until(() => countOf('two') === 1)
  assert.ok(telegram.deliveries.includes(200))
  const forged = await fetch(`${door}/channels/telegram/`, { method: 'POST', body: '{"update_id":1}' })
  assert.ok([401, 403, 404].includes(forged.status), String(forged.status))
  const unknown = await fetch(`${door}/channels/telegram-other/`, { method: 'POST', body: '{}' })
  assert.equal(unknown.status, 404)
  assert.equal((await served.stop()).code, 0)
})
