import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { clientHello } from '../../../test/support/client-hello.ts'
import { type EngineName, onEveryEngine, testHost } from '../../../test/support/host.ts'
import { needs } from '../../../test/support/needs.ts'
import { run as statement } from '../../../test/support/sql.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { until } from '../../../test/support/until.ts'
import type { ModelAddress } from '../../cell/network.ts'
import { networkRules } from '../../core/access/allowlist.ts'
import { networkDenials } from '../../core/access/network-denials.ts'
import { openLog } from '../../lib/log/log.ts'
import { networkRulesResource } from '../../resources/network-rules.ts'
import { RunNetworks } from './run-network.ts'

const { allow, deny } = networkRulesResource.verbs

/** Hands a listener over, prints its port, and waits for its input to end. */
const CHILD = `
import array, socket, sys
listener = socket.socket()
listener.bind(('127.0.0.1', 0))
listener.listen()
socket.socket(fileno=3).sendmsg([b'L'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [listener.fileno()]))])
print(listener.getsockname()[1], flush=True)
listener.detach()
sys.stdin.read()
`

interface Run {
  /** The response of the proxy to CONNECT; the connection stays open until `ended`. */
  connect(
    target: string,
  ): Promise<{ readonly status: number; readonly ended: Promise<unknown>; readonly socket: Socket }>
  close(): Promise<void>
}

