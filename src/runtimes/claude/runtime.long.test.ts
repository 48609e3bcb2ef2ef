import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { agentDir } from '../../../test/support/agent-files.ts'
import { needs } from '../../../test/support/needs.ts'
import { isRunFault, openRuntime } from '../../../test/support/runtimes.ts'
import { chatDirectory, type ToolSocket, toolSocket } from '../../../test/support/tool-socket.ts'
import { type ModelUsage, roundCosts } from '../../core/turns/costs.ts'
import { sumWholeCents } from '../../core/turns/turn-cost.ts'
import { Directory } from '../../lib/files/directory.ts'
import { type AgentRunResult, ANSWER_MAX, type Job, RunFault } from '../runtime.ts'
import { LINE_MAX } from '../text-line-splitter.ts'

const STAND_IN = join(import.meta.dirname, '..', '..', '..', 'test', 'support', 'agent-cli.ts')

interface Claude extends ToolSocket {
  ask(prompt: string, given?: Partial<Job>): Promise<AgentRunResult>
}

async function open(
  t: TestContext,
  settings: Record<string, string> = {},
  warn?: (sentence: string) => void,
): Promise<Claude> {
  const socket = await toolSocket(t)
  const program = join(agentDir(t), 'client')
  writeFileSync(program, `#!/bin/sh\nexec '${process.execPath}' '${STAND_IN}' "$@"\n`, { mode: 0o755 })
  const seen = [program, STAND_IN, process.execPath].map((path) => dirname(path)).join(':')
  const runtime = await openRuntime(
    t,
    'claude',
    { AGENT_CLI: program, SANDBOX_PATHS: seen, ...settings },
    warn ? { warn } : {},
  )
  return { ...socket, ask: (prompt, given) => runtime.run(socket.job({ prompt, ...given })) }
}

