// Tests of help and completion, which are generated from the usage lines, and of bearer, serve, list and start.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { demoCli, testCli } from '../../../test/support/cli.ts'
import { needs } from '../../../test/support/needs.ts'
import { completeInShell, SHELLS } from '../../../test/support/shell-completion.ts'
import { DAEMON_NAMES } from '../../daemons/settings.ts'
import { svcHelpText } from '../help-text.ts'
import { svcCommands } from './index.ts'

test('the help page equals the file that the launcher prints, with every command and its example', async () => {
  const page = await svcHelpText()
  const file = readFileSync(new URL('../../../bin/help.txt', import.meta.url), 'utf8')
  assert.equal(file, page, 'npm run golden writes it')
  for (const load of Object.values(svcCommands))
    for (const { usage, example } of await load())
      assert.ok(page.includes(`  svc ${usage}\n`) && page.includes(`$ svc ${example}\n`))
})

test('help explains one command and suggests a similar one', async (t) => {
  const cli = testCli(t)
  assert.match(await cli.ok('help gate'), /^usage: svc gate <instance> list \[--json\]\n/)
  assert.equal(await cli.ok('gate --help'), await cli.ok('help gate'))
  assert.equal(await cli.ok('help'), await svcHelpText())
  const wrong = await cli.run('help gaet')
  assert.deepEqual([wrong.code, wrong.stderr], [1, 'svc: unknown command "gaet"; did you mean gate?\n'])
})

suite('completion', () => {
  const expected: Record<string, string> = {
    'svc to': 'token',
    'svc token ': 'demo other',
    'svc token demo ': 'issue list replay revoke test',
    'svc token demo issue ': 'chat webhook',
    'svc token demo -c why issue ': 'chat webhook',
    'svc token demo issue chat main --c': '--context',
    'svc budget demo set ': 'folder user',
    'svc completion ': 'bash fish install zsh',
    'svc completion install ': 'bash fish zsh',
    'svc li': 'list',
    'svc task demo ': 'add change list pause resume rm run show',
    'svc serve demo --p': '--port',
    'svc group demo set main runtime --u': '--unset',
    'svc help us': 'user-secret',
  }
  for (const shell of SHELLS) {
    test(`works in ${shell}`, shell === 'bash' ? {} : needs(shell), async (t) => {
      const cli = testCli(t)
      await cli.ok('create demo')
      await cli.ok('create other')
      const script = join(cli.dir, 'script')
      writeFileSync(script, await cli.ok(`completion ${shell}`))
      const env = { SVC_DATA_DIR: cli.dir }
      for (const [line, words] of Object.entries(expected))
        assert.equal(completeInShell(shell, line, { script, fn: '_svc', env }), words, line)
    })
  }
  test('refuses another shell', async (t) => {
    const { code, stderr } = await testCli(t).run('completion tcsh')
    assert.deepEqual([code, stderr], [1, 'svc: no completions for "tcsh"; known: bash, zsh, fish\n'])
  })
})

suite('svc bearer', () => {
  test('prints the bearer and nothing else', async (t) => {
    const cli = await demoCli(t)
    const { code, stdout, stderr } = await cli.run('bearer demo github:42 --folder main --ttl 12h')
    assert.deepEqual([code, stderr], [0, ''])
    assert.match(stdout, /^eyJ[\w-]+\.[\w-]+\.[\w-]+\n$/)
    const claims = JSON.parse(Buffer.from(stdout.split('.')[1] ?? '', 'base64url').toString())
    assert.deepEqual([claims.sub, claims.folder, claims.exp - claims.iat], ['github:42', 'main', 12 * 3600])
  })
  test('is audited with its issuer and person, but without the bearer', async (t) => {
    const cli = await demoCli(t)
    const bearer = (await cli.ok('bearer demo github:42 --folder main --ttl 12h')).trim()
    await cli.run('bearer demo github:43 --folder nobody')
    const { DatabaseSync } = await import('node:sqlite')
    const db = new DatabaseSync(`${cli.root}/store/svc.db`, { readOnly: true })
    t.after(() => db.close())
    const rows = db.prepare(`select * from audit where action = 'bearers.create'`).all()
    assert.deepEqual(
      rows.map(({ surface, outcome, params_summary }) => [surface, outcome, params_summary]),
      [['cli', 'ok', '{"sub":"github:42","folder":"main","ttl_ms":43200000}']],
    )
    assert.match(String(rows[0]?.actor), /^cli:\S+$/)
    assert.ok(!JSON.stringify(rows).includes(bearer.split('.')[2] ?? ''))
  })
  test('refuses an invalid name, folder or time', async (t) => {
    const cli = await demoCli(t)
    const cases: Record<string, RegExp> = {
      'bearer demo me': /sub must look like provider:id/,
      'bearer demo github:1 --folder ../x': /folder must be names/,
      'bearer demo github:1 --folder nobody': /there is no group nobody/,
      'bearer demo github:1 --ttl 1y': /must be a duration/,
      'bearer demo github:1 --ttl 0': /must be from 1 second/,
      'bearer demo service:line': /service:line is for the daemons of the instance/,
    }
    for (const [line, sentence] of Object.entries(cases)) {
      const { code, stdout, stderr } = await cli.run(line)
      assert.deepEqual([code, stdout], [1, ''])
      assert.match(stderr, sentence)
    }
  })
})

