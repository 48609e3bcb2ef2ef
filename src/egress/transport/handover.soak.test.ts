// Attacks by a child process on its handover socket and its copy of the listener: only its own source may suffer.
import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { type HandoverKind, handOver, handOverEach } from '../../../test/support/handover-child.ts'
import { needs } from '../../../test/support/needs.ts'
import { leaveOpenFiles, openFileCount } from '../../../test/support/open-files.ts'
import { connectPeer, echo, openPeerServer, type Peer, untilStill } from '../../../test/support/raw-socket.ts'
import { until } from '../../../test/support/until.ts'
import { type EgressProxy, type ProxyOptions, type SocketSource, startProxy } from '../proxy.ts'
import { EpollTransport } from './epoll-transport.ts'
import { DescriptorReceiver, openSocketPair } from './handover.ts'
import { openKernel } from './kernel.ts'
import type { TcpConnection } from './transport.ts'

const LONG = { timeout: 15 * 60_000 }
const DENIED = 'CONNECT denied.test:443 HTTP/1.1\r\n\r\n'

interface Stage {
  readonly proxy: EgressProxy
  readonly lines: string[]
}

async function openStage(t: TestContext, options: ProxyOptions = {}): Promise<Stage> {
  const lines: string[] = []
  const proxy = await startProxy({ log: (text) => void lines.push(text), ...options })
  t.after(() => proxy.close())
  return { proxy, lines }
}

function openSource(proxy: EgressProxy, id = 'team/job'): Promise<SocketSource> {
  return proxy.openSource({ id, allowlist: ['localhost'] })
}

/** Expects 403, which shows that the proxy serves the listener. */
async function askDenied(t: TestContext, port: number): Promise<void> {
  const client = await connectPeer(t, port)
  client.send(DENIED)
  assert.match(await client.says('\r\n\r\n'), /^HTTP\/1\.1 403 /)
  client.socket.destroy()
}

/** Waits until no more files are open than `before`. */
async function untilClosed(before: number): Promise<void> {
  await until(() => openFileCount() <= before)
}

suite('a handover', needs('kernel', 'python'), () => {
  const HOSTILE: readonly [HandoverKind, RegExp][] = [
    ['pipe', /sent a descriptor that is not a listening TCP socket, so it cannot connect to anything/],
    ['udp', /sent a descriptor that is not a listening TCP socket, so it cannot connect to anything/],
    ['connected', /sent a descriptor that is not a listening TCP socket, so it cannot connect to anything/],
    ['bound', /sent a descriptor that is not a listening TCP socket, so it cannot connect to anything/],
    ['unix', /sent a descriptor that is not a listening TCP socket, so it cannot connect to anything/],
    ['words', /sent no descriptor, so it cannot connect to anything/],
  ]
  for (const [kind, warning] of HOSTILE)
    test(`of a descriptor that is not a listener (${kind}) is closed and logged`, async (t) => {
      const { proxy, lines } = await openStage(t)
      const other = await openSource(proxy)
      const { port } = await handOver(t, other, 'listener')
      await askDenied(t, port)
      const before = await untilStill(openFileCount)
      const source = await openSource(proxy, 'hostile')
      const child = await handOver(t, source, kind)
      await until(() => lines.some((line) => warning.test(line) && line.includes('hostile')))
      await child.end()
      await untilClosed(before)
      await source.close()
      await askDenied(t, port)
    })

  test('that ends before a descriptor was sent leaves nothing open and is not logged', async (t) => {
    const { proxy, lines } = await openStage(t)
    const before = openFileCount()
    const source = await openSource(proxy)
    const child = await handOver(t, source, 'end')
    await child.end()
    await untilClosed(before)
    await source.close()
    assert.deepEqual(
      lines.filter((line) => line.includes('team/job') && line.includes('sent')),
      [],
    )
  })

  for (const kind of ['two', 'twice', 'many'] as const)
    test(`of more than one descriptor (${kind}) takes only the first`, async (t) => {
      const { proxy } = await openStage(t)
      const before = openFileCount()
      const source = await openSource(proxy)
      const child = await handOver(t, source, kind)
      await askDenied(t, child.port)
      await child.end()
      // Only the listener is left.
      await until(() => openFileCount() === before + 1)
      await source.close()
      assert.equal(openFileCount(), before)
    })

  test('leaves nothing open after 200 rounds, with or without a listener', LONG, async (t) => {
    const { proxy } = await openStage(t)
    const before = openFileCount()
    for (let times = 0; times < 200; times++) {
      const source = await openSource(proxy)
      if (times % 2 === 0) source.release()
      await source.close()
    }
    assert.equal(openFileCount(), before)
    for (let times = 0; times < 4; times++) {
      const sources = await Promise.all(Array.from({ length: 50 }, () => openSource(proxy)))
      const child = await handOverEach(t, sources)
      if (times % 2 === 0) await child.end()
      await Promise.all(sources.map((source) => source.close()))
      await child.end()
    }
    await untilClosed(before)
  })
})