suite('the runtime claude', needs('open checkout'), () => {
  test('returns the answer, the session and the cost', async (t) => {
    const { ask } = await open(t)
    let used: readonly ModelUsage[] = []
    const { result, sessionId } = await ask('hello', { onUsage: (each) => (used = each) })
    assert.equal(result, 'you said hello')
    assert.match(sessionId ?? '', /^[0-9a-f-]{36}$/)
    assert.deepEqual(
      used.map(({ model, input, output, cents }) => [model, input, output, Math.ceil(cents)]),
      [['model-of-the-client', 11, 22, 4]],
    )
  })

  test('restarts a client that started before its tool server was connected, with a warning', async (t) => {
    const warned: string[] = []
    const { ask } = await open(t, {}, (sentence) => warned.push(sentence))
    assert.equal((await ask('tools late 2')).result, 'you said tools late 2')
    assert.equal(warned.length, 2)
    assert.match(warned[0] ?? '', /started before its tool server was connected \(pending\); start 1 of 3$/)
  })

  test('fails with a retryable fault if the tool server never connects', async (t) => {
    const warned: string[] = []
    const { ask } = await open(t, {}, (sentence) => warned.push(sentence))
    await assert.rejects(ask('tools late 9'), isRunFault('retryable', /before its tool server was connected/))
    assert.equal(warned.length, 3)
  })

  test('reports each model separately and rounds the sum up once', async (t) => {
    const { ask } = await open(t)
    let used: readonly ModelUsage[] = []
    await ask('both', { onUsage: (each) => (used = each) })
    assert.deepEqual(
      roundCosts(used).map(({ microcents: _, ...cost }) => cost),
      [
        { model: 'big', input_tokens: 5, output_tokens: 6, cost_cents: 3 },
        { model: 'small', input_tokens: 1, output_tokens: 2, cost_cents: 1 },
      ],
    )
  })

  test('resumes a session, and forks one without changing it', async (t) => {
    const { ask } = await open(t)
    const { sessionId } = await ask('first')
    const again = await ask('flags', { sessionId })
    assert.equal(again.sessionId, sessionId)
    assert.equal(JSON.parse(again.result ?? '').before, 'first\n')
    const fork = await ask('flags', { parentSessionId: sessionId })
    assert.notEqual(fork.sessionId, sessionId)
    assert.equal(JSON.parse(fork.result ?? '').before, 'first\nflags\n')
  })

  test("keeps sessions of a visitors' chat separate from other chats and from the folder", async (t) => {
    const { ask } = await open(t)
    const [one, other] = [chatDirectory(t), chatDirectory(t)]
    const { sessionId } = await ask('first', { chat: one })
    assert.equal(JSON.parse((await ask('flags', { chat: one, sessionId })).result ?? '').before, 'first\n')
    const gone = isRunFault('session', /session cannot be resumed/)
    await assert.rejects(ask('flags', { sessionId }), gone)
    await assert.rejects(ask('flags', { chat: other, sessionId }), gone)
    const { sessionId: own } = await ask('of the folder')
    await assert.rejects(ask('flags', { chat: one, sessionId: own }), gone)
  })

  test("tells the client in a visitors' chat where it can write", needs('bubblewrap'), async (t) => {
    const chat = chatDirectory(t)
    for (const [SANDBOX, home, guide] of [
      ['bwrap', '/home/chat', /^Visitors write in this chat\. .* below \/home\/chat/],
      ['none', chat.path, new RegExp(`and /home/chat is ${chat.path}\\. Visitors write in this chat\\.`)],
    ] as const) {
      const { ask } = await open(t, { SANDBOX })
      const said = JSON.parse((await ask('flags', { chat })).result ?? '')
      assert.equal(said.env.HOME, home)
      assert.match(said['append-system-prompt'], guide)
    }
  })

  test('passes no secrets of the folder to an endpoint that a person set', async (t) => {
    const { ask } = await open(t)
    const env = { ANTHROPIC_BASE_URL: 'https://model.example', ANTHROPIC_API_KEY: 'own', GITHUB_TOKEN: 'of the folder' }
    const tokenOf = async (...personal: string[]): Promise<unknown[]> => {
      const said = JSON.parse((await ask('flags', { env, personal: new Set(personal) })).result ?? '')
      return [said.env.ANTHROPIC_BASE_URL, said.env.GITHUB_TOKEN]
    }
    const url = 'https://model.example'
    assert.deepEqual(await tokenOf('ANTHROPIC_BASE_URL', 'ANTHROPIC_API_KEY'), [url, undefined])
    assert.deepEqual(await tokenOf('ANTHROPIC_BASE_URL', 'GITHUB_TOKEN'), [url, 'of the folder'])
    assert.deepEqual(await tokenOf('OPENAI_BASE_URL'), [url, 'of the folder'])
    assert.deepEqual(await tokenOf(), [url, 'of the folder'])
  })

  test('reports a missing session as a session fault', async (t) => {
    const { ask } = await open(t)
    const gone = isRunFault('session', /session cannot be resumed/)
    await assert.rejects(ask('hello', { sessionId: 'b00b5' }), gone)
    await assert.rejects(ask('hello', { sessionId: 'said-1' }), gone)
    await assert.rejects(ask('hello', { parentSessionId: 'b00b5' }), gone)
  })

  test('passes the model, the budget and the tool server to the client', async (t) => {
    const { ask, path, home } = await open(t, { AGENT_MODEL: 'of-the-instance', ANTHROPIC_API_KEY: 'key' })
    const said = JSON.parse((await ask('flags', { moneyCents: 7 })).result ?? '')
    assert.deepEqual(
      [said.model, said['max-budget-usd'], said['strict-mcp-config'], said.allowedTools, said['permission-mode']],
      ['of-the-instance', '0.07', true, 'mcp__svc', 'acceptEdits'],
    )
    const files = { visiblePath: '/x/files', open: () => Directory.make(agentDir(t), 0o700) }
    const withFiles = JSON.parse((await ask('flags', { files })).result ?? '')
    assert.equal(withFiles.allowedTools, 'mcp__svc,Read(//x/files/**)')
    assert.match(said['append-system-prompt'], new RegExp(`/home/node .*${home}`))
    assert.deepEqual([said.env.ANTHROPIC_API_KEY, said.env.HOME, said.env.SVC_SOCKET], ['key', home, path])
    const own = { model: 'of-the-group', permission_mode: 'plan' }
    const group = JSON.parse((await ask('flags', { config: own, env: { ANTHROPIC_API_KEY: 'own' } })).result ?? '')
    assert.deepEqual(
      [group.model, group['permission-mode'], group.env.ANTHROPIC_API_KEY, group['max-budget-usd']],
      ['of-the-group', 'plan', 'own', undefined],
    )
  })

  test('passes no endpoint, token or model of the instance beside a key of the run', async (t) => {
    const { ask } = await open(t, {
      ANTHROPIC_BASE_URL: 'https://instance.example',
      CLAUDE_CODE_OAUTH_TOKEN: 'of the instance',
      AGENT_MODEL: 'of-the-instance',
    })
    const shared = JSON.parse((await ask('flags')).result ?? '')
    assert.deepEqual(
      [shared.env.ANTHROPIC_BASE_URL, shared.env.CLAUDE_CODE_OAUTH_TOKEN, shared.model],
      ['https://instance.example', 'of the instance', 'of-the-instance'],
    )
    const own = JSON.parse((await ask('flags', { env: { ANTHROPIC_API_KEY: 'own' } })).result ?? '')
    assert.deepEqual(
      [own.env.ANTHROPIC_API_KEY, own.env.ANTHROPIC_BASE_URL, own.env.CLAUDE_CODE_OAUTH_TOKEN, own.model],
      ['own', undefined, undefined, undefined],
    )
  })

  test('writes an MCP configuration with svc bridge and the turn, and removes it afterwards', async (t) => {
    const { ask, path } = await open(t)
    const { mcpServers } = JSON.parse((await ask('mcp')).result ?? '')
    const { command, args, env } = mcpServers.svc
    assert.equal(command, process.execPath)
    assert.ok(existsSync(args[0]))
    assert.deepEqual(args.slice(1), ['bridge', path])
    assert.deepEqual(env, { SVC_TURN: 't1', SVC_FENCE: '7' })
    const said = JSON.parse((await ask('flags')).result ?? '')
    assert.deepEqual(said.modes, ['700', '600'])
    assert.ok(!existsSync(dirname(said['mcp-config'])))
  })

  const usesTools = async (t: TestContext, SANDBOX: string): Promise<void> => {
    const { ask, said, turns } = await open(t, { SANDBOX })
    assert.equal((await ask('tools')).result, 'reply')
    assert.deepEqual([said, turns], [['by its tool'], [{ 'svc/turn': 't1', 'svc/fence': 7 }]])
  }

  test('calls tools of the socket through svc bridge, as calls of the turn', (t) => usesTools(t, 'none'))

  test('calls tools through svc bridge in a cell too', needs('bubblewrap'), (t) => usesTools(t, 'bwrap'))

  test('bypasses permission prompts in a cell', needs('bubblewrap'), async (t) => {
    const { ask } = await open(t, { SANDBOX: 'bwrap' })
    const said = JSON.parse((await ask('flags')).result ?? '')
    assert.deepEqual(
      [said['permission-mode'], said['append-system-prompt'], said.env.HOME],
      ['bypassPermissions', undefined, '/home/node'],
    )
  })

  test('reports errors of the client in its words, with the cost of the failed run', async (t) => {
    const { ask } = await open(t)
    let used: readonly ModelUsage[] = []
    await assert.rejects(
      ask('error', { onUsage: (each) => (used = each) }),
      isRunFault('retryable', /^API Error: 529 Overloaded$/),
    )
    assert.equal(sumWholeCents(used), 4)
    const { sessionId } = await ask('hello')
    await assert.rejects(ask('long', { sessionId }), isRunFault('session', /cannot be resumed/))
    await assert.rejects(ask('long'), isRunFault('retryable', /too long/))
    await assert.rejects(ask('login'), isRunFault('terminal', /Invalid API key/))
    await assert.rejects(ask('xkey'), isRunFault('terminal', /invalid x-api-key/))
    await assert.rejects(ask('budget'), isRunFault('terminal', /used up its budget/))
    await assert.rejects(ask('crash'), isRunFault('retryable', /^panic: something broke$/))
  })

  test('returns the longest answer, and fails with a longer one, also if its line is too long to be read', async (t) => {
    const { ask } = await open(t)
    assert.equal((await ask(`answer ${ANSWER_MAX}`)).result?.length, ANSWER_MAX)
    for (const prompt of [`answer ${ANSWER_MAX + 1}`, `line ${LINE_MAX}`, `line ${LINE_MAX + 1}`])
      await assert.rejects(ask(prompt), (error) => {
        assert.ok(error instanceof RunFault)
        assert.deepEqual(
          [error.kind, error.failure, error.message],
          ['terminal', 'oversized', 'its answer is longer than 1048576 characters'],
        )
        return true
      })
  })

  test('stops the run at once when the provider rejects the key', async (t) => {
    const { ask } = await open(t)
    await assert.rejects(
      ask('key'),
      isRunFault('terminal', /^the model's endpoint answers 401: authentication_failed$/),
    )
  })

  test('ignores lines that are not JSON, and reads a last line without a newline if it is complete', async (t) => {
    const { ask } = await open(t)
    assert.equal((await ask('garbage')).result, 'after garbage')
    assert.equal((await ask('unended')).result, 'no newline')
    await assert.rejects(ask('half'), isRunFault('retryable', /without a result/))
  })

  test('stops a client that hangs, and reports one that does not exist', async (t) => {
    const { ask } = await open(t)
    await assert.rejects(ask('hang', { hangMs: 2000 }), isRunFault('retryable', /no activity/))
    const { ask: without } = await open(t, { AGENT_CLI: 'no-such-client' })
    await assert.rejects(without('hello'), isRunFault('terminal', /no-such-client could not be started/))
  })
})
