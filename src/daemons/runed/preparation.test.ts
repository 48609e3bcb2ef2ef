import assert from 'node:assert/strict'
import { type Stats, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { type TestContext, test } from 'node:test'
import { type Conversing, conversing } from '../../../test/support/conversation.ts'
import { type EngineName, onEveryEngine } from '../../../test/support/host.ts'
import { openTools } from '../../../test/support/socket-client.ts'
import { RunSockets } from '../../agent-socket/run-socket.ts'
import type { ClaimedTurn } from '../../core/claim.ts'
import { conversations, findConversation } from '../../core/conversations.ts'
import { groups } from '../../core/groups.ts'
import { chatDir } from '../../core/layout.ts'
import { type ToolList, toolList } from '../../faces/mcp.ts'
import { readSettings } from '../../lib/settings.ts'
import { secretsResource } from '../../resources/secrets.ts'
import { RUNTIME_SETTINGS } from '../../runtimes/settings.ts'
import { agentTools } from '../agent-tools.ts'
import { preparing } from './preparation.ts'
import type { Prepared } from './runner.ts'

const DAY_MS = 24 * 3_600_000

interface Preparing extends Conversing {
  prepare(claimed: ClaimedTurn): Promise<Prepared>
  readonly warnings: string[]
}

async function open(t: TestContext, engine: EngineName, list: ToolList = toolList([])): Promise<Preparing> {
  const on = await conversing(t, engine)
  const { host } = on
  const layout = host.layout ?? assert.fail('it has files')
  const runtime = { name: 'test', run: async () => ({}), close: async () => {} }
  const runtimes = { runtimeFor: async () => runtime, close: async () => {} }
  const settings = { read: async () => ({ settings: readSettings(RUNTIME_SETTINGS, []), mark: '' }) }
  await on.groups('main', 'team')
  const warnings: string[] = []
  const gate = { host, list, onError: assert.fail, onStranger: assert.fail }
  const sockets = new RunSockets(gate)
  t.after(() => sockets.close())
  const warn = (sentence: string): void => void warnings.push(sentence)
  const prepare = preparing({ host, layout, runtimes, sockets, settings, assistantName: 'svc', warn })
  return {
    ...on,
    warnings,
    prepare: async (claimed) => {
      const prepared = await prepare(claimed)
      t.after(() => prepared.close())
      return prepared
    },
  }
}

onEveryEngine('a run', (engine) => {
  test('goes on with the session of its conversation, and starts a fresh one after two days in which nobody spoke', async (t) => {
    const on = await open(t, engine)
    const next = async (): Promise<Prepared['job']> => {
      await on.ask()
      const claimed = await on.mustClaim()
      const { job } = await on.prepare(claimed)
      const { id: turn_id, fence } = claimed.turn
      await on.submit('main', { turn_id, fence, session_id: job.sessionId ?? 'new', result: 'yes' })
      await on.end(claimed.turn)
      return job
    }
    assert.equal((await next()).sessionId, undefined)
    on.clock.advance(2 * DAY_MS)
    assert.equal((await next()).sessionId, 'new')
    on.clock.advance(2 * DAY_MS + 1)
    const { sessionId, prompt } = await next()
    assert.equal(sessionId, undefined)
    assert.match(prompt, /The session before was long ago; this is a fresh one\./)
    assert.equal((await on.read((tx) => findConversation(tx, 'main', '')))?.note, undefined)
    assert.doesNotMatch((await next()).prompt, /long ago/)
  })

  test('has the secrets of its folder, and those of a person only in a turn that this person asked for alone', async (t) => {
    const on = await open(t, engine)
    const { create } = secretsResource.verbs
    await on.cli.call(create, { scope_kind: 'folder', owner: 'main', key: 'GITHUB_TOKEN', value: 'of main' })
    await on.cli.call(create, { scope_kind: 'user', owner: 'github:1', key: 'GITHUB_TOKEN', value: 'of one' })
    const envOf = async (sender: string, others: readonly string[] = []): Promise<Prepared['job']['env']> => {
      await on.ask('hi', { sender, jid: 'sandbox:main', hasRound: false })
      const claimed = await on.mustClaim()
      const [mine = assert.fail('it answers nothing')] = claimed.asked
      const added = others.map((other) => ({ ...mine, message: { ...mine.message, sender: other } }))
      const { job } = await on.prepare({ ...claimed, asked: [...added, mine] })
      await on.end(claimed.turn)
      return job.env
    }
    assert.deepEqual(await envOf('anon:1'), { GITHUB_TOKEN: 'of main' })
    assert.deepEqual(await envOf('github:1'), { GITHUB_TOKEN: 'of one' })
    assert.deepEqual(await envOf('github:2'), { GITHUB_TOKEN: 'of main' })
    assert.deepEqual(await envOf('github:1', ['anon:1']), { GITHUB_TOKEN: 'of main' })
  })

  test('that visitors ask for has a HOME of its chat, the model key alone, and is told which workspaces to hide', async (t) => {
    const on = await open(t, engine)
    await on.groups('team/a', 'team/b/deep', 'team-2', 'team0')
    const { create } = secretsResource.verbs
    await on.cli.call(create, { scope_kind: 'folder', owner: 'team', key: 'GITHUB_TOKEN', value: 'of team' })
    await on.cli.call(create, { scope_kind: 'folder', owner: 'team', key: 'ANTHROPIC_API_KEY', value: 'of team' })
    const jobOf = async (jid: string): Promise<Prepared['job']> => {
      await on.ask('hi', { folder: 'team', jid, hasRound: false, conversation: jid })
      const claimed = await on.mustClaim()
      const { job } = await on.prepare(claimed)
      await on.end(claimed.turn)
      return job
    }
    const { chat, env } = await jobOf('web:team')
    assert.deepEqual(env, { ANTHROPIC_API_KEY: 'of team' })
    const layout = on.host.layout ?? assert.fail('it has files')
    assert.equal(chat?.path, chatDir(layout, 'team', 'web:team'))
    assert.deepEqual(chat?.children, new Set(['a', 'b']))
    await (await chat?.open())?.close()
    const [{ mode }, { mode: folderMode }] = [chat.path, dirname(chat.path)].map((path) => statSync(path)) as [
      Stats,
      Stats,
    ]
    assert.equal(mode & 0o777, 0o700)
    assert.equal(folderMode & 0o066, 0)
    chat?.onLeftOut?.(3)
    assert.deepEqual(on.warnings, ["the workspace of team has too many entries: visitors' turns do not see 3"])
    assert.notEqual((await jobOf('web:team-2')).chat?.path, chat?.path)
    const own = await jobOf('hook:team')
    assert.deepEqual([own.chat, own.env], [undefined, { ANTHROPIC_API_KEY: 'of team', GITHUB_TOKEN: 'of team' }])
  })

  test('drops stored values with control characters, and warns', async (t) => {
    const on = await open(t, engine)
    const config = JSON.stringify({ command: 'sh\u0000', model: 'small' })
    await on.write((tx) => groups.update(tx, { folder: 'main' }, { config }))
    await on.ask('first')
    await on.end((await on.mustClaim()).turn)
    await on.write((tx) => conversations.update(tx, { folder: 'main', topic: '' }, { session_id: 'a\u001bb' }))
    await on.ask()
    const { job } = await on.prepare(await on.mustClaim())
    assert.deepEqual([job.config, job.sessionId], [{ model: 'small' }, undefined])
    assert.deepEqual(on.warnings, [
      'group main: config.command contains control characters and is ignored',
      'a session id contains control characters: the run starts a fresh session',
    ])
  })

  test('is offered the tools that the config of its group names; another one is refused and says which there are', async (t) => {
    const on = await open(t, engine, agentTools())
    await on.write((tx) => groups.update(tx, { folder: 'main' }, { config: '{"tools": ["reply", "send*"]}' }))
    await on.ask()
    const { job } = await on.prepare(await on.mustClaim())
    const tools = await openTools(t, job.socket)
    const names = (await tools.list()).map(({ name }) => name)
    assert.deepEqual(names, ['reply', 'send', 'send_file', 'send_voice'])
    assert.equal((await tools.call('reply', { chatJid: 'web:main', text: 'hi' })).isError, false)
    const { isError, text } = await tools.call('refresh_groups')
    assert.ok(isError)
    assert.equal(
      text,
      'refresh_groups: not offered to runs of main\nhint: the config of the group offers these tools: reply, send*',
    )
  })
})