suite('a handed-over listener', needs('kernel', 'python'), () => {
  test('is closed after its owner shut it down, without busy polling', LONG, async (t) => {
    const { proxy } = await openStage(t)
    const source = await openSource(proxy)
    const before = openFileCount()
    const child = await handOver(t, source, 'shutdown')
    await askDenied(t, child.port)
    const open = await untilStill(openFileCount)
    child.child.stdin?.write('\n')
    assert.match(await child.nextLine(), /shutdown/)
    await until(() => openFileCount() === open - 1)
    const used = process.cpuUsage()
    const from = performance.now()
    await until(() => performance.now() - from >= 500)
    const { user, system } = process.cpuUsage(used)
    // Busy polling would use all of it.
    assert.ok((user + system) / 1000 < 400, `${(user + system) / 1000} ms`)
    await child.end()
    await source.close()
    await untilClosed(before)
  })

  test('made blocking by its owner stops the proxy only for a moment', LONG, async (t) => {
    const { proxy, lines } = await openStage(t)
    const [source, other] = [await openSource(proxy, 'hostile'), await openSource(proxy)]
    const { port } = await handOver(t, other, 'listener')
    const hostile = await handOver(t, source, 'blocking')
    // The child accepts some of these that the proxy expects, so the proxy's accept blocks.
    for (let times = 0; times < 20; times++) {
      const clients = await Promise.allSettled(Array.from({ length: 8 }, () => connectPeer(t, hostile.port)))
      for (const client of clients) if (client.status === 'fulfilled') client.value.socket.destroy()
      await askDenied(t, port)
    }
    await source.close()
    await hostile.end()
    await askDenied(t, port)
    assert.deepEqual(
      lines.filter((line) => line.includes('fault')),
      [],
    )
  })

  test('flooded with connections leaves files for the others', LONG, async (t) => {
    const { proxy } = await openStage(t, { limits: { maxPerSource: 16, headMs: 60_000 } })
    const [source, other] = [await openSource(proxy), await openSource(proxy)]
    const { port } = await handOver(t, other, 'listener')
    const child = await handOver(t, source, 'listener')
    const before = await untilStill(openFileCount)
    const clients: Peer[] = []
    for (let times = 0; times < 10; times++)
      clients.push(...(await Promise.all(Array.from({ length: 100 }, () => connectPeer(t, child.port)))))
    await askDenied(t, port)
    // 16 that may stay, and 256 that get an error response.
    const most = before + clients.length + 16 + 256 + 8
    assert.ok(openFileCount() <= most, `${openFileCount()} of ${most}`)
    await source.close()
    await until(() => openFileCount() <= before + clients.length)
    await askDenied(t, port)
  })

  test('serves a flood of short connections and then the next client', LONG, async (t) => {
    const { proxy } = await openStage(t)
    const { port: echoPort } = await openPeerServer(t, { serve: echo })
    const source = await openSource(proxy)
    const { port } = await handOver(t, source, 'listener')
    for (let times = 0; times < 20; times++) {
      const clients = await Promise.all(Array.from({ length: 100 }, () => connectPeer(t, port)))
      for (const { socket } of clients) socket.resetAndDestroy()
    }
    await until(async () => (await proxy.snapshot()).connections === 0)
    const client = await connectPeer(t, port)
    client.send(`CONNECT localhost:${echoPort} HTTP/1.1\r\n\r\nhello`)
    assert.match(await client.says('hello'), /hello$/)
  })
})

test('closes without waiting a connection that inherited SO_LINGER from its listener', {
  ...needs('kernel', 'python'),
  ...LONG,
}, async (t) => {
  const kernel = openKernel()
  if (!kernel) return
  const [ours, handover] = openSocketPair(kernel)
  const { port } = await handOver(t, { handover, release: () => void kernel.close(handover) }, 'linger')
  const transport = new EpollTransport(kernel, {
    woken: () => {},
    starved: () => {},
    failed: (error) => assert.fail(`${error}`),
  })
  const owner = { received() {}, ended() {}, drained() {}, connected() {}, closed() {} }
  let closeMs = Number.POSITIVE_INFINITY
  const accepted = (connection: TcpConnection): void => {
    // More than the kernel buffers for a client that does not read.
    connection.write(Buffer.alloc(33_554_432))
    transport.after(100, () => {
      const from = performance.now()
      connection.close()
      closeMs = performance.now() - from
      transport.stop()
    })
  }
  transport.receiveListener(ours, { key: 'socket:1', maxOpen: 8 }, { accepted, failed: (why) => assert.fail(why) })
  transport.connect({ address: '127.0.0.1', port }, owner).pause()
  transport.run()
  transport.close()
  kernel.close(transport.wakeFd)
  // Its owner set a linger time of five seconds.
  assert.ok(closeMs < 2500, `${closeMs} ms`)
})

test('reports a descriptor as lost if this process can open no more files', needs('kernel', 'python'), async (t) => {
  const kernel = openKernel()
  if (!kernel) return
  const [ours, handover] = openSocketPair(kernel)
  const receiver = new DescriptorReceiver(kernel)
  assert.deepEqual(receiver.receive(ours), { kind: 'waiting' })
  await handOver(t, { handover, release: () => void kernel.close(handover) }, 'listener')
  const restore = leaveOpenFiles(0)
  const message = receiver.receive(ours)
  restore()
  assert.deepEqual(message, { kind: 'lost' })
  assert.deepEqual(receiver.receive(ours), { kind: 'end' })
  kernel.close(ours)
})
