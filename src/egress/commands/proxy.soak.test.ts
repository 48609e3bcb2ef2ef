// `egress-proxy` as real processes: listeners, signals, streams, old Nodes.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { getPriority } from 'node:os'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { EGRESS_PROXY, type EgressProcess, openEgressWorkspace } from '../../../test/support/egress-process.ts'
import { needs, oldNode } from '../../../test/support/needs.ts'
import { until } from '../../../test/support/until.ts'

const ROOT = join(import.meta.dirname, '../../..')

suite('the launcher', () => {
  const help = readFileSync(join(ROOT, 'bin/help-egress-proxy.txt'), 'utf8')
  test('prints help on request, and to stderr with exit code 1 without arguments', (t) => {
    const { run } = openEgressWorkspace(t)
    for (const word of ['--help', '-h', 'help']) assert.deepEqual(run(word), { code: 0, stdout: help, stderr: '' })
    assert.deepEqual(run(), { code: 1, stdout: '', stderr: help })
  })
  test('prints its version', (t) => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
    assert.deepEqual(openEgressWorkspace(t).run('--version'), {
      code: 0,
      stdout: `egress-proxy ${version}\n`,
      stderr: '',
    })
  })
  test('passes on exit codes and both streams', (t) => {
    const { run } = openEgressWorkspace(t)
    assert.equal(run('check', 'a.example', '--allow', 'a.example').code, 0)
    assert.equal(run('check', 'b.example', '--allow', 'a.example').code, 1)
    assert.equal(run('check', 'b.example').code, 1)
    const { code, stdout, stderr } = run('state', '--admin', '127.0.0.1:1')
    assert.deepEqual([code, stdout], [1, ''])
    assert.match(stderr, /^egress-proxy: nothing answers at http:\/\/127\.0\.0\.1:1: the connection is refused\nhint: /)
  })
  test('runs on the project’s own Node if started with an old one', needs('old node'), (t) => {
    const { env } = openEgressWorkspace(t)
    const old = (...args: string[]) => spawnSync(oldNode() ?? '', [EGRESS_PROXY, ...args], { env, encoding: 'utf8' })
    assert.equal(old('--help').stdout, help)
    const { status, stdout } = old('check', 'a.example', '--allow', 'b.example')
    assert.deepEqual([status, stdout.split(' ')[0]], [1, 'a.example'])
  })
})

async function health({ listeners }: EgressProcess): Promise<unknown> {
  return (await fetch(`http://${listeners.get('admin')}/health`)).json()
}

/** A server named `localhost` that never answers; returns its port. */
async function silentServer(t: TestContext): Promise<number> {
  const server = createServer((socket) => socket.on('error', () => {}).resume()).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  // A listening TCP server has an address with a port.
  return (server.address() as AddressInfo).port
}

async function tunnel(t: TestContext, { listeners }: EgressProcess, port: number): Promise<Socket> {
  const [host, proxyPort] = (listeners.get('forward') ?? '').split(':')
  const socket = connect(Number(proxyPort), host)
  socket.on('error', () => {})
  t.after(() => socket.destroy())
  socket.write(`CONNECT localhost:${port} HTTP/1.1\r\nHost: localhost:${port}\r\n\r\n`)
  const [answer] = await once(socket, 'data')
  assert.match(String(answer), /^HTTP\/1\.1 200 /)
  return socket
}

