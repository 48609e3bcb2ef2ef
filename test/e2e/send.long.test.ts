// `svc send` as a process with the server in another: output, exit codes, signals, and server failures.
import assert from 'node:assert/strict'
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { DAEMON_NAMES } from '../../src/daemons/settings.ts'
import { type Instance, instance, type ServedProcess, type SvcExit } from '../support/svc.ts'

const SVC = join(import.meta.dirname, '../../bin/svc.js')
/** Tests run below the checkout. */
const HINT = 'npx svc token demo issue chat main'

interface SendProcess {
  readonly child: ChildProcessWithoutNullStreams
  readonly end: Promise<SvcExit>
  /** Resolves when stdout contains the text. */
  untilPrinted(text: string): Promise<void>
}

function startSend(t: TestContext, { root }: Instance, ...args: string[]): SendProcess {
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
  const untilPrinted = async (text: string): Promise<void> => {
    while (!stdout.includes(text)) {
      if (child.exitCode !== null) throw new Error(`svc send ended with ${child.exitCode}: ${stderr}`)
      await once(child.stdout, 'data')
    }
  }
  return { child, end, untilPrinted }
}

function send(t: TestContext, demo: Instance, ...args: string[]): Promise<SvcExit> {
  return startSend(t, demo, ...args).end
}

/** Random ports for all daemons but the front door, whose port is in the links. */
const RANDOM_PORTS = Object.fromEntries(
  DAEMON_NAMES.filter((name) => name !== 'proxyd').map((name) => [`${name.toUpperCase()}_LISTEN`, '127.0.0.1:0']),
)

function editSetting({ root }: Instance, key: string, value: string): void {
  const path = join(root, '.env')
  writeFileSync(path, readFileSync(path, 'utf8').replace(new RegExp(`^${key}=.*$`, 'm'), `${key}=${value}`))
}

/** Serves the instance and sets the address of its links. */
async function serve(demo: Instance): Promise<ServedProcess> {
  const served = await demo.serve([], RANDOM_PORTS)
  const { host } = new URL(served.urls.get('proxyd') ?? '')
  editSetting(demo, 'WEB_LISTEN', host)
  editSetting(demo, 'WEB_HOST', host)
  return served
}

interface FlakyProxy {
  readonly host: string
  /** Closes open connections and applies these faults to the next ones; later connections work. */
  inject(...faults: ('refuse' | 'lose the response')[]): void
  /** Faults not applied yet. */
  remaining(): number
}

