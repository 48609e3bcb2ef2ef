// A bot of Discord from the command that connects it to the answers, with the real program and a server in place of the platform's.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import {
  DISCORD_BOT,
  DISCORD_DIRECT,
  DISCORD_TOKEN,
  type DiscordServer,
  openDiscordServer,
} from '../support/discord-server.ts'
import { adaptersBelow } from '../support/processes.ts'
import { type Instance, instance, type SvcExit } from '../support/svc.ts'
import { until } from '../support/until.ts'

const BIN = join(import.meta.dirname, '..', '..', 'bin', 'svc.js')

const setUp = async (t: TestContext, inGuild = false) => {
  const discord = await openDiscordServer(t, { inGuild })
  const demo = await instance(t, { DISCORD_API_URL: discord.url })
  return { discord, demo }
}

/** Types the token on standard input. */
async function connect({ root }: Instance, { url }: DiscordServer): Promise<SvcExit> {
  const child = spawn(process.execPath, [BIN, 'channel', 'demo', 'add', 'discord', '--token', '-'], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, SVC_DATA_DIR: join(root, '..'), DISCORD_API_URL: url },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  child.stdin.end(`${DISCORD_TOKEN}\n`)
  const said = { stdout: '', stderr: '' }
  child.stdout.on('data', (chunk) => (said.stdout += chunk))
  child.stderr.on('data', (chunk) => (said.stderr += chunk))
  const [code] = await once(child, 'close')
  return { code, ...said }
}

test('a person talks to an agent through a bot, over a crash of its adapter and of svc', async (t) => {
  const { discord, demo } = await setUp(t)
  const connected = await connect(demo, discord)
  assert.equal(connected.code, 0, connected.stderr)
  assert.match(connected.stdout, /^connected discord as ada_test \(Ada\)\ninvite: https:\/\/discord\.com\/oauth2\//)
  assert.equal((await demo.run('group', 'demo', 'add', `discord:dm/${DISCORD_DIRECT}`, 'team')).code, 0)

  const first = await demo.serve()
  await discord.say({ text: 'one' })
  const countOf = (word: string): number => discord.sent.filter(({ text }) => text.includes(`> ${word}\n`)).length
  await until(() => countOf('one') === 1)
  const status = async () => (await demo.run('channel', 'demo', 'status')).stdout
  await until(async () => /^discord\tdiscord\thealthy/m.test(await status()))

  for (const adapter of adaptersBelow(first.child.pid)) process.kill(Number(adapter), 'SIGKILL')
  await discord.say({ text: 'two' })
  await until(() => countOf('two') === 1)
  // Otherwise the lease of the delivery must expire before the next message of the chat is sent.
  await until(async () => /^discord\tdiscord\t0\t0$/m.test(await status()))

  first.child.kill('SIGKILL')
  await first.ended
  discord.endSessions()
  discord.missed({ content: 'three' })
  const second = await demo.serve()
  await until(() => countOf('three') === 1)
  assert.deepEqual(['one', 'two', 'three'].map(countOf), [1, 1, 1])
  const { code, stderr } = await second.stop()
  assert.equal(code, 0)
  assert.doesNotMatch(stderr, /in-token-of/)
})

test('in a server the bot answers mentions, and hears the rest', async (t) => {
  const { discord, demo } = await setUp(t, true)
  assert.equal((await connect(demo, discord)).code, 0)
  assert.equal((await demo.run('group', 'demo', 'add', `discord:${discord.chat}`, 'team')).code, 0)
  const served = await demo.serve()
  await discord.say({ text: 'among us' })
  discord.message({ content: `<@${DISCORD_BOT.id}> for you`, mentions: [DISCORD_BOT] })
  await until(() => discord.sent.length > 0)
  assert.match(discord.sent[0]?.text ?? '', /@ada_test for you/)
  assert.ok((await demo.run('messages', 'demo')).stdout.includes(`discord:${discord.chat}`))
  assert.equal((await served.stop()).code, 0)
  assert.equal(discord.sent.length, 1)
})
