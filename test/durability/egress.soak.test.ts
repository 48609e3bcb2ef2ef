// A hundred thousand tunnels that end in every possible way: each ends as its client expects, and the proxy keeps neither
// memory nor descriptors. Also a proxy that runs out of descriptors.
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

const WARM_UP_TUNNELS = 2000
const FIRST_TUNNELS = 10_000
const ALL_TUNNELS = 40_000
const IN_FLIGHT = 64
/** Clients that never send complete headers; the proxy closes them after ten seconds. */
const SILENT_CLIENTS = 200
const ADDRESSES = 16
/** Frequent garbage collection. The heap still varies by 10 to 20 MiB; a leak of 400 bytes per tunnel would add 30 MiB. */
const FREQUENT_GC = ['--max-semi-space-size=1', '--heap-growing-percent=5']
const GROWTH_MIB = 32
const FEW_FILES = 64
const CROWD = 100

const options = process.platform === 'linux' ? needs('compiler') : { skip: 'needs /proc, which only Linux has' }

async function originOf(t: TestContext, folder: string): Promise<Origin> {
  const origin = await openOrigin(build('origin', folder))
  t.after(() => origin.stop())
  return origin
}

/** Opens silent connections. Those that the proxy does not accept wait in the kernel. */
async function openCrowd(t: TestContext, port: number): Promise<Socket[]> {
  const sockets = Array.from({ length: CROWD }, () => connect(port, '127.0.0.1').on('error', () => {}))
  t.after(() => sockets.forEach((socket) => void socket.destroy()))
  await Promise.all(sockets.map((socket) => once(socket, 'connect')))
  return sockets
}

async function statusOfConnect(port: number, target: string): Promise<string> {
  const socket = connect(port, '127.0.0.1').on('error', () => {})
  socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n`)
  // A connection closed without a response has no status.
  const head: Buffer[] = await Promise.race([once(socket, 'data'), once(socket, 'close').then(() => [])]).catch(
    () => [],
  )
  socket.destroy()
  return String(head[0] ?? '').slice(9, 12)
}

suite('the egress proxy', options, () => {
  test('R8: leaks neither memory nor descriptors in 40,000 tunnels aborted at every phase', async (t) => {
    const folder = tempDir(t)
    const [program, origin] = [build('soak', folder), await originOf(t, folder)]
    const proxy = await startWatchedEgress(t, { flags: FREQUENT_GC })
    for (let last = 1; last <= ADDRESSES; last++) await proxy.register(`127.0.0.${last}`, ['localhost'])
    const seed = Math.floor(Math.random() * 2 ** 31)
    t.diagnostic(`seed ${seed}`)
    const soak = async (count: number, silent = 0): Promise<Record<string, number>> => {
      const ports = ['echo', 'reset', 'half'].map((kind) => `${kind}=${origin.ports(kind)}`)
      const numbers = { count, silent, flight: IN_FLIGHT, seed: seed + count, proxy: proxy.port, sources: ADDRESSES }
      const given = Object.entries(numbers).map(([name, value]) => `${name}=${value}`)
      return JSON.parse((await promisify(execFile)(program, [...given, ...ports])).stdout)
    }
    const [proxyFiles, originFiles] = [openFiles(proxy.pid), openFiles(origin.pid)]
    const waitForRelease = async (): Promise<void> => {
      const isReleased = (): boolean => openFiles(proxy.pid) <= proxyFiles && openFiles(origin.pid) <= originFiles
      await until(isReleased).catch(() => {
        const [left, there] = [connectionsOf(proxy.pid), connectionsOf(origin.pid)]
        assert.fail(`left open in the proxy: ${left.join('; ')}; at the origin: ${there.join('; ')}`)
      })
    }

    await soak(WARM_UP_TUNNELS)
    await waitForRelease()
    const startedAt = performance.now()
    const early = await soak(FIRST_TUNNELS, SILENT_CLIENTS)
    await waitForRelease()
    const afterFirst = residentMib(proxy.pid)
    const late = await soak(ALL_TUNNELS - FIRST_TUNNELS)
    await waitForRelease()
    const growth = residentMib(proxy.pid) - afterFirst
    t.diagnostic(`${((performance.now() - startedAt) / 1000).toFixed(0)} s: ${JSON.stringify(late)}`)
    t.diagnostic(`${afterFirst.toFixed(0)} MiB after ${FIRST_TUNNELS}, ${growth.toFixed(1)} more after ${ALL_TUNNELS}`)

    assert.equal(early.silent, SILENT_CLIENTS)
    const ends = [early, late].flatMap((each) => Object.values(each)).reduce((sum, each) => sum + each, 0)
    assert.equal(ends, ALL_TUNNELS + SILENT_CLIENTS)
    assert.ok(growth < GROWTH_MIB, `the proxy grew by ${growth} MiB`)
    assert.equal(await proxy.stop(), 0)
  })

  test('R3: refuses connections when descriptors run out, keeps a reserve, and recovers', async (t) => {
    const origin = await originOf(t, tempDir(t))
    const env = { EGRESS_MAX_CONNECTIONS: '1000', EGRESS_MAX_PER_SOURCE: '1000' }
    const proxy = await startWatchedEgress(t, { files: FEW_FILES, env })
    await proxy.register('127.0.0.1', ['localhost'])
    const target = `localhost:${origin.ports('echo').split(',')[0]}`
    assert.equal(await statusOfConnect(proxy.port, target), '200')
    const before = openFiles(proxy.pid)

    const waiting = await openCrowd(t, proxy.port)
    await until(async () => (await statusOfConnect(proxy.port, target)) !== '200')
    assert.ok(openFiles(proxy.pid) < FEW_FILES)
    for (const socket of waiting) socket.destroy()
    await until(async () => (await statusOfConnect(proxy.port, target)) === '200')
    await until(() => openFiles(proxy.pid) <= before)
    assert.equal(await proxy.stop(), 0)
  })
})
