import assert from 'node:assert/strict'
import { chmodSync, existsSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { isRunFault, openRuntime } from '../../../test/support/runtimes.ts'
import { chatDirectory, type ToolSocket, toolSocket } from '../../../test/support/tool-socket.ts'
import { until } from '../../../test/support/until.ts'
import { refuse } from '../../lib/refusal.ts'
import { type AgentRunResult, ANSWER_MAX, type Job } from '../runtime.ts'

interface Command extends ToolSocket {
  run(command: string | readonly string[], given?: Partial<Job>): Promise<AgentRunResult>
  log(): string
}

async function open(t: TestContext): Promise<Command> {
  const socket = await toolSocket(t)
  const runtime = await openRuntime(t, 'command')
  return {
    ...socket,
    run: (command, given) => runtime.run(socket.job({ config: { command }, ...given })),
    log: () => readFileSync(join(socket.home, 'logs', 't1.log'), 'utf8'),
  }
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    // A zombie has exited, but its parent has not waited for it yet.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

suite('the runtime command', () => {
  test('writes the prompt to stdin and returns stdout as the result', async (t) => {
    const { run, log, home } = await open(t)
    const { result } = await run('cat; echo; pwd; echo warned >&2', { prompt: 'why 😀?' })
    assert.equal(result, `why 😀?\n${home}`)
    assert.match(log(), /warned/)
    assert.equal(statSync(join(home, 'logs', 't1.log')).mode & 0o777, 0o600)
  })

  test('passes what the program prints on at once', async (t) => {
    const { run, home } = await open(t)
    let shown = ''
    const add = (text: string): void => {
      shown += text
      // The program ends only if its text arrives before.
      writeFileSync(join(home, 'seen'), shown)
    }
    const script = 'printf "on😀"; until grep -q on seen 2>/dev/null; do sleep 0.01; done; printf e; echo not this >&2'
    await run(script, { draft: { add, restart: () => assert.fail('it began again') } })
    assert.equal(shown, 'on😀e')
  })

  test("sets HOME to the directory of a visitors' chat and runs in the workspace", async (t) => {
    const { run, home } = await open(t)
    const chat = chatDirectory(t)
    assert.equal((await run('pwd; echo $HOME; echo mine > ~/note', { chat })).result, `${home}\n${chat.path}`)
    assert.equal((await run('cat ~/note', { chat })).result, 'mine')
    assert.equal((await run('echo $HOME', { chat: undefined })).result, home)
    const closed = { ...chat, open: () => refuse('conflict', 'something else is there') }
    await assert.rejects(run('true', { chat: closed }), isRunFault('terminal', /something else is there/))
  })

  test('passes no secrets of the folder to an endpoint that a person set', async (t) => {
    const { run } = await open(t)
    for (const url of ['OPENAI_BASE_URL', 'ANTHROPIC_BASE_URL']) {
      const env = { [url]: 'https://model.example', GITHUB_TOKEN: 'of the folder' }
      const echo = (personal: readonly string[]) =>
        run(`echo $${url} $GITHUB_TOKEN`, { env, personal: new Set(personal) })
      assert.equal((await echo([url])).result, 'https://model.example')
      assert.equal((await echo([])).result, 'https://model.example of the folder')
    }
  })

  test('sets SVC_TEXT to the message texts, cut to the limit of a variable', async (t) => {
    const { run } = await open(t)
    const readText = async (...texts: string[]): Promise<string> => {
      const messages = texts.map((text) => ({ id: 'm', sender: 'web:1', text, jid: 'web:main' }))
      return (await run('printf %s "$SVC_TEXT"', { messages })).result ?? ''
    }
    assert.equal(await readText('<b>why</b> & 😀?', 'two\tlines\nhere'), '<b>why</b> & 😀?\n\ntwo\tlines\nhere')
    assert.equal(await readText('a\r\nb\u001b[1mc\u0000d'), 'a\nb[1mcd')
    assert.equal(await readText(), '')
    assert.equal(await readText('x'.repeat(65_536)), 'x'.repeat(65_536))
    assert.equal(await readText(`${'x'.repeat(65_535)}ü`), 'x'.repeat(65_535))
    assert.equal(await readText(`${'x'.repeat(65_534)}ü!`), `${'x'.repeat(65_534)}ü`)
  })

  test('describes the turn in the environment and passes none of the variables of svc', async (t) => {
    const { run, path, home } = await open(t)
    process.env.SECRETS_KEY = 'of the service'
    t.after(() => delete process.env.SECRETS_KEY)
    const { result = '' } = await run('env', {
      env: { MY_KEY: 'mine', SVC_TURN: 'forged' },
      moneyCents: 42,
      deadline: Date.parse('2099-01-01T00:00:00Z'),
      sessionId: 's1',
      topic: 'tea',
    })
    const env = new Map(result.split('\n').map((line) => [line.replace(/=.*/, ''), line.replace(/^[^=]*=/, '')]))
    const expected = {
      SVC_SOCKET: path,
      SVC_TURN: 't1',
      SVC_FENCE: '7',
      SVC_FOLDER: 'main',
      SVC_JID: 'web:main',
      SVC_TOPIC: 'tea',
      SVC_SESSION: 's1',
      SVC_TEXT: '',
      SVC_MONEY_CENTS: '42',
      SVC_DEADLINE: '2099-01-01T00:00:00.000Z',
      HOME: home,
      MY_KEY: 'mine',
    }
    for (const [key, value] of Object.entries(expected)) assert.equal(env.get(key), value, key)
    const shells = ['PWD', 'OLDPWD', 'SHLVL', '_']
    const others = [...env.keys()].filter((key) => !(key in expected) && !shells.includes(key))
    assert.deepEqual(
      others.filter((key) => !['PATH', 'LANG', 'TZ'].includes(key)),
      [],
    )
  })

  test('runs a list as a program with arguments, without a shell', async (t) => {
    const { run } = await open(t)
    assert.equal((await run(['echo', '$HOME', 'a  b'])).result, '$HOME a  b')
  })

  test('uses AGENT_COMMAND for groups without a command, and reports if neither is set', async (t) => {
    const { job } = await open(t)
    const runtime = await openRuntime(t, 'command', { AGENT_COMMAND: 'echo of the instance' })
    assert.equal((await runtime.run(job())).result, 'of the instance')
    assert.equal((await runtime.run(job({ config: { command: 'echo own' } }))).result, 'own')
    const none = await openRuntime(t, 'command')
    for (const config of [undefined, {}, { command: '' }, { command: [] }, { command: [1] }])
      await assert.rejects(none.run(job({ config })), isRunFault('terminal', /no program is set/))
  })

  test('reports a failed program as retryable, with its last error line', async (t) => {
    const { run } = await open(t)
    await assert.rejects(
      run('echo first >&2; echo; echo "the model is asleep" >&2; exit 3'),
      isRunFault('retryable', /^the model is asleep$/),
    )
    await assert.rejects(run('exit 3'), isRunFault('retryable', /exit code 3/))
    await assert.rejects(run('kill -9 $$'), isRunFault('retryable', /SIGKILL/))
  })

  test('does not retry a program that cannot be started', async (t) => {
    const { run, home } = await open(t)
    await assert.rejects(
      run(['no-such-program-here']),
      isRunFault('terminal', /no-such-program-here could not be started: program not found/),
    )
    await assert.rejects(run('no-such-program-here'), isRunFault('terminal', /not found/))
    const script = join(home, 'not-executable')
    writeFileSync(script, 'echo')
    chmodSync(script, 0o600)
    await assert.rejects(run([script]), isRunFault('terminal', /permission denied/))
    await assert.rejects(run(script), isRunFault('terminal', /denied/i))
  })

  test('does not start without a workspace', async (t) => {
    const { run, home } = await open(t)
    await assert.rejects(run('echo', { home: join(home, 'none') }), isRunFault('terminal', /no workspace/))
  })

  test('an abort sends SIGTERM to all processes of the run before it kills them', async (t) => {
    const { run, home } = await open(t)
    const stop = new AbortController()
    const pids = join(home, 'pids')
    const running = run(`trap 'echo bye > ${home}/bye; exit' TERM; sleep 1000 & echo $! $$ > ${pids}; wait`, {
      signal: stop.signal,
    })
    await until(() => existsSync(pids) && readFileSync(pids, 'utf8').endsWith('\n'))
    stop.abort('stopped')
    await assert.rejects(running, isRunFault('retryable', /stopped/))
    assert.equal(readFileSync(join(home, 'bye'), 'utf8'), 'bye\n')
    const [child = 0, parent = 0] = readFileSync(pids, 'utf8').split(/\s/).map(Number)
    await until(() => !isAlive(child) && !isAlive(parent))
    await assert.rejects(run('echo', { signal: stop.signal }), isRunFault('retryable', /stopped/))
  })

  test('kills a program that ignores SIGTERM', async (t) => {
    const { run, home } = await open(t)
    const pid = join(home, 'pid')
    // Active until it has installed its trap.
    const seenAt = (): number => (existsSync(pid) && readFileSync(pid, 'utf8').endsWith('\n') ? 0 : Date.now())
    const running = run(`trap '' TERM; echo $$ > ${pid}; while :; do sleep 0.2; done`, {
      hangMs: 300,
      lastActivityAt: seenAt,
    })
    await assert.rejects(running, isRunFault('retryable', /no activity for 300ms/))
    assert.ok(!isAlive(Number(readFileSync(pid, 'utf8'))))
  })

  test('lets a program that prints run until its deadline', async (t) => {
    const { run } = await open(t)
    const running = run('while :; do echo .; sleep 0.05; done', { hangMs: 4000, deadline: Date.now() + 6000 })
    await assert.rejects(running, isRunFault('terminal', /past its deadline/))
  })

  test('kills background processes when the program exits, and does not wait for them', async (t) => {
    const { run } = await open(t)
    const { result = '' } = await run('sleep 1000 & echo $!')
    await until(() => !isAlive(Number(result)))
    const { result: pid = '' } = await run('setsid sleep 30 & echo done')
    assert.equal(pid, 'done')
  })

  test('returns the longest output that is an answer, and fails with a longer one', async (t) => {
    const { run } = await open(t)
    assert.equal((await run(`head -c ${ANSWER_MAX} /dev/zero | tr '\\0' x`)).result, 'x'.repeat(ANSWER_MAX))
    const fault = isRunFault('terminal', /^its answer is longer than 1048576 characters$/)
    await assert.rejects(run(`head -c ${ANSWER_MAX + 1} /dev/zero | tr '\\0' x`), fault)
    await assert.rejects(
      run(`head -c ${ANSWER_MAX + 1} /dev/zero; echo broken >&2; exit 3`),
      isRunFault('retryable', /^broken$/),
    )
  })

  test('cuts the log at its limit', async (t) => {
    const { run, log } = await open(t)
    await assert.rejects(
      run('yes 0123456789abcdef | head -c 12000000; echo end'),
      isRunFault('terminal', /longer than/),
    )
    assert.equal(log().length, 10 * 1024 * 1024)
  })

  test('does not follow a symbolic link in the workspace when it writes the log', async (t) => {
    const { run, home } = await open(t)
    const other = join(home, 'precious')
    writeFileSync(other, 'kept')
    await run('echo a')
    rmSync(join(home, 'logs', 't1.log'))
    symlinkSync(other, join(home, 'logs', 't1.log'))
    assert.equal((await run('echo b')).result, 'b')
    rmSync(join(home, 'logs'), { recursive: true })
    const elsewhere = `${home}-elsewhere`
    symlinkSync(elsewhere, join(home, 'logs'))
    await run('echo c')
    assert.equal(readFileSync(other, 'utf8'), 'kept')
    assert.ok(!existsSync(join(elsewhere, 't1.log')))
  })
})
