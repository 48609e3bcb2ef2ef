// A hundred thousand tunnels that end in every way a tunnel can end: each as its client expects, and nothing left of them in
// the proxy, neither memory nor descriptors. And a proxy that has no descriptors left.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { suite, type TestContext, test } from 'node:test'
import { promisify } from 'node:util'
import { build, type Origin, openOrigin } from '../../bench/egress/load.ts'
import { needs } from '../support/needs.ts'
import { tempDir } from '../support/temp.ts'
import { until } from '../support/until.ts'
import { connectionsOf, openFiles, residentMib, startWatchedEgress } from '../support/watched-egress.ts'

const WARM = 2000
const FIRST = 20_000
const ALL = 100_000
const FLIGHT = 64
/** These never send a whole head; the proxy ends them after ten seconds. */
const SILENT = 200
const ADDRESSES = 16
/** A heap that is swept often shows what is kept. It still breathes by ten or twenty; 400 bytes a tunnel would make 30 more. */
const SWEPT_OFTEN = ['--max-semi-space-size=1', '--heap-growing-percent=5']
const GROWTH_MIB = 32
const FEW_FILES = 64
const CROWD = 100

const options = process.platform === 'linux' ? needs('compiler') : { skip: 'only Linux has a /proc' }

async function originOf(t: TestContext, folder: string): Promise<Origin> {
  const origin = await openOrigin(build('origin', folder))
  t.after(() => origin.stop())
  return origin
}

/** Connections that say nothing. Those that the proxy does not take wait in the kernel. */
async function crowd(t: TestContext, port: number): Promise<Socket[]> {
  const sockets = Array.from({ length: CROWD }, () => connect(port, '127.0.0.1').on('error', () => {}))
  t.after(() => sockets.forEach((socket) => void socket.destroy()))
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  return sockets
}

async function statusOfConnect(port: number, target: string): Promise<string> {
  const socket = connect(port, '127.0.0.1').on('error', () => {})
  socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`)
  // Broken off before it is answered, it has none.
  const head: Buffer[] = await Promise.race([once(socket, 'data'), once(socket, 'close').then(() => [])]).catch(
    () => [],
  )
  socket.destroy()
  return String(head[0] ?? '').slice(9, 12)
}

suite('a long life', options, () => {
  test('R8: 100,000 tunnels, aborted at every phase, leave neither memory nor descriptors behind', async (t) => {
    const folder = tempDir(t)
    const [program, origin] = [build('soak', folder), await originOf(t, folder)]
    const proxy = await startWatchedEgress(t, { flags: SWEPT_OFTEN })
    for (let last = 1; last <= ADDRESSES; last++) await proxy.register(`127.0.0.${last}`, ['localhost'])
    const seed = Math.floor(Math.random() * 2 ** 31)
    t.diagnostic(`seed ${seed}`)
    const soak = async (count: number, silent = 0): Promise<Record<string, number>> => {
      const ports = ['echo', 'reset', 'half'].map((kind) => `${kind}=${origin.ports(kind)}`)
      const numbers = { count, silent, flight: FLIGHT, seed: seed + count, proxy: proxy.port, sources: ADDRESSES }
      const given = Object.entries(numbers).map(([name, value]) => `${name}=${value}`)
      return JSON.parse((await promisify(execFile)(program, [...given, ...ports])).stdout)
    }
    const [proxyFiles, originFiles] = [openFiles(proxy.pid), openFiles(origin.pid)]
    const settled = async (): Promise<void> => {
      const isSettled = (): boolean => openFiles(proxy.pid) <= proxyFiles && openFiles(origin.pid) <= originFiles
      await until(isSettled).catch(() => {
        const [left, there] = [connectionsOf(proxy.pid), connectionsOf(origin.pid)]
        assert.fail(`left open in the proxy: ${left.join('; ')}; at the origin: ${there.join('; ')}`)
      })
    }

    await soak(WARM)
    await settled()
    const startedAt = performance.now()
    const early = await soak(FIRST, SILENT)
    await settled()
    const afterFirst = residentMib(proxy.pid)
    const late = await soak(ALL - FIRST)
    await settled()
    const growth = residentMib(proxy.pid) - afterFirst
    t.diagnostic(`${((performance.now() - startedAt) / 1000).toFixed(0)} s: ${JSON.stringify(late)}`)
    t.diagnostic(`${afterFirst.toFixed(0)} MiB after ${FIRST}, ${growth.toFixed(1)} more after ${ALL}`)

    assert.equal(early.silent, SILENT)
    const ends = [early, late].flatMap((each) => Object.values(each)).reduce((sum, each) => sum + each, 0)
    assert.equal(ends, ALL + SILENT)
    assert.ok(growth < GROWTH_MIB, `it grew by ${growth} MiB`)
    assert.equal(await proxy.stop(), 0)
  })

  test('R3: with few descriptors it turns a crowd away, keeps some for itself, and goes on when the crowd is gone', async (t) => {
    const origin = await originOf(t, tempDir(t))
    const env = { EGRESS_MAX_CONNECTIONS: '1000', EGRESS_MAX_PER_SOURCE: '1000' }
    const proxy = await startWatchedEgress(t, { files: FEW_FILES, env })
    await proxy.register('127.0.0.1', ['localhost'])
    const target = `localhost:${origin.ports('echo').split(',')[0]}`
    assert.equal(await statusOfConnect(proxy.port, target), '200')
    const before = openFiles(proxy.pid)

    const waiting = await crowd(t, proxy.port)
    await until(async () => (await statusOfConnect(proxy.port, target)) !== '200')
    assert.ok(openFiles(proxy.pid) < FEW_FILES)
    for (const socket of waiting) socket.destroy()
    await until(async () => (await statusOfConnect(proxy.port, target)) === '200')
    await until(() => openFiles(proxy.pid) <= before)
    assert.equal(await proxy.stop(), 0)
  })
})