suite('svc serve', () => {
  test('prints a line for each daemon, then ready, and stops on a signal', async (t) => {
    const cli = testCli(t)
    await cli.ok('create demo', { env: { WEB_LISTEN: '127.0.0.1:0' } })
    const lines = (await cli.ok('serve demo')).trimEnd().split('\n')
    assert.equal(lines.pop(), 'ready')
    assert.deepEqual(lines.map((line) => line.split(' ')[0]).sort(), [...DAEMON_NAMES].sort())
    for (const line of lines) assert.match(line, /^\w+ http:\/\/127\.0\.0\.1:\d+$/)
    assert.match(await cli.ok('serve demo authd'), /^authd \S+\nready\n$/)
  })
  test('refuses an unknown daemon', async (t) => {
    const cli = await demoCli(t)
    const { code, stderr } = await cli.run('serve demo webdd')
    assert.equal(code, 1)
    assert.match(stderr, /unknown daemon "webdd"; did you mean webd\?/)
  })
})

/** The first of enough free ports for all daemons, below the system's ephemeral ports. */
async function findFreePort(): Promise<number> {
  const port = 10_000 + Math.floor(Math.random() * 20_000)
  const servers = DAEMON_NAMES.map((_, at) => createServer().listen(port + at, '127.0.0.1'))
  const tried = await Promise.allSettled(servers.map((server) => once(server, 'listening')))
  for (const server of servers) server.close()
  return tried.every(({ status }) => status === 'fulfilled') ? port : findFreePort()
}

suite('--port', () => {
  test('overrides .env and PROXYD_LISTEN and sets the ports of the other daemons', async (t) => {
    const cli = await demoCli(t)
    const env = join(cli.root, '.env')
    writeFileSync(env, `${readFileSync(env, 'utf8')}PROXYD_LISTEN=127.0.0.1:1\n`)
    const port = await findFreePort()
    const lines = (await cli.ok(`serve demo proxyd routd --port ${port}`)).split('\n')
    assert.deepEqual(lines.slice(0, 2), [`proxyd http://127.0.0.1:${port}`, `routd http://127.0.0.1:${port + 1}`])
    assert.match(readFileSync(env, 'utf8'), /^WEB_LISTEN=127\.0\.0\.1:8080$/m)
  })
  test('of svc start is the port of its links', async (t) => {
    const cli = await demoCli(t)
    const port = await findFreePort()
    const printed = await cli.ok(`start --port ${port}`)
    assert.match(printed, new RegExp(`^  http://localhost:${port}/chat/`, 'm'))
  })
  test('of svc start is written to the .env of a new instance', async (t) => {
    const cli = testCli(t)
    const port = await findFreePort()
    await cli.ok(`start --port ${port}`)
    assert.match(readFileSync(join(cli.root, '.env'), 'utf8'), new RegExp(`^WEB_LISTEN=127\\.0\\.0\\.1:${port}$`, 'm'))
    assert.match(await cli.ok('token demo issue chat main'), new RegExp(`^url: http://localhost:${port}/chat/`, 'm'))
  })
  for (const [typed, sentence] of Object.entries({
    '65536': /--port must be from 0 to 65535, not 65536/,
    '-1': /--port must be from 0 to 65535, not -1/,
    http: /--port must be a whole number, not "http"/,
    '65535': /the port of routd would be 65536, above 65535/,
  }))
    test(`refuses ${typed}`, async (t) => {
      const cli = await demoCli(t)
      for (const line of ['serve demo routd', 'serve demo']) {
        const { code, stdout, stderr } = await cli.run([...line.split(' '), '--port', typed])
        assert.deepEqual([code, stdout], [1, ''])
        assert.match(stderr, sentence)
      }
    })
})

