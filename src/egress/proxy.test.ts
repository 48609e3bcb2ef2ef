import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { suite, type TestContext, test } from 'node:test'
import { until } from '../../test/support/until.ts'
import { Refusal } from '../lib/refusal.ts'
import { type EgressProxy, type ProxyOptions, startProxy } from './proxy.ts'
import { openKernel } from './transport/kernel.ts'

const LOOPBACK = { host: '127.0.0.1', port: 0 }
/** Without `node:ffi` only the Node transport is tested. */
const MAKES = openKernel() ? (['epoll', 'net'] as const) : (['net'] as const)

async function start(
  t: TestContext,
  options: ProxyOptions,
): Promise<EgressProxy & { lines: Record<string, unknown>[] }> {
  const lines: Record<string, unknown>[] = []
  const log = (text: string): void => {
    for (const line of text.trimEnd().split('\n')) lines.push(JSON.parse(line))
  }
  const proxy = await startProxy({ listen: LOOPBACK, log, ...options })
  t.after(() => proxy.close())
  return { ...proxy, lines }
}

async function openEcho(t: TestContext): Promise<number> {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => {})
    socket.pipe(socket)
  }).listen(LOOPBACK)
  t.after(() => server.close())
  await once(server, 'listening')
  const at = server.address()
  return typeof at === 'object' && at ? at.port : 0
}

/** Returns everything received until the end. */
async function exchange(port: number, bytes: string): Promise<string> {
  const socket = connect({ ...LOOPBACK, port, allowHalfOpen: true })
  socket.end(bytes)
  let got = ''
  for await (const chunk of socket) got += chunk
  return got
}

for (const io of MAKES)
  suite(`a proxy inside another process, on ${io}`, () => {
    test('serves a source as soon as its registration resolves', async (t) => {
      const proxy = await start(t, { io })
      const port = await openEcho(t)
      const ask = () => exchange(proxy.forward?.port ?? 0, `CONNECT localhost:${port} HTTP/1.1\r\n\r\nhello`)
      assert.match(await ask(), /^HTTP\/1\.1 403 .*unregistered-source/s)
      await proxy.sources.set({ ip: '127.0.0.1', id: 'me', allowlist: ['localhost'] })
      assert.equal(await ask(), 'HTTP/1.1 200 Connection Established\r\n\r\nhello')
      await proxy.sources.remove('127.0.0.1')
      assert.match(await ask(), /^HTTP\/1\.1 403 /)
    })

    test('reports its counters, and writes its last log lines before it closes', async (t) => {
      const proxy = await start(t, { io })
      await exchange(proxy.forward?.port ?? 0, 'CONNECT a.example:443 HTTP/1.1\r\n\r\n')
      await until(async () => (await proxy.snapshot()).connections === 0)
      const { decisions, denied } = await proxy.snapshot()
      assert.deepEqual(decisions, [{ mode: 'connect', verdict: 'deny', reason: 'unregistered-source', count: 1 }])
      assert.equal(denied.length, 1)
      await proxy.close()
      assert.deepEqual(
        proxy.lines.map(({ verdict, msg }) => verdict ?? msg),
        ['deny', 'denied hosts'],
      )
    })

    test('closing twice waits for the same end', async (t) => {
      const proxy = await start(t, { io, admin: [LOOPBACK] })
      let isOver = false
      const first = proxy.close().then(() => {
        isOver = true
      })
      await proxy.close()
      assert.ok(isOver)
      await first
    })

    test('reports a port in use and leaves nothing open', async (t) => {
      const port = await openEcho(t)
      const before = openFiles()
      for (let times = 0; times < 3; times++)
        await assert.rejects(
          start(t, { io, listen: { ...LOOPBACK, port }, admin: [LOOPBACK] }),
          new RegExp(`127\\.0\\.0\\.1:${port}|EADDRINUSE`),
        )
      await until(() => openFiles() <= before + 2)
    })

    test('leaves no file open after repeated starts and closes, even with an open tunnel', async (t) => {
      const port = await openEcho(t)
      const cycle = async (): Promise<void> => {
        const options = { listen: LOOPBACK, admin: [LOOPBACK], limits: { drainMs: 10 }, io, log: () => {} }
        const proxy = await startProxy(options)
        await proxy.sources.set({ ip: '127.0.0.1', id: 'me', allowlist: ['localhost'] })
        const client = connect({ ...LOOPBACK, port: proxy.forward?.port ?? 0 })
        client.on('error', () => {})
        client.write(`CONNECT localhost:${port} HTTP/1.1\r\n\r\n`)
        await once(client, 'data')
        const gone = new Promise((resolve) => client.on('close', resolve))
        await proxy.close()
        await gone
      }
      await cycle()
      const before = openFiles()
      for (let times = 0; times < 5; times++) await cycle()
      await until(() => openFiles() <= before + 2)
    })

    test('does not keep a process alive that exits while the proxy is open', async (t) => {
      const program = `
        import { startProxy } from ${JSON.stringify(import.meta.resolve('./proxy.ts'))}
        await startProxy({ listen: { host: '127.0.0.1', port: 0 }, io: '${io}', log: () => {} })
        process.exit(7)`
      const child = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: 'inherit' })
      t.after(() => child.kill('SIGKILL'))
      const [code] = await once(child, 'exit')
      assert.equal(code, 7)
    })
  })

test('refuses a transparent listener with io net, or warns if it is optional', async (t) => {
  const itsNeeds = 'it needs Linux, a Node with node:ffi, and io auto or epoll'
  const wanted = { io: 'net', transparent: LOOPBACK } as const
  await assert.rejects(start(t, wanted), (error) => {
    assert.ok(error instanceof Refusal)
    assert.equal(error.message, `no transparent listener can be opened: ${itsNeeds}`)
    return true
  })
  const lines: string[] = []
  const proxy = await start(t, { ...wanted, transparentIsOptional: true, log: (text) => lines.push(text) })
  assert.equal(proxy.transparent, undefined)
  assert.ok(lines.join('').includes(`no transparent listener is opened: ${itsNeeds}`), lines.join(''))
})

test('the admin listener accepts the name it listens on and the configured names', async (t) => {
  const proxy = await start(t, { admin: [LOOPBACK], adminHosts: ['admin.example'] })
  const [{ port } = assert.fail('it does not listen')] = proxy.admin
  const status = async (host: string): Promise<string> => {
    const answer = await exchange(port, `GET /v1/state HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
    return answer.slice('HTTP/1.1 '.length, 'HTTP/1.1 200'.length)
  }
  assert.deepEqual([await status('admin.example'), await status('evil.example')], ['200', '403'])
})

function openFiles(): number {
  return process.platform === 'linux' ? readdirSync('/proc/self/fd').length : 0
}