suite('proxy serve', () => {
  test('prints the listeners with their real ports, then ready', async (t) => {
    const { printed } = await openEgressWorkspace(t).serve()
    assert.equal(printed.length, 3)
    assert.match(printed[0] ?? '', /^forward 127\.0\.0\.1:[1-9]\d*$/)
    assert.match(printed[1] ?? '', /^admin 127\.0\.0\.1:[1-9]\d*$/)
  })
  test('serves registered hosts and denies the rest, with a log line each', async (t) => {
    const serving = await openEgressWorkspace(t).serve()
    await serving.register(['localhost'])
    const port = await silentServer(t)
    const socket = await tunnel(t, serving, port)
    socket.end()
    const [host, proxyPort] = (serving.listeners.get('forward') ?? '').split(':')
    const denied = connect(Number(proxyPort), host)
    denied.write('CONNECT evil.example:443 HTTP/1.0\r\n\r\n')
    const [answer] = await once(denied, 'data')
    assert.match(String(answer), /^HTTP\/1\.1 403 Forbidden by egress-proxy \(host not in allowlist\)\r\n/)
    denied.destroy()
    serving.child.kill('SIGTERM')
    assert.deepEqual(await serving.ended(), { code: 0, signal: null })
    const lines = serving.logged().filter(({ mode }) => mode === 'connect')
    assert.deepEqual(lines.map(({ verdict, host, id }) => [verdict, host, id]).sort(), [
      ['allow', 'localhost', 'test'],
      ['deny', 'evil.example', 'test'],
    ])
  })
  test('lowers the priority of Node’s helper threads', needs('kernel'), async (t) => {
    const { child } = await openEgressWorkspace(t).serve()
    const read = (id: string, file: string): string => readFileSync(`/proc/${child.pid}/task/${id}/${file}`, 'utf8')
    const threads = readdirSync(`/proc/${child.pid}/task`).map((id) => {
      // The name in parentheses may contain anything; the niceness is the 17th number after it.
      const numbers = read(id, 'stat').split(') ').at(-1)?.split(' ') ?? []
      return { name: read(id, 'comm').trim(), nice: Number(numbers[16]) - getPriority() }
    })
    const [helpers, others] = [true, false].map((isHelper) =>
      threads.filter(({ name }) => (name === 'node-V8Worker') === isHelper),
    )
    assert.deepEqual(new Set(helpers?.map(({ nice }) => nice)), new Set([5]))
    assert.deepEqual(new Set(others?.map(({ nice }) => nice)), new Set([0]))
  })
  test('runs with only the admin or only the forward listener', async (t) => {
    const workspace = openEgressWorkspace(t)
    const admin = await workspace.serve('--listen', '')
    assert.deepEqual([...admin.listeners.keys()], ['admin'])
    assert.deepEqual(await health(admin), { status: 'ok', proxy: 'disabled' })
    const forward = await workspace.serve('--admin', '')
    assert.deepEqual([...forward.listeners.keys()], ['forward'])
  })
  test('refuses to run without any listener', (t) => {
    const { code, stdout, stderr } = openEgressWorkspace(t).run(
      ...['proxy', 'serve', '--listen', '', '--admin', '', '--transparent', ''],
    )
    assert.deepEqual([code, stdout], [1, ''])
    assert.match(stderr, /^egress-proxy: nothing to listen on: every listener is switched off\nhint: give one of/)
  })
  test('prefers a flag over a variable and a variable over the file, and logs the path of the file', async (t) => {
    const workspace = openEgressWorkspace(t, { EGRESS_TRANSPARENT_ADDR: '', EGRESS_ADMIN_ADDR: '127.0.0.1:0' })
    const file = join(workspace.dir, 'egress.toml')
    writeFileSync(
      file,
      '[proxy]\nlisten = "127.0.0.1:1"\nadmin_listen = "127.0.0.1:1"\ntransparent_listen = "127.0.0.1:1"\nlisten_ = 1\n',
    )
    const child = workspace.start('proxy', 'serve', '--config', file, '--listen', '127.0.0.1:0')
    let [said, log] = ['', '']
    child.stdout.on('data', (chunk) => {
      said += chunk
      if (said.includes('ready')) child.kill('SIGTERM')
    })
    child.stderr.on('data', (chunk) => {
      log += chunk
    })
    await once(child, 'close')
    assert.equal(child.exitCode, 0, log)
    assert.deepEqual(
      said.split('\n').map((line) => line.split(' ')[0]),
      ['forward', 'admin', 'ready', ''],
    )
    assert.match(log, /"level":"warn"[^\n]*\[proxy\] listen_ in [^\n]* line 5 is an unknown key; did you mean/)
    assert.ok(log.includes(`"config":${JSON.stringify(file)}`), log)
  })
  test('warns about a missing file', async (t) => {
    const serving = await openEgressWorkspace(t).serve('--config', '/nowhere/egress.toml')
    await serving.untilLogged('there is no file /nowhere/egress.toml, which --config names: the defaults are used')
  })
  test('refuses --transparent with io net, with exit code 1', async (t) => {
    const workspace = openEgressWorkspace(t, { EGRESS_IO: 'net' })
    const none = ['--listen', '127.0.0.1:0', '--admin', '']
    const { code, stderr } = workspace.run('proxy', 'serve', ...none, '--transparent', '127.0.0.1:0')
    assert.equal(code, 1)
    assert.match(stderr, /egress-proxy: no transparent listener can be opened: it needs Linux, /)
  })
  test('warns about an admin listener without a secret', async (t) => {
    const serving = await openEgressWorkspace(t).serve()
    await until(() => serving.logged().some(({ msg }) => String(msg).startsWith('EGRESS_ADMIN_SECRET is not set')))
  })
  for (const [flag, name] of [
    ['--listen', 'forward'],
    ['--admin', 'admin'],
    ['--transparent', 'transparent'],
  ] as const)
    test(`reports that the port of ${flag} is in use, with exit code 1, and leaves nothing running`, async (t) => {
      const workspace = openEgressWorkspace(t)
      const taken = `127.0.0.1:${await silentServer(t)}`
      const others = ['--listen', '--admin', '--transparent'].filter((each) => each !== flag)
      const { code, stdout, stderr } = workspace.run(
        'proxy',
        'serve',
        flag,
        taken,
        ...others.flatMap((each) => [each, '']),
      )
      assert.deepEqual([code, stdout], [1, ''])
      const said = `egress-proxy: the ${name} listener cannot listen on ${taken}: the port is in use\nhint: set ${flag} or EGRESS_`
      assert.ok(stderr.includes(said), stderr)
    })
  test('names the wrong flag and the wrong variable, with exit code 1', (t) => {
    const flag = openEgressWorkspace(t).run('proxy', 'serve', '--listen', 'x')
    assert.equal(flag.code, 1)
    assert.match(flag.stderr, /^egress-proxy: --listen .* must be host:port such as .*, not "x"\nusage: /)
    const variable = openEgressWorkspace(t, { EGRESS_DENY_PRIVATE: 'maybe' }).run('proxy', 'serve')
    assert.equal(variable.code, 1)
    assert.match(
      variable.stderr,
      /^egress-proxy: EGRESS_DENY_PRIVATE in the environment must be true or false, not "maybe"/,
    )
  })
})

