// An app of Slack from the command that connects it to the answers, with the real program and a server in place of Slack's.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { adaptersBelow } from '../support/processes.ts'
import { openSlackServer, SLACK_TOKENS, type SlackServer } from '../support/slack-server.ts'
import { type Instance, instance, type SvcExit } from '../support/svc.ts'
import { until } from '../support/until.ts'

const BIN = join(import.meta.dirname, '..', '..', 'bin', 'svc.js')

const setUp = async (t: TestContext) => {
  const slack = await openSlackServer(t)
  const demo = await instance(t, { SLACK_API_URL: slack.url })
  return { slack, demo }
}

/** Gives the tokens on standard input. */
async function connect({ root }: Instance, slack: SlackServer, ...flags: string[]): Promise<SvcExit> {
  const args = [BIN, 'channel', 'demo', 'add', 'slack', '--app-token', '-', '--bot-token', '-', ...flags]
  const child = spawn(process.execPath, args, {
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      SVC_DATA_DIR: join(root, '..'),
      SLACK_API_URL: slack.url,
    },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  child.stdin.end(`${SLACK_TOKENS.app_token}\n${SLACK_TOKENS.bot_token}\n`)
  const said = { stdout: '', stderr: '' }
  child.stdout.on('data', (chunk) => (said.stdout += chunk))
  child.stderr.on('data', (chunk) => (said.stderr += chunk))
  const [code] = await once(child, 'close')
  return { code, ...said }
}

test('a person talks to an agent through an app, over a crash of its adapter and of svc', async (t) => {
  const { slack, demo } = await setUp(t)
  const connected = await connect(demo, slack)
  assert.equal(connected.code, 0, connected.stderr)
  assert.match(
    connected.stdout,
    /^connected slack as @ada \(The workspace\)\ninvite: https:\/\/slack\.com\/app_redirect\?app=A0TESTAPP/,
  )
  assert.match(connected.stderr, /\/invite @ada/)
  assert.equal((await demo.run('group', 'demo', 'add', `slack:${slack.chat}`, 'team')).code, 0)

  const first = await demo.serve()
  await slack.say({ text: 'one' })
  const countOf = (word: string): number => slack.sent.filter(({ text }) => text.includes(`> ${word}\n`)).length
  await until(() => countOf('one') === 1)
  const status = async () => (await demo.run('channel', 'demo', 'status')).stdout
  await until(async () => /^slack\tslack\thealthy/m.test(await status()))

  const [adapter = ''] = adaptersBelow(first.child.pid)
  process.kill(Number(adapter), 'SIGKILL')
  await slack.say({ text: 'two' })
  await until(() => countOf('two') === 1)
  // Otherwise the lease of the delivery must expire before the next message of the chat is sent.
  await until(async () => /^slack\tslack\t0\t0$/m.test(await status()))

  first.child.kill('SIGKILL')
  await first.ended
  // Slack gives up to deliver it, and it is only in the history.
  slack.write({ text: 'three' }, { isQuiet: true })
  await slack.say({ text: 'four' })
  const second = await demo.serve()
  await until(() => countOf('three') === 1 && countOf('four') === 1)
  assert.deepEqual(['one', 'two', 'three', 'four'].map(countOf), [1, 1, 1, 1])

  const { code, stderr } = await second.stop()
  assert.equal(code, 0)
  assert.doesNotMatch(stderr, /stand-in/)
})

test('an account whose tokens Slack refuses is not saved', async (t) => {
  const { slack, demo } = await setUp(t)
  slack.revoke()
  const refused = await connect(demo, slack)
  assert.equal(refused.code, 1)
  assert.match(refused.stderr, /Slack does not accept the token of the bot/)
  assert.doesNotMatch(refused.stdout + refused.stderr, /stand-in/)
  assert.equal((await connect(demo, slack, '--no-check')).code, 0)
})
