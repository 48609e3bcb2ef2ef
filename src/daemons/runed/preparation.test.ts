import assert from 'node:assert/strict'
import { readFileSync, rmSync, type Stats, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import { addFileRows, chatFile, writeChatFile } from '../../../test/support/chat-files.ts'
import { type ConversationHost, openConversationHost } from '../../../test/support/conversation-host.ts'
import { type EngineName, isRefusal, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { openTools } from '../../../test/support/socket-client.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { RunSockets } from '../../agent-socket/run-socket.ts'
import type { ChatFile } from '../../core/files/chat-files.ts'
import { groups } from '../../core/groups/groups.ts'
import { WorldOwners } from '../../core/groups/workspace-owner.ts'
import { chatDir, chatFilesDir } from '../../core/layout.ts'
import { conversations, resetSessions } from '../../core/turns/conversations.ts'
import type { ClaimedTurn } from '../../core/turns/turn-claim.ts'
import { createToolList, type ToolList } from '../../faces/tool-list.ts'
import { timestamp } from '../../lib/clock.ts'
import { readSettings } from '../../lib/settings.ts'
import { groupsResource } from '../../resources/groups.ts'
import { secretsResource } from '../../resources/secrets.ts'
import { RUNTIME_SETTINGS } from '../../runtimes/settings.ts'
import type { StoreAddress } from '../../store/index.ts'
import { agentTools } from '../agents/agent-tools.ts'
import { ActivityWriter } from './activity-writer.ts'
import { turnPreparation } from './preparation.ts'
import type { PreparedTurn } from './turn-runner.ts'

const DAY_MS = 24 * 3_600_000

interface Preparing extends ConversationHost {
  prepare(claimed: ClaimedTurn): Promise<PreparedTurn>
  readonly warnings: string[]
}

async function open(
  t: TestContext,
  engine: EngineName,
  list: ToolList = createToolList([]),
  store?: StoreAddress,
  sandbox: 'bwrap' | 'none' = 'bwrap',
): Promise<Preparing> {
  const on = await openConversationHost(t, engine, await testHost(t, engine, store))
  const { host } = on
  const layout = host.layout ?? assert.fail('it has files')
  const runtime = { name: 'test', run: async () => ({}), close: async () => {} }
  const runtimes = { runtimeFor: async () => runtime, close: async () => {} }
  const settings = { read: async () => ({ settings: readSettings(RUNTIME_SETTINGS, []), mark: '' }) }
  await on.groups('main', 'team')
  const warnings: string[] = []
  const gate = { host, list, onError: assert.fail, onUnexpectedUser: assert.fail }
  const sockets = new RunSockets(gate)
  const owners = new WorldOwners({ engine: host.engine, layout })
  t.after(() => sockets.close())
  const warn = (sentence: string): void => void warnings.push(sentence)
  const prepare = turnPreparation({
    ...{ host, layout, owners, runtimes, sockets, settings, sandbox, assistantName: 'svc', warn },
  })
  return {
    ...on,
    warnings,
    prepare: async (claimed) => {
      const stop = new AbortController().signal
      const prepared = await prepare(claimed, { activity: new ActivityWriter(host, claimed), stop })
      t.after(() => prepared.close())
      return prepared
    },
  }
}

onEveryEngine('a run', (engine) => {
  test('resumes the session of its conversation, and starts a new one after two idle days', async (t) => {
    const on = await open(t, engine)
    const next = async (): Promise<PreparedTurn['job']> => {
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
    assert.match(prompt, /The previous session was long ago; this is a new one\./)
    assert.equal((await on.read((tx) => conversations.find(tx, { folder: 'main', topic: '' })))?.note, undefined)
    assert.doesNotMatch((await next()).prompt, /long ago/)
  })

  test('has the secrets of its folder, and those of a person only in a turn with no one else’s messages', async (t) => {
    const on = await open(t, engine)
    const { create } = secretsResource.verbs
    await on.cli.call(create, { scope_kind: 'folder', owner: 'main', key: 'GITHUB_TOKEN', value: 'of main' })
    await on.cli.call(create, { scope_kind: 'user', owner: 'github:1', key: 'GITHUB_TOKEN', value: 'of one' })
    const envOf = async (sender: string, others: readonly string[] = []): Promise<PreparedTurn['job']['env']> => {
      await on.ask('hi', { sender, jid: 'sandbox:main', hasRound: false })
      const claimed = await on.mustClaim()
      const [mine = assert.fail('it answers nothing')] = claimed.messages
      const added = others.map((other) => ({ ...mine, message: { ...mine.message, sender: other } }))
      const { job } = await on.prepare({ ...claimed, messages: [...added, mine] })
      await on.end(claimed.turn)
      return job.env
    }
    assert.deepEqual(await envOf('anon:1'), { GITHUB_TOKEN: 'of main' })
    assert.deepEqual(await envOf('github:1'), { GITHUB_TOKEN: 'of one' })
    assert.deepEqual(await envOf('github:2'), { GITHUB_TOKEN: 'of main' })
    assert.deepEqual(await envOf('github:1', ['anon:1']), { GITHUB_TOKEN: 'of main' })
  })

  test('for visitors has the HOME of its chat, only the model key, and hides other workspaces', async (t) => {
    const on = await open(t, engine)
    await on.groups('team/a', 'team/b/deep', 'team-2', 'team0')
    const { create } = secretsResource.verbs
    await on.cli.call(create, { scope_kind: 'folder', owner: 'team', key: 'GITHUB_TOKEN', value: 'of team' })
    await on.cli.call(create, { scope_kind: 'folder', owner: 'team', key: 'ANTHROPIC_API_KEY', value: 'of team' })
    const jobOf = async (jid: string): Promise<PreparedTurn['job']> => {
      await on.ask('hi', { folder: 'team', jid, hasRound: false, conversation: jid })
      const claimed = await on.mustClaim()
      const { job } = await on.prepare(claimed)
      await on.end(claimed.turn)
      return job
    }
    const { chat, env } = await jobOf('web:team')
    assert.deepEqual(env, { ANTHROPIC_API_KEY: 'of team' })
    const layout = on.host.layout ?? assert.fail('it has files')
    assert.equal(chat?.path, chatDir(layout, { folder: 'team', jid: 'web:team', reach: 'chat' }))
    assert.deepEqual(chat?.children, new Set(['a', 'b']))
    await (await chat?.open())?.close()
    const [{ mode }, { mode: folderMode }] = [chat.path, dirname(chat.path)].map((path) => statSync(path)) as [
      Stats,
      Stats,
    ]
    assert.equal(mode & 0o777, 0o700)
    assert.equal(folderMode & 0o066, 0)
    chat?.onOmitted?.(3)
    assert.deepEqual(on.warnings, [
      'the workspace of team has too many entries: turns of reach chat do not see 3 or more',
    ])
    assert.notEqual((await jobOf('web:team-2')).chat?.path, chat?.path)
    const own = await jobOf('slack:team')
    assert.deepEqual([own.chat, own.env], [undefined, { ANTHROPIC_API_KEY: 'of team', GITHUB_TOKEN: 'of team' }])
  })

  test('at reach work has the HOME of its chat and the folder’s secrets, and writes only the work paths', async (t) => {
    const on = await open(t, engine)
    await on.groups('team/reports')
    const { create } = secretsResource.verbs
    await on.cli.call(create, { scope_kind: 'folder', owner: 'team', key: 'GITHUB_TOKEN', value: 'of team' })
    const layout = on.host.layout ?? assert.fail('it has files')
    const jobOf = async (jid: string, session_id?: string): Promise<PreparedTurn['job']> => {
      await on.ask('hi', { folder: 'team', jid, hasRound: false })
      const claimed = await on.mustClaim()
      const { job } = await on.prepare(claimed)
      const { id: turn_id, fence } = claimed.turn
      await on.submit('team', { turn_id, fence, session_id })
      await on.end(claimed.turn)
      return job
    }
    const { chat, env, openHome, home } = await jobOf('hook:team/ci', 's-hook')
    assert.deepEqual(env, { GITHUB_TOKEN: 'of team' })
    assert.equal(chat?.path, chatDir(layout, { folder: 'team', jid: 'hook:team/ci', reach: 'work' }))
    assert.deepEqual([chat?.isVisitor, chat?.writable], [false, new Set(['data'])])
    rmSync(join(home, 'data'), { recursive: true, force: true })
    await (await openHome()).close()
    assert.ok(statSync(join(home, 'data')).isDirectory())
    const { set } = groupsResource.verbs
    await on.cli.call(set, { folder: 'team', key: 'work_paths', to: 'out/, reports' })
    const again = await jobOf('hook:team/ci')
    // The workspace of a child is not theirs.
    assert.deepEqual(again.chat?.writable, new Set(['out']))
    assert.match(
      again.prompt,
      /^writable: \/home\/node\/out\/, \/home\/chat\/; the rest of the workspace is read-only$/m,
    )
    writeFileSync(join(home, 'file'), '')
    await on.cli.call(set, { folder: 'team', key: 'work_paths', to: '["file"]' })
    await (await (await jobOf('hook:team/ci')).openHome()).close()
    assert.deepEqual(on.warnings, ['turns of reach work cannot write file of team: it is not a directory'])
    const all = await jobOf('slack:team', 's-all')
    assert.deepEqual([all.chat, all.sessionId, /^writable/m.test(all.prompt)], [undefined, undefined, false])
    // One conversation, but each HOME has its own session.
    assert.equal((await jobOf('hook:team/ci')).sessionId, 's-hook')
    assert.equal((await jobOf('hook:team/other')).sessionId, undefined)
    assert.equal((await jobOf('slack:team')).sessionId, 's-all')
    await on.host.engine.transaction((tx) => resetSessions(tx, 'team', '', timestamp(on.host.clock.now())))
    for (const jid of ['hook:team/ci', 'slack:team']) assert.equal((await jobOf(jid)).sessionId, undefined)
  })

  test('sees the files of its chat, which are in its prompt and in its messages', async (t) => {
    for (const sandbox of ['bwrap', 'none'] as const) {
      const on = await open(t, engine, createToolList([]), undefined, sandbox)
      const layout = on.host.layout ?? assert.fail('it has files')
      const jobOf = async (text: string, file?: Partial<ChatFile>): Promise<PreparedTurn['job']> => {
        const id = await on.ask(text, { folder: 'team', jid: 'web:team', hasRound: false })
        const { message_seq } = await on.state(id)
        const row = file && chatFile({ message_seq, jid: 'web:team', folder: 'team', ...file })
        if (row) await on.write((tx) => addFileRows(tx, row))
        if (row) await writeChatFile(layout, row, 'text')
        const claimed = await on.mustClaim()
        const { job } = await on.prepare(claimed)
        await on.end(claimed.turn)
        return job
      }
      assert.equal((await jobOf('hi')).files, undefined)
      const directory = chatFilesDir(layout, { folder: 'team', jid: 'web:team' })
      const visible = sandbox === 'none' ? directory : '/home/files'
      const { files, messages, prompt } = await jobOf('', { name: 'a".txt' })
      assert.equal(files?.visiblePath, visible)
      const path = `${visible}/f-a--txt.txt`
      assert.deepEqual(messages[0]?.files, [
        { name: 'a".txt', type: 'text/plain', size: 4, path, transcript: undefined },
      ])
      assert.ok(prompt.includes(`>\n<attachment path="${path}" mime="text/plain" filename="a&quot;.txt"/></message>`))
      const opened = await files.open()
      assert.equal(readFileSync(`/proc/self/fd/${opened.fd}/f-a--txt.txt`, 'utf8'), 'text')
      await opened.close()
      // Only svc and the agents' user may enter it.
      assert.equal(statSync(directory).mode & 0o077, 0)
      assert.notEqual((await jobOf('again')).files, undefined)
      rmSync(directory, { recursive: true })
      await assert.rejects(
        files.open(),
        isRefusal('not_found', 'the directory with the files of a chat of team was removed'),
      )
    }
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
      'a session id contains control characters: the run starts a new session',
    ])
  })

  test('is offered the tools in the config of its group; others are refused with the list', async (t) => {
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

for (const generation of ['handshake', 'stateless'] as const)
  test(`the log of a run has its tool calls with arguments and results (${generation})`, async (t) => {
    const on = await open(t, 'sqlite', agentTools())
    await on.ask()
    const claimed = await on.mustClaim()
    const { job, close } = await on.prepare(claimed)
    const tools = await openTools(t, job.socket, { generation })
    await tools.call('reply', { chatJid: 'web:main', text: 'hi' })
    await tools.call('reply', { chatJid: 'web:other', text: 'hi' })
    await close()
    const log = readFileSync(job.logFile, 'utf8')
    assert.match(log, /^\[tool\] reply \{"chatJid":"web:main","text":"hi"\} ok in \d+ ms: ok$/m)
    assert.match(
      log,
      /^\[tool\] reply \{"chatJid":"web:other","text":"hi"\} failed in \d+ ms: reply: not permitted in web:other/m,
    )
  })

test('a run reports that a tool call failed because the store was unavailable', async (t) => {
  const path = join(tempDir(t), 'svc.db')
  const on = await open(t, 'sqlite', agentTools(), { path, create: true, strict: true, busyMs: 50 })
  await on.ask()
  const { job, hadOutage } = await on.prepare(await on.mustClaim())
  const tools = await openTools(t, job.socket)
  const say = () => tools.call('reply', { chatJid: 'web:main', text: 'hi' })
  assert.equal((await say()).isError, false)
  assert.equal((await tools.call('reply', { chatJid: 'web:other', text: 'hi' })).isError, true)
  assert.equal(hadOutage?.(), false)
  using other = new DatabaseSync(path)
  other.exec('begin immediate')
  assert.match((await say()).text, /the store is busy/)
  assert.equal(hadOutage?.(), true)
  other.exec('rollback')
})