suite('signals', () => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const)
    test(`shuts down gracefully on ${signal}, with exit code 0`, async (t) => {
      const serving = await openEgressWorkspace(t).serve()
      serving.child.kill(signal)
      assert.deepEqual(await serving.ended(), { code: 0, signal: null })
      assert.ok(serving.logged().some((line) => line.signal === signal))
    })
  test('lets connections in progress finish', async (t) => {
    const serving = await openEgressWorkspace(t).serve()
    await serving.register(['localhost'])
    const socket = await tunnel(t, serving, await silentServer(t))
    serving.child.kill('SIGTERM')
    await serving.untilLogged('the proxy is stopping')
    assert.equal(serving.child.exitCode, null)
    socket.destroy()
    assert.deepEqual(await serving.ended(), { code: 0, signal: null })
  })
  test('exits at once on a second signal of either kind', async (t) => {
    const serving = await openEgressWorkspace(t).serve()
    await serving.register(['localhost'])
    await tunnel(t, serving, await silentServer(t))
    serving.child.kill('SIGTERM')
    await serving.untilLogged('the proxy is stopping')
    serving.child.kill('SIGINT')
    assert.deepEqual(await serving.ended(), { code: null, signal: 'SIGINT' })
  })
  test('logs SIGHUP and changes nothing', async (t) => {
    const serving = await openEgressWorkspace(t).serve()
    serving.child.kill('SIGHUP')
    await serving.untilLogged('SIGHUP is ignored: settings are read at start, and the registry is always current')
    assert.deepEqual(await health(serving), { status: 'ok' })
  })
})

suite('streams', () => {
  for (const redirect of ['>&-', '>/dev/full', '> >(head -1)', '2>&-', '2>/dev/full', '2> >(head -1)'])
    test(`keeps running with ${redirect}, and stops on a signal`, async (t) => {
      const serve = `exec "$0" "$1" proxy serve --listen 127.0.0.1:0 --admin '' --transparent '' ${redirect}`
      const child = spawn('bash', ['-c', serve, process.execPath, EGRESS_PROXY], { env: openEgressWorkspace(t).env })
      t.after(() => void child.kill('SIGKILL'))
      // Each of the two reports it in its own way, and one of them is present.
      const said = redirect.startsWith('2') ? child.stdout : child.stderr
      let text = ''
      said.on('data', (chunk) => {
        text += chunk
      })
      await until(() => text.includes('ready'))
      child.kill('SIGTERM')
      await once(child, 'exit')
      assert.deepEqual([child.exitCode, child.signalCode], [redirect === '>/dev/full' ? 1 : 0, null], text)
    })
})
