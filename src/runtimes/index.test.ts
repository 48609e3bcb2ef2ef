import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { agentDir } from '../../test/support/agent-files.ts'
import { toolSocket } from '../../test/support/tool-socket.ts'
import { systemClock } from '../lib/clock.ts'
import { readSettings, sourceOf } from '../lib/settings.ts'
import { openRuntimes, type Runtimes } from './index.ts'
import { RUNTIME_SETTINGS, type RuntimeSettings } from './settings.ts'

function settingsOf(entries: Record<string, string>): RuntimeSettings {
  return readSettings(RUNTIME_SETTINGS, [
    sourceOf('the test', new Map(Object.entries({ SANDBOX: 'none', ...entries }))),
  ])
}

async function open(t: TestContext, settings: RuntimeSettings): Promise<Runtimes> {
  const network = { open: () => assert.fail('without a cell, runs use the network of the machine') }
  const [groups, chats, files] = [agentDir(t), '/nowhere', '/nowhere']
  const runtimes = await openRuntimes({
    settings,
    clock: systemClock,
    groups,
    chats,
    files,
    network,
    warn: assert.fail,
  })
  t.after(() => runtimes.close())
  return runtimes
}

test('reopens runtimes for new settings while runs with the old ones finish', async (t) => {
  const [one, two] = [settingsOf({}), settingsOf({})]
  const runtimes = await open(t, one)
  const { job, said } = await toolSocket(t)
  const before = await runtimes.runtimeFor(undefined, one)
  assert.equal(await runtimes.runtimeFor(undefined, one), before)
  const started = Promise.withResolvers<void>()
  const running = before.run(
    job({
      messages: [{ id: '1', sender: 'mia', text: '/wait 200ms\n/say with the old', jid: 'web:main' }],
      readText: () => {
        started.resolve()
        return undefined
      },
    }),
  )
  await started.promise
  const after = await runtimes.runtimeFor(undefined, two)
  assert.notEqual(after, before)
  await after.run(job({ messages: [{ id: '2', sender: 'mia', text: '/say with the new', jid: 'web:main' }] }))
  await running
  assert.deepEqual([...said].sort(), ['with the new', 'with the old'])
})

test('runs a turn with the settings at its start', async (t) => {
  const runtimes = await open(t, settingsOf({}))
  const { job } = await toolSocket(t)
  for (const word of ['one', 'two']) {
    const settings = settingsOf({ AGENT_RUNTIME: 'command', AGENT_COMMAND: `echo ${word}` })
    const runtime = await runtimes.runtimeFor({}, settings)
    assert.deepEqual(await runtime.run(job()), { result: word })
  }
  assert.equal((await runtimes.runtimeFor({ runtime: 'demo' })).name, 'demo')
})