suite('svc list', () => {
  test('lists every instance, its address and whether it is served', async (t) => {
    const cli = testCli(t)
    const none = await cli.run('list')
    assert.deepEqual(none, {
      code: 0,
      stdout: '',
      stderr: `no instances in ${cli.dir}; svc create <name> creates one\n`,
    })
    await cli.ok('create demo')
    await cli.ok('create other', { env: { WEB_LISTEN: '[::1]:9100' } })
    writeFileSync(join(cli.dir, 'svc_file'), '')
    assert.equal(
      await cli.ok('list'),
      `NAME\tSERVED\tLISTEN\tDIRECTORY\ndemo\tno\thttp://127.0.0.1:8080\t${cli.root}\n` +
        `other\tno\thttp://[::1]:9100\t${join(cli.dir, 'svc_other')}\n`,
    )
    const [ready, stop] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const heard = (text: string): void => {
      if (text === 'ready\n') ready.resolve()
    }
    const port = await findFreePort()
    const served = cli.ok(`serve demo --port ${port}`, { heard, stopped: stop.promise })
    await ready.promise
    const [demo, other] = JSON.parse(await cli.ok('list --json'))
    assert.deepEqual([demo.served, other.served], [true, false])
    assert.equal(demo.processes[0].pid, process.pid)
    const again = await cli.run(`serve demo --port ${port}`)
    assert.deepEqual(
      [again.code, again.stdout, again.stderr],
      [
        1,
        '',
        `svc: demo is already being served at ${demo.listen} (process ${process.pid})\nhint: stop that process first\n`,
      ],
    )
    // On other ports a new version may take over from the old one.
    assert.match(await cli.ok('serve demo --port 0'), /^ready$/m)
    stop.resolve()
    assert.match(await served, new RegExp(`^proxyd ${demo.listen}$`, 'm'))
    assert.match(await cli.ok('list'), /^demo\tno\thttp:\/\/127\.0\.0\.1:8080\t/m)
  })

  test('lists an instance with invalid settings and prints the reason', async (t) => {
    const cli = await demoCli(t)
    writeFileSync(join(cli.root, '.env'), 'WEB_LISTEN=nowhere\n')
    const { code, stdout, stderr } = await cli.run('list')
    assert.deepEqual([code, stdout], [0, `NAME\tSERVED\tLISTEN\tDIRECTORY\ndemo\tno\t-\t${cli.root}\n`])
    assert.match(stderr, /^warning: WEB_LISTEN in /)
  })
})

test('svc start creates the instance once, serves it and prints links to it', async (t) => {
  const cli = testCli(t)
  const env = { WEB_LISTEN: '127.0.0.1:0' }
  const first = await cli.ok('start', { env })
  assert.match(first, new RegExp(`^created the instance demo in ${cli.root}\n`))
  const [, port] = /^proxyd http:\/\/127\.0\.0\.1:(\d+)$/m.exec(first) ?? []
  const proxyd = `http://localhost:${port}`
  assert.match(
    first,
    new RegExp(`^ready\n\nOpen the chat in a browser. [^\n]+:\n\n  ${proxyd}/chat/~[\\w-]{43}\\.[\\w-]{43}/\n`, 'm'),
  )
  assert.match(first, new RegExp(`^  curl -i -d '[^']+' ${proxyd}/hook/~[\\w-]{43}\\.[\\w-]{43}$`, 'm'))
  await cli.ok('token demo issue chat main')
  const second = await cli.ok('start', { env })
  assert.match(second, /^found the instance demo in /)
  const jids = (await cli.ok('token demo list main'))
    .trimEnd()
    .split('\n')
    .slice(1)
    .map((row) => row.split('\t')[0])
  assert.deepEqual(jids.sort(), ['hook:main/curl/start', 'web:main', 'web:main/start'])
})

test('svc start serves without links if another folder owns their JIDs', async (t) => {
  const cli = testCli(t)
  const env = { WEB_LISTEN: '127.0.0.1:0' }
  await cli.ok('create demo', { env })
  await cli.ok('group demo add slack:1 main/start')
  await cli.ok('token demo issue chat main/start')
  const { code, stdout, stderr } = await cli.run('start', { env })
  assert.deepEqual(
    [code, stderr],
    [0, 'warning: cannot mint links to try: web:main/start is minted by the folder main/start already\n'],
  )
  assert.match(stdout, /^ready$/m)
  assert.match(await cli.ok('token demo list main/start'), /^web:main\/start\tmain\/start\t/m)
})

test('svc start names the file for another address and mints no links if its port is in use', async (t) => {
  const cli = testCli(t)
  const taken = createServer().listen(0, '127.0.0.1')
  t.after(() => void taken.close())
  await once(taken, 'listening')
  const address = taken.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const { code, stderr } = await cli.run('start', { env: { WEB_LISTEN: `127.0.0.1:${port}` } })
  assert.equal(code, 1)
  assert.match(stderr, /hint: set \w+_LISTEN to another address in \S+\/svc_demo\/\.env, or start it with --port <n>$/m)
  assert.equal(await cli.ok('token demo list main'), '')
})
