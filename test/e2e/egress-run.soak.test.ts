// `egress-proxy run` with a real container engine: what a workload can reach, and that nothing remains afterwards.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { after, before, suite, test } from 'node:test'
import { buildImage, type ContainerEngine, openContainerEngine } from '../support/container-engine.ts'
import type { Reached } from '../support/egress-world.ts'
import { needs } from '../support/needs.ts'
import { tempDir } from '../support/temp.ts'
import { until } from '../support/until.ts'

const BIN = join(import.meta.dirname, '..', '..', 'bin', 'egress-proxy.js')
const SUPPORT = join(import.meta.dirname, '..', 'support')
const WORLD = '192.0.2.80'

/** Passed on stdin, so that the image needs no files of this repository. */
const PROBE = readFileSync(join(SUPPORT, 'egress-probe.ts'), 'utf8')

suite('egress-proxy run with a real engine', needs('root', 'engine'), () => {
  const reached: Reached[] = []
  let engine: ContainerEngine
  let world: ChildProcess
  // Registered first, so that the engine stops before its folder is deleted.
  after(async () => {
    world?.stdin?.end()
    await engine?.stop()
  })
  const folder = tempDir({ after })

  before(async () => {
    engine = await openContainerEngine(folder, [`${WORLD}/32`, '169.254.169.254/32', '2001:db8::80/128'])
    const [command = '', ...args] = engine.inside([process.execPath, join(SUPPORT, 'egress-world.ts'), WORLD])
    world = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] })
    if (world.stdout) createInterface({ input: world.stdout }).on('line', (line) => reached.push(JSON.parse(line)))
    await buildImage(engine, folder, 'egress-proxy:latest')
    await until(() => reached.some(({ kind }) => kind === 'ready'))
  })

  const start = (args: readonly string[], settings: Record<string, string> = {}): ChildProcess =>
    spawn(process.execPath, [BIN, 'run', ...args], {
      env: { ...process.env, XDG_CACHE_HOME: folder, ...engine.environment, ...settings },
    })
  const end = async (child: ChildProcess, input = '') => {
    const { stdin, stdout, stderr } = child
    if (!stdin || !stdout || !stderr) return assert.fail('the process has no pipes')
    stdin.on('error', () => undefined).end(input)
    const [[code], out, err] = await Promise.all([once(child, 'exit'), text(stdout), text(stderr)])
    return { code, stdout: out, stderr: err }
  }
  const run = (args: readonly string[], settings?: Record<string, string>, input?: string) =>
    end(start(args, settings), input)
  /** Remaining containers and networks of runs. */
  const listLeftovers = async (): Promise<string> => {
    const label = ['--filter', 'label=egress-proxy.run']
    const containers = await engine.docker('ps', '--all', '--quiet', ...label)
    return `${containers}${await engine.docker('network', 'ls', '--quiet', ...label)}`
  }
  const paths = (): string[] => reached.flatMap((each) => (each.kind === 'web' ? [each.path] : []))
  const names = (): string[] => reached.flatMap((each) => (each.kind === 'name' ? [each.name] : []))
  const packets = (): number => reached.filter(({ kind }) => kind === 'packet').length

  suite('a workload that tries to escape', () => {
    const outcome = new Map<string, string>()
    before(async () => {
      reached.length = 0
      const probe = ['node', '--input-type=module-typescript', '-', WORLD, '10.88.0.1', '10.88.0.2']
      const { code, stdout, stderr } = await run(['--allow', 'allowed.test', '--', ...probe], {}, PROBE)
      assert.equal(code, 0, stderr)
      for (const [name, value] of Object.entries(JSON.parse(stdout))) outcome.set(name, String(value))
    })
    const is = (name: string, expected: string | RegExp): void =>
      assert.match(
        outcome.get(name) ?? 'not tried',
        expected instanceof RegExp ? expected : new RegExp(`^${expected}$`),
      )
    /** curl exit codes: name not resolved, connection failed, timeout, interface error. */
    const failed = /^fault (6|7|28|45)$/

    test('reaches an allowed host through the proxy', () => {
      is('allowed', 'from the world 200')
      assert.ok(
        reached.some((each) => each.kind === 'web' && each.path === '/through' && each.via.includes('egress-proxy')),
      )
    })
    test('is denied any other host, without a DNS lookup', () => {
      is('denied', /not allowed for "run".* 403$/)
      is('denied tunnel', /^fault 56|403/)
      assert.deepEqual(
        names().filter((name) => !name.endsWith('allowed.test')),
        [],
      )
    })
    test('E28: reaches nothing without the proxy, neither by name nor by address', () => {
      is('allowed without the proxy', failed)
      is('address without the proxy', failed)
      is('address by the interface', failed)
      assert.deepEqual(paths(), ['/through'])
    })
    test('has no default route', () => is('default routes', 'none'))
    test('is denied an address through the proxy', () => is('address through the proxy', /only host names.* 403$/))
    test('reaches no metadata service', () => {
      is('metadata', failed)
      is('metadata through the proxy', / 403$/)
    })
    test('A18: reaches no service of the host at the gateway or any other address', () => {
      is('gateway', failed)
      is('bridge of the engine', failed)
    })
    test('A1, E29: does not reach the admin listener', () => {
      is('admin', failed)
      is('admin through the proxy', / 403$|^fault 7$/)
      is('admin by its name', / 403$/)
    })
    test('E28: sends no UDP packet out', () => assert.equal(packets(), 0))
    test('A20: has no IPv6', () => {
      is('IPv6', failed)
      is('addresses of IPv6', '')
    })
    test('A17: the DNS server of the engine neither answers nor forwards queries', () => {
      is('name', 'nothing')
      assert.ok(!names().includes('leak.test'))
    })
    test('A19: cannot change routes or addresses', () => {
      is('route', /Operation not permitted/)
      is('address of its own choice', /Operation not permitted/)
    })
    test('cannot create an AF_VSOCK socket, which would reach the host of a virtual machine', () => {
      is('local socket', 'made refused')
      is('vsock socket', 'refused refused')
    })
    test('does not see the hosts file of the machine', () => {
      assert.doesNotMatch(outcome.get('hosts file') ?? 'private-name', /private-name/)
      is('hosts file', /^127\.0\.0\.1\s+localhost$/m)
    })
    test('E30: cannot use another source address', () => {
      is('source of its own choice', failed)
      const bits = BigInt(`0x${outcome.get('privileges it could have')}`)
      for (const bit of [12n, 13n])
        assert.equal((bits >> bit) & 1n, 0n, 'NET_ADMIN and NET_RAW are not in the bounding set')
      is('new privileges barred', '1')
    })
  })

  test('control: an ordinary container reaches all of these targets', async () => {
    reached.length = 0
    const script = `curl --silent http://${WORLD}/control && curl --silent http://172.17.0.1/gateway`
    const ordinary = ['run', '--rm', 'egress-proxy:latest', 'sh', '-c']
    assert.equal(await engine.docker(...ordinary, script), 'from the world\nfrom the world')
    const packet = `const s = require('dgram').createSocket('udp4'); s.send('x', 4433, '${WORLD}', () => s.close())`
    await engine.docker('run', '--rm', 'egress-proxy:latest', 'node', '-e', packet)
    await until(() => packets() > 0)
    assert.deepEqual(paths(), ['/control', '/gateway'])
    await engine.docker('network', 'create', 'outside')
    await engine.docker('run', '--rm', '--network', 'outside', 'egress-proxy:latest', 'getent', 'hosts', 'control.test')
    await until(() => names().includes('control.test'))
  })

  test('passes through input, output and exit code of the workload', async () => {
    const { code, stdout, stderr } = await run(
      ['--allow', '', '--', 'sh', '-c', 'cat; echo no >&2; exit 42'],
      {},
      'through',
    )
    assert.deepEqual({ code, stdout, stderr }, { code: 42, stdout: 'through', stderr: 'no\n' })
    assert.equal(await listLeftovers(), '')
  })

  test('concurrent runs have separate networks and allowlists', async () => {
    const fetch = (host: string): string =>
      `curl --silent --output /dev/null --write-out '%{http_code} ' http://${host}/`
    const script = ['sh', '-c', `${fetch('a.test')}; ${fetch('b.test')}`]
    const [one, other] = await Promise.all([
      run(['--allow', 'a.test', '--', ...script]),
      run(['--allow', 'b.test', '--', ...script], { EGRESS_NETWORK: 'outside' }),
    ])
    assert.deepEqual([one.stdout, one.stderr], ['200 403 ', ''])
    assert.deepEqual([other.stdout, other.stderr], ['403 200 ', ''])
    assert.equal(await listLeftovers(), '')
  })

  test('leaves nothing behind after a missing command, a directory as command, or a missing network', async () => {
    const ended = await Promise.all([
      run(['--allow', '', '--', 'no-such-command']),
      run(['--allow', '', '--', '/etc']),
      run(['--allow', '', '--', 'env'], { EGRESS_NETWORK: 'no-such-network' }),
    ])
    assert.deepEqual(
      ended.map(({ code }) => code),
      [127, 126, 125],
    )
    assert.deepEqual(
      ended.slice(0, 2).map(({ stderr }) => stderr),
      [
        'egress-proxy: no command "no-such-command" in the image egress-proxy:latest\n',
        'egress-proxy: "/etc" in the image egress-proxy:latest is not executable\n',
      ],
    )
    assert.match(ended[2].stderr, /no-such-network/)
    assert.equal(await listLeftovers(), '')
  })

  const waiting = ['sh', '-c', 'trap "exit 77" INT; echo up; while :; do sleep 0.1; done']

  const onTerminal = (script: string) => {
    const line = [process.execPath, BIN, 'run', '--allow', '', '--', 'sh', '-c', script]
      .map((word) => `'${word}'`)
      .join(' ')
    return spawn('script', ['--quiet', '--return', '--command', line, '/dev/null'], {
      env: { ...process.env, XDG_CACHE_HOME: folder, ...engine.environment },
    })
  }

  test('on a terminal prints denials until the workload ends', async () => {
    const child = onTerminal('curl --silent --output /dev/null http://denied.test/; exit 7')
    const [[code], output] = await Promise.all([once(child, 'close'), text(child.stdout)])
    assert.equal(code, 7, output)
    assert.match(output, /^egress-proxy: denied: denied\.test:80\r?\n$/)
    assert.equal(await listLeftovers(), '')
  })

  test('on a terminal the workload has a terminal and receives Ctrl-C', async () => {
    const child = onTerminal(`[ -t 0 ] && [ -t 1 ] && ${waiting[2]}`)
    let output = ''
    child.stdout.on('data', (part) => {
      if (!output.includes('up') && `${output}${part}`.includes('up')) child.stdin.write('\x03')
      output += part
    })
    const [code] = await once(child, 'close')
    assert.equal(code, 77, output)
    assert.doesNotMatch(output, /denied/)
    assert.equal(await listLeftovers(), '')
  })

  test('forwards SIGINT to the workload, returns its exit code, and leaves nothing behind', async () => {
    const child = start(['--allow', '', '--', ...waiting])
    child.stdout?.once('data', () => child.kill('SIGINT'))
    assert.equal((await end(child)).code, 77)
    assert.equal(await listLeftovers(), '')
  })

  test('SIGTERM ends a workload without a handler at once', async () => {
    const child = start(['--allow', '', '--', 'sh', '-c', 'echo up; exec sleep 600'])
    let signalledAt = 0
    child.stdout?.once('data', () => {
      signalledAt = performance.now()
      child.kill('SIGTERM')
    })
    assert.equal((await end(child)).code, 143)
    // A workload is killed only after ten seconds.
    assert.ok(performance.now() - signalledAt < 10_000)
    assert.equal(await listLeftovers(), '')
  })

  test('A14: leaves nothing behind after kill -9', async () => {
    const child = start(['--allow', '', '--', ...waiting])
    child.stdout?.once('data', () => child.kill('SIGKILL'))
    // Not 'close': leftover processes could keep its output open.
    await once(child, 'exit')
    await until(async () => (await listLeftovers()) === '')
  })
})