async function open(t: TestContext, engine: EngineName, settings: { denyPrivate?: boolean } = {}) {
  const on = await testHost(t, engine)
  await on.groups('main', 'team', 'team/sub')
  const hostsPath = join(tempDir(t), 'hosts')
  writeFileSync(hostsPath, '127.0.0.1 one.test two.test below.one.test\n')
  const logged: string[] = []
  const log = await openLog({ to: { write: (line) => logged.push(line) } })
  const networks = new RunNetworks({ host: on.host, log, denyPrivate: false, dns: { hostsPath }, ...settings })
  t.after(() => networks.close())
  const origin = createServer((socket) => socket.on('error', () => undefined).write('hello'))
  origin.listen(0, '127.0.0.1')
  await once(origin, 'listening')
  t.after(() => origin.close())
  const { port } = origin.address() as { port: number }
  const run = async (folder: string, endpoint?: ModelAddress): Promise<Run> => {
    const network = await networks.open(folder, endpoint)
    const child = spawn('python3', ['-c', CHILD], { stdio: ['pipe', 'pipe', 'inherit', network.handover] })
    t.after(() => child.kill('SIGKILL'))
    network.release()
    const [text] = await once(child.stdout?.setEncoding('utf8') ?? assert.fail('it has an output'), 'data')
    const proxy = Number(text)
    return {
      connect: async (target) => {
        const socket = connect(proxy, '127.0.0.1')
        t.after(() => socket.destroy())
        socket.on('error', () => undefined)
        const ended = new Promise((resolve) => socket.once('close', resolve))
        socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`)
        const [answer] = await once(socket.setEncoding('latin1'), 'data')
        socket.resume()
        return { status: Number(String(answer).split(' ')[1]), ended, socket }
      },
      close: () => network.close(),
    }
  }
  return { on, run, port, networks, logged }
}

onEveryEngine('the network of runs', (engine) => {
  test('allows what the rules of the folder and its parents allow', needs('kernel', 'python'), async (t) => {
    const { on, run, port } = await open(t, engine)
    await on.cli.call(allow, { folder: 'team', target: 'one.test' })
    const [team, sub, main] = [await run('team'), await run('team/sub'), await run('main')]
    for (const each of [team, sub]) {
      assert.equal((await each.connect(`one.test:${port}`)).status, 200)
      assert.equal((await each.connect(`below.one.test:${port}`)).status, 200)
      assert.equal((await each.connect(`two.test:${port}`)).status, 403)
      assert.equal((await each.connect(`127.0.0.1:${port}`)).status, 403)
    }
    assert.equal((await main.connect(`one.test:${port}`)).status, 403)
  })

  test('applies rule changes at once, also to open connections', needs('kernel', 'python'), async (t) => {
    const { on, run, port } = await open(t, engine)
    const team = await run('team')
    assert.equal((await team.connect(`one.test:${port}`)).status, 403)
    await on.cli.call(allow, { folder: 'team', target: 'one.test' })
    await until(async () => (await team.connect(`one.test:${port}`)).status === 200)
    const tunnel = await team.connect(`one.test:${port}`)
    await on.cli.call(deny, { folder: 'team', target: 'one.test' })
    await tunnel.ended
    assert.equal((await team.connect(`one.test:${port}`)).status, 403)
  })

  test('applies rule changes to a run that starts after the proxy was idle', needs('kernel', 'python'), async (t) => {
    const { on, run, port } = await open(t, engine)
    await (await run('team')).close()
    await on.cli.call(allow, { folder: 'team', target: 'one.test' })
    const second = await run('team')
    const tunnel = await second.connect(`one.test:${port}`)
    assert.equal(tunnel.status, 200)
    await on.cli.call(deny, { folder: 'team', target: 'one.test' })
    await tunnel.ended
  })

  test('denies all hosts when the rules cannot be read', needs('kernel', 'python'), async (t) => {
    const { on, run, port, logged } = await open(t, engine)
    await on.cli.call(allow, { folder: 'team', target: 'one.test' })
    const before = await run('team')
    const tunnel = await before.connect(`one.test:${port}`)
    assert.equal(tunnel.status, 200)
    await on.host.engine.transaction((tx) => statement(tx, 'drop table network_rules'))
    await on.host.engine.transaction((tx) => statement(tx, "update network_stamp set stamp = 'moved'"))
    on.host.signals.emit()
    await tunnel.ended
    assert.equal((await (await run('team')).connect(`one.test:${port}`)).status, 403)
    assert.ok(logged.some((line) => line.includes('all hosts are denied')))
  })

  test('records denied hosts with a count', needs('kernel', 'python'), async (t) => {
    const { on, run, networks } = await open(t, engine)
    const team = await run('team')
    for (let n = 0; n < 3; n++) assert.equal((await team.connect('two.test:443')).status, 403)
    await networks.close()
    const rows = await on.host.engine.read((tx) => networkDenials.list(tx))
    assert.deepEqual(
      rows.map(({ folder, host, port, reason, count }) => [folder, host, port, reason, count]),
      [['team', 'two.test', 443, 'blocked-by-allowlist', 3]],
    )
  })

  test(
    'records the server name of a TLS hello that was refused inside a tunnel',
    needs('kernel', 'python'),
    async (t) => {
      const { on, run, port, networks, logged } = await open(t, engine)
      await on.cli.call(allow, { folder: 'team', target: 'one.test' })
      const tunnel = await (await run('team')).connect(`one.test:${port}`)
      tunnel.socket.write(clientHello({ sni: 'two.test' }))
      await tunnel.ended
      await networks.close()
      const rows = await on.host.engine.read((tx) => networkDenials.list(tx))
      assert.deepEqual(
        rows.map(({ folder, host, sni, reason, count }) => [folder, host, sni, reason, count]),
        [['team', 'one.test', 'two.test', 'sni-denied', 1]],
      )
      assert.ok(logged.some((line) => line.includes('"sni":"two.test"')))
    },
  )

  test('lets a run reach its model at its exact address', needs('kernel', 'python'), async (t) => {
    const { run, port } = await open(t, engine, { denyPrivate: true })
    const model = { host: '127.0.0.1', port, mayBePrivate: true }
    const own = await run('team', model)
    assert.equal((await own.connect(`127.0.0.1:${port}`)).status, 200)
    assert.equal((await own.connect(`127.0.0.1:${port + 1}`)).status, 403)
    assert.equal((await own.connect(`localhost:${port}`)).status, 403)
    const personal = await run('team', { ...model, mayBePrivate: false })
    assert.equal((await personal.connect(`127.0.0.1:${port}`)).status, 403)
    const named = await run('team', { host: 'one.test', port, mayBePrivate: false })
    assert.equal((await named.connect(`one.test:${port}`)).status, 403)
  })

  test('refuses allowed names that resolve to private addresses', needs('kernel', 'python'), async (t) => {
    const { on, run, port } = await open(t, engine, { denyPrivate: true })
    await on.cli.call(allow, { folder: 'team', target: 'one.test' })
    assert.equal((await (await run('team')).connect(`one.test:${port}`)).status, 403)
  })

  test('ignores a rule that the proxy does not accept', needs('kernel', 'python'), async (t) => {
    const { on, run, port, logged } = await open(t, engine)
    const row = { folder: 'team', target: 'com', created_at: '2026-01-01T00:00:00.000Z', created_by: 'cli' }
    await on.host.engine.transaction((tx) => networkRules.insert(tx, row))
    await on.cli.call(allow, { folder: 'team', target: 'one.test' })
    assert.equal((await (await run('team')).connect(`one.test:${port}`)).status, 200)
    assert.ok(logged.some((line) => line.includes('ignored an invalid network rule')))
  })

  test('closes the connections of a run when it ends', needs('kernel', 'python'), async (t) => {
    const { on, run, port } = await open(t, engine)
    await on.cli.call(allow, { folder: 'team', target: 'one.test' })
    const [one, other] = [await run('team'), await run('team')]
    const tunnels = [await one.connect(`one.test:${port}`), await other.connect(`one.test:${port}`)]
    await one.close()
    await tunnels[0]?.ended
    let isOver = false
    void tunnels[1]?.ended.then(() => {
      isOver = true
    })
    assert.equal((await other.connect(`one.test:${port}`)).status, 200)
    assert.equal(isOver, false)
  })
})
