// `svc send` as a process, against a server that is another: answers, exit codes, signals, and a server that goes away.
import assert from 'node:assert/strict'
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { DAEMON_NAMES } from '../../src/daemons/settings.ts'
import { type Instance, instance, type ServedProcess, type SvcExit } from '../support/svc.ts'

const SVC = join(import.meta.dirname, '../../bin/svc.js')
const HINT = 'svc token demo issue chat main'

interface Sending {
  readonly child: ChildProcessWithoutNullStreams
  readonly end: Promise<SvcExit>
  /** When stdout holds the text. */
  said(text: string): Promise<void>
}

function sending(t: TestContext, { root }: Instance, ...args: string[]): Sending {
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, SVC_DATA_DIR: dirname(root) }
  const child = spawn(process.execPath, [SVC, 'send', 'demo', 'main', ...args], { env })
  t.after(() => void child.kill('SIGKILL'))
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (chunk) => {
    stdout += chunk
  })
  child.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  const end = once(child, 'close').then(([code]) => ({ code: typeof code === 'number' ? code : null, stdout, stderr }))
  const said = async (text: string): Promise<void> => {
    while (!stdout.includes(text)) {
      if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode}: ${stderr}`)
      await once(child.stdout, 'data')
    }
  }
  return { child, end, said }
}

function send(t: TestContext, demo: Instance, ...args: string[]): Promise<SvcExit> {
  return sending(t, demo, ...args).end
}

/** Only the front door's port is told; it is where links lead to. */
const ELSEWHERE = Object.fromEntries(
  DAEMON_NAMES.filter((name) => name !== 'proxyd').map((name) => [`${name.toUpperCase()}_LISTEN`, '127.0.0.1:0']),
)

function edit({ root }: Instance, key: string, value: string): void {
  const path = join(root, '.env')
  writeFileSync(path, readFileSync(path, 'utf8').replace(new RegExp(`^${key}=.*$`, 'm'), `${key}=${value}`))
}

/** Serves, and lets links lead there. */
async function serve(demo: Instance): Promise<ServedProcess> {
  const served = await demo.serve([], ELSEWHERE)
  const { host } = new URL(served.urls.get('proxyd') ?? '')
  edit(demo, 'WEB_LISTEN', host)
  edit(demo, 'WEB_HOST', host)
  return served
}

interface Gate {
  readonly host: string
  /** Ends what is open, and does this with the next connections; those after them get through. */
  behave(...next: ('refuse' | 'lose the answer')[]): void
  /** How many of them are still to come. */
  left(): number
}

/** Stands before a server that is away now and then. */
async function gate(t: TestContext, target: string): Promise<Gate> {
  const { hostname, port } = new URL(target)
  const sockets = new Set<Socket>()
  let waiting: string[] = []
  const server = createServer((client) => {
    const how = waiting.shift()
    if (how === 'refuse') return void client.destroy()
    const upstream = connect(Number(port), hostname)
    const end = (): void => {
      for (const socket of [client, upstream]) {
        sockets.delete(socket)
        socket.destroy()
      }
    }
    for (const socket of [client, upstream]) sockets.add(socket.on('error', end).on('close', end))
    client.pipe(upstream)
    if (how === undefined) upstream.pipe(client)
    else upstream.once('data', end)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const close = (): void => {
    for (const socket of sockets) socket.destroy()
  }
  t.after(() => {
    server.close()
    close()
  })
  const address = server.address()
  return {
    host: `127.0.0.1:${typeof address === 'object' ? address?.port : ''}`,
    left: () => waiting.length,
    behave: (...next) => {
      waiting = next
      close()
    },
  }
}

/** How often a text has come in. */
function arrivals({ root }: Instance, content: string): unknown {
  using db = new DatabaseSync(join(root, 'store', 'svc.db'), { timeout: 60_000 })
  const sql = `select count(*) as n from messages where direction = 'in' and cast(content as text) = ?`
  return db.prepare(sql).get(content)?.n
}

async function mint(demo: Instance): Promise<string> {
  const { stdout } = await demo.run('token', 'demo', 'issue', 'chat', 'main')
  return /^token: (.*)$/m.exec(stdout)?.[1] ?? ''
}

test('svc send', async (t) => {
  const demo = await instance(t)
  let served = await serve(demo)
  const door = served.urls.get('proxyd') ?? ''
  const token = await mint(demo)
  const roundOf = async (turnId: string): Promise<{ status: string; frames: { content: string }[] }> =>
    JSON.parse(await (await fetch(`${door}/chat/${token}/${turnId}`)).text())

  await t.test('alone prints the round and its topic, and does not wait', async () => {
    const { code, stdout, stderr } = await send(t, demo, '/wait 100ms\n/say done')
    assert.deepEqual([code, stderr], [0, ''])
    const [, turnId = '', topic] = /^turn_id: (\S+)\ntopic: (send-[0-9a-f]{12})\n$/.exec(stdout) ?? []
    assert.ok(topic, stdout)
    assert.match((await roundOf(turnId)).status, /^(pending|success)$/)
    const json = JSON.parse((await send(t, demo, 'x', '--json', '--topic', 'mine')).stdout)
    assert.deepEqual(Object.keys(json), ['turn_id', 'topic', 'status'])
    assert.deepEqual([json.topic, json.status], ['mine', 'pending'])
  })

  for (const flag of ['--wait', '--stream'])
    await t.test(
      `${flag} prints what is said, in order and nothing else, and exits 0 or 1 as the round ends`,
      async () => {
        const script = '/status thinking\n/say one\n/wait 1s\n/say two'
        assert.deepEqual(await send(t, demo, script, flag), { code: 0, stdout: 'one\ntwo\n', stderr: '' })
        const many = await send(t, demo, '/count 450', flag)
        assert.equal(many.code, 0, many.stderr)
        assert.deepEqual(
          many.stdout.trimEnd().split('\n'),
          Array.from({ length: 450 }, (_, at) => `${at + 1}`),
        )
        const failed = await send(t, demo, '/say so far\n/fail no more', flag)
        assert.deepEqual([failed.code, failed.stdout], [1, 'so far\n'])
        const [told, hint = ''] = failed.stderr.split('\n')
        assert.equal(told, 'svc: the round failed: the agent could not answer; try again later')
        const [, id = ''] = /^hint: svc messages demo show (\S+) shows the reason$/.exec(hint) ?? []
        const story = await demo.run('messages', 'demo', 'show', id)
        assert.match(story.stdout, /reason\W+no more/)
        assert.match(story.stdout, /round error\W+the agent could not answer/)
      },
    )

  await t.test('--stdin takes the message from there, trimmed', async () => {
    const { child, end } = sending(t, demo, '--stdin', '--wait')
    child.stdin.end('\n  /say from a pipe \n\n')
    assert.deepEqual(await end, { code: 0, stdout: 'from a pipe\n', stderr: '' })
  })

  await t.test('--json is one document with --wait, and a line for each event with --stream', async () => {
    const { status, frames, turn_id } = JSON.parse((await send(t, demo, '/say a\n/fail b', '--wait', '--json')).stdout)
    assert.deepEqual([status, frames.map(({ content }: { content: string }) => content)], ['failed', ['a']])
    assert.equal((await roundOf(turn_id)).status, 'failed')
    const lines = (await send(t, demo, '/say a\n/fail b', '--stream', '--json')).stdout.trimEnd().split('\n')
    assert.deepEqual(
      lines
        .map((line) => JSON.parse(line))
        .map(({ event, content, status, error }) => [event, content ?? status, error]),
      [
        ['message', 'a', undefined],
        ['round_done', 'failed', 'the agent could not answer; try again later'],
      ],
    )
  })

  for (const flag of ['--wait', '--stream'])
    await t.test(`Ctrl-C with ${flag} leaves the round running and says where it can be seen`, async () => {
      const { child, end, said } = sending(t, demo, '/say one\n/wait 2s\n/say two', flag)
      await said('one')
      child.kill('SIGINT')
      const { code, stdout, stderr } = await end
      assert.deepEqual([code, stdout], [130, 'one\n'])
      const turnId =
        /^round (\S+) continues on the server; svc token demo issue chat main mints a link that shows it\n$/.exec(
          stderr,
        )?.[1]
      assert.ok(turnId, stderr)
      let round = await roundOf(turnId)
      while (round.status === 'pending') {
        await pause(50)
        round = await roundOf(turnId)
      }
      assert.deepEqual([round.status, round.frames.map(({ content }) => content)], ['success', ['one', 'two']])
    })

  for (const flag of ['--wait', '--stream'])
    await t.test(`${flag} goes on when the server was stopped and started again`, async () => {
      const { child, end, said } = sending(t, demo, '/say one\n/wait 1s\n/say two', flag)
      await said('one')
      // It tries for some seconds, which a busy machine may need to start a server.
      child.kill('SIGSTOP')
      assert.equal((await served.stop()).code, 0)
      served = await serve(demo)
      child.kill('SIGCONT')
      assert.deepEqual(await end, { code: 0, stdout: 'one\ntwo\n', stderr: '' })
    })

  await t.test('a server that is away at first gets the message at the third try, and once', async () => {
    const { host, behave, left } = await gate(t, served.urls.get('proxyd') ?? '')
    edit(demo, 'WEB_HOST', host)
    for (const [flag, said] of [
      ['--wait', 'here\n'],
      ['--stream', 'here\n'],
      ['--json', undefined],
    ] as const) {
      behave('refuse', 'lose the answer')
      const script = `/say here\n/status by ${flag}`
      const { code, stdout, stderr } = await send(t, demo, script, flag)
      assert.deepEqual([code, stderr, left()], [0, '', 0])
      if (said !== undefined) assert.equal(stdout, said)
      assert.equal(arrivals(demo, script), 1)
      behave('refuse', 'refuse', 'refuse', 'refuse')
      const never = await send(t, demo, `never ${flag}`, flag)
      assert.deepEqual([never.code, never.stdout, left()], [2, '', 1], 'three tries and no more')
    }
    edit(demo, 'WEB_HOST', new URL(served.urls.get('proxyd') ?? '').host)
  })

  for (const flag of ['--wait', '--stream'])
    await t.test(`${flag} goes on when the server is away for a few tries`, async () => {
      const { host, behave, left } = await gate(t, served.urls.get('proxyd') ?? '')
      edit(demo, 'WEB_HOST', host)
      const { end, said } = sending(t, demo, '/say one\n/wait 1s\n/say two', flag)
      await said('one')
      behave('refuse', 'refuse', 'refuse')
      assert.deepEqual(await end, { code: 0, stdout: 'one\ntwo\n', stderr: '' })
      assert.equal(left(), 0)
      edit(demo, 'WEB_HOST', new URL(served.urls.get('proxyd') ?? '').host)
    })

  for (const flag of ['--wait', '--stream'])
    await t.test(`${flag} ends with 1 when the link is revoked meanwhile`, async () => {
      const { end, said } = sending(t, demo, '/say one\n/wait 30s', flag)
      await said('one')
      assert.equal((await demo.run('token', 'demo', 'revoke', 'web:main')).code, 0)
      const { code, stdout, stderr } = await end
      assert.deepEqual([code, stdout], [1, 'one\n'])
      assert.match(stderr, /^svc: the server refused the request \(401\): /)
      const none = await send(t, demo, 'hello', flag)
      assert.equal(none.code, 1)
      assert.match(none.stderr, new RegExp(`hint: ${HINT} mints one`))
      await mint(demo)
    })

  await t.test('what the server refuses is 1, with its sentence', async () => {
    const { code, stderr } = await send(t, demo, 'hello', '--topic', 'x'.repeat(129))
    assert.equal(code, 1)
    assert.match(stderr, /^svc: the server refused the request \(400\): .*topic/)
  })

  await t.test('a key that is not the server’s is 1', async () => {
    const path = join(demo.root, '.env')
    const kept = readFileSync(path, 'utf8')
    edit(demo, 'SECRETS_KEY', 'another')
    const { code, stderr } = await send(t, demo, 'hello')
    writeFileSync(path, kept)
    assert.equal(code, 1)
    assert.match(stderr, /\(401\)/)
  })

  await t.test('a server that is down is 2, whatever is asked of it', async () => {
    assert.equal((await served.stop()).code, 0)
    for (const flags of [[], ['--wait'], ['--stream']]) {
      const { code, stdout, stderr } = await send(t, demo, 'hello', ...flags)
      assert.deepEqual([code, stdout], [2, ''])
      assert.match(stderr, /^svc: no server listens at http:\/\/\S+\nhint: svc serve demo starts the server\n$/)
    }
  })

  await t.test('a server that goes away for good is 2, and the message is not lost', async () => {
    served = await serve(demo)
    const { end, said } = sending(t, demo, '/say one\n/wait 30s', '--stream')
    await said('one')
    served.child.kill('SIGKILL')
    const { code, stderr } = await end
    assert.equal(code, 2)
    assert.match(
      stderr,
      /^svc: no server listens at \S+\nhint: round \S+ continues on the server; svc token demo issue chat main mints/,
    )
  })
})