/** A TCP proxy in front of a server, with injected connection faults. */
async function openFlakyProxy(t: TestContext, target: string): Promise<FlakyProxy> {
  const { hostname, port } = new URL(target)
  const sockets = new Set<Socket>()
  let pending: string[] = []
  const server = createServer((client) => {
    const fault = pending.shift()
    if (fault === 'refuse') return void client.destroy()
    const upstream = connect(Number(port), hostname)
    const end = (): void => {
      for (const socket of [client, upstream]) {
        sockets.delete(socket)
        socket.destroy()
      }
    }
    for (const socket of [client, upstream]) sockets.add(socket.on('error', end).on('close', end))
    client.pipe(upstream)
    if (fault === undefined) upstream.pipe(client)
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
    remaining: () => pending.length,
    inject: (...faults) => {
      pending = faults
      close()
    },
  }
}

/** Number of stored inbound messages with this text. */
function countArrivals({ root }: Instance, content: string): unknown {
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

  await t.test('without flags prints the round and its topic and does not wait', async () => {
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
      `${flag} prints only the answers, in order, and exits with 0 or 1 for the outcome of the round`,
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
        const [message, hint = ''] = failed.stderr.split('\n')
        assert.equal(message, 'svc: the round failed: the agent could not answer; try again later')
        const [, id = ''] = /^hint: npx svc messages demo show (\S+) shows the reason$/.exec(hint) ?? []
        const details = await demo.run('messages', 'demo', 'show', id)
        assert.match(details.stdout, /reason\W+no more/)
        assert.match(details.stdout, /round error\W+the agent could not answer/)
      },
    )

  await t.test('--stdin reads the message from stdin and trims it', async () => {
    const { child, end } = startSend(t, demo, '--stdin', '--wait')
    child.stdin.end('\n  /say from a pipe \n\n')
    assert.deepEqual(await end, { code: 0, stdout: 'from a pipe\n', stderr: '' })
  })

  await t.test(
    '--file sends files, also without a message, and prints the refusal of one that is too large',
    async () => {
      const [small, most, over] = [5, 25 * 1024 * 1024, 25 * 1024 * 1024 + 1].map((size) => {
        const path = join(dirname(demo.root), `${size}.bin`)
        writeFileSync(path, '')
        truncateSync(path, size)
        return path
      }) as [string, string, string]
      const sent = await send(t, demo, '--file', small, '--file', most, '--wait', '--json')
      assert.deepEqual([sent.code, sent.stderr], [0, ''])
      const { turn_id } = JSON.parse(sent.stdout)
      using db = new DatabaseSync(join(demo.root, 'store', 'svc.db'), { timeout: 60_000 })
      const sql = `select f.name, f.size from chat_files f join messages m on m.seq = f.message_seq
                   where m.id = ? or m.turn_id = ? order by f.position`
      assert.deepEqual(
        db
          .prepare(sql)
          .all(turn_id, turn_id)
          .map(({ name, size }) => [name, size]),
        [
          ['5.bin', 5],
          ['26214400.bin', 26_214_400],
        ],
      )
      const refused = await send(t, demo, 'with two', '--file', small, '--file', over)
      assert.deepEqual([refused.code, refused.stdout], [1, ''])
      assert.match(
        refused.stderr,
        /^svc: the server refused the request \(413\): the file "26214401.bin" is larger than 26214400 bytes\n/,
      )
      assert.equal(countArrivals(demo, 'with two'), 0)
    },
  )

  await t.test('--json prints one document with --wait and one line per event with --stream', async () => {
    const { status, frames, turn_id } = JSON.parse((await send(t, demo, '/say a\n/fail b', '--wait', '--json')).stdout)
    assert.deepEqual([status, frames.map(({ content }: { content: string }) => content)], ['failed', ['a']])
    assert.equal((await roundOf(turn_id)).status, 'failed')
    const lines = (await send(t, demo, '/say a\n/fail b', '--stream', '--json')).stdout.trimEnd().split('\n')
    assert.deepEqual(
      lines
        .map((line) => JSON.parse(line))
        // They may be lost.
        .filter(({ event }) => event !== 'activity')
        .map(({ event, content, status, error }) => [event, content ?? status, error]),
      [
        ['message', 'a', undefined],
        ['round_done', 'failed', 'the agent could not answer; try again later'],
      ],
    )
  })

  for (const flag of ['--wait', '--stream'])
    await t.test(`Ctrl-C with ${flag} leaves the round running and prints how to see it`, async () => {
      const { child, end, untilPrinted } = startSend(t, demo, '/say one\n/wait 2s\n/say two', flag)
      await untilPrinted('one')
      child.kill('SIGINT')
      const { code, stdout, stderr } = await end
      assert.deepEqual([code, stdout], [130, 'one\n'])
      const told = new RegExp(`^round (\\S+) continues on the server; ${HINT} mints a link that shows it\n$`)
      const turnId = told.exec(stderr)?.[1]
      assert.ok(turnId, stderr)
      let round = await roundOf(turnId)
      while (round.status === 'pending') {
        await pause(50)
        round = await roundOf(turnId)
      }
      assert.deepEqual([round.status, round.frames.map(({ content }) => content)], ['success', ['one', 'two']])
    })

  for (const flag of ['--wait', '--stream'])
    await t.test(`${flag} continues after a restart of the server`, async () => {
      const { child, end, untilPrinted } = startSend(t, demo, '/say one\n/wait 1s\n/say two', flag)
      await untilPrinted('one')
      // Pauses the client, because its retries could end before a busy machine has started the server.
      child.kill('SIGSTOP')
      assert.equal((await served.stop()).code, 0)
      served = await serve(demo)
      child.kill('SIGCONT')
      assert.deepEqual(await end, { code: 0, stdout: 'one\ntwo\n', stderr: '' })
    })

  await t.test('sends the message once when the third attempt succeeds', async () => {
    const { host, inject, remaining } = await openFlakyProxy(t, served.urls.get('proxyd') ?? '')
    editSetting(demo, 'WEB_HOST', host)
    for (const [flag, expected] of [
      ['--wait', 'here\n'],
      ['--stream', 'here\n'],
      ['--json', undefined],
    ] as const) {
      inject('refuse', 'lose the response')
      const script = `/say here\n/status by ${flag}`
      const { code, stdout, stderr } = await send(t, demo, script, flag)
      assert.deepEqual([code, stderr, remaining()], [0, '', 0])
      if (expected !== undefined) assert.equal(stdout, expected)
      assert.equal(countArrivals(demo, script), 1)
      inject('refuse', 'refuse', 'refuse', 'refuse')
      const never = await send(t, demo, `never ${flag}`, flag)
      assert.deepEqual([never.code, never.stdout, remaining()], [2, '', 1], 'three attempts and no more')
    }
    editSetting(demo, 'WEB_HOST', new URL(served.urls.get('proxyd') ?? '').host)
  })

  for (const flag of ['--wait', '--stream'])
    await t.test(`${flag} continues when the server is unreachable for a few attempts`, async () => {
      const { host, inject, remaining } = await openFlakyProxy(t, served.urls.get('proxyd') ?? '')
      editSetting(demo, 'WEB_HOST', host)
      // --wait polls once a second: a shorter wait could bring both texts with one poll.
      const { end, untilPrinted } = startSend(t, demo, '/say one\n/wait 4s\n/say two', flag)
      await untilPrinted('one')
      inject('refuse', 'refuse', 'refuse')
      assert.deepEqual(await end, { code: 0, stdout: 'one\ntwo\n', stderr: '' })
      assert.equal(remaining(), 0)
      editSetting(demo, 'WEB_HOST', new URL(served.urls.get('proxyd') ?? '').host)
    })

  for (const flag of ['--wait', '--stream'])
    await t.test(`${flag} exits with 1 when the link is revoked during the round`, async () => {
      const { end, untilPrinted } = startSend(t, demo, '/say one\n/wait 30s', flag)
      await untilPrinted('one')
      assert.equal((await demo.run('token', 'demo', 'revoke', 'web:main')).code, 0)
      const { code, stdout, stderr } = await end
      assert.deepEqual([code, stdout], [1, 'one\n'])
      assert.match(stderr, /^svc: the server refused the request \(401\): /)
      const none = await send(t, demo, 'hello', flag)
      assert.equal(none.code, 1)
      assert.match(none.stderr, new RegExp(`hint: ${HINT} mints one`))
      await mint(demo)
    })

  await t.test('exits with 1 and the message of the server when the server refuses', async () => {
    const { code, stderr } = await send(t, demo, 'hello', '--topic', 'x'.repeat(129))
    assert.equal(code, 1)
    assert.match(stderr, /^svc: the server refused the request \(400\): .*topic/)
  })

  await t.test('exits with 1 when its key differs from that of the server', async () => {
    const path = join(demo.root, '.env')
    const kept = readFileSync(path, 'utf8')
    editSetting(demo, 'SECRETS_KEY', 'another')
    const { code, stderr } = await send(t, demo, 'hello')
    writeFileSync(path, kept)
    assert.equal(code, 1)
    assert.match(stderr, /\(401\)/)
  })

  await t.test('exits with 2 when the server is down', async () => {
    assert.equal((await served.stop()).code, 0)
    for (const flags of [[], ['--wait'], ['--stream']]) {
      const { code, stdout, stderr } = await send(t, demo, 'hello', ...flags)
      assert.deepEqual([code, stdout], [2, ''])
      assert.match(stderr, /^svc: no server listens at http:\/\/\S+\nhint: npx svc serve demo starts the server\n$/)
    }
  })

  await t.test('exits with 2 when the server dies, and the message is not lost', async () => {
    served = await serve(demo)
    const { end, untilPrinted } = startSend(t, demo, '/say one\n/wait 30s', '--stream')
    await untilPrinted('one')
    served.child.kill('SIGKILL')
    const { code, stderr } = await end
    assert.equal(code, 2)
    assert.match(
      stderr,
      /^svc: no server listens at \S+\nhint: round \S+ continues on the server; npx svc token demo issue chat main mints/,
    )
  })
})
