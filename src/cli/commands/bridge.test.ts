// `svc bridge` as the client of an agent uses it, with a real tool socket.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { suite, type TestContext, test } from 'node:test'
import { testCli } from '../../../test/support/cli.ts'
import { openGatedHost } from '../../../test/support/gated-host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { groupsResource } from '../../resources/groups.ts'

const BIN = join(import.meta.dirname, '..', '..', '..', 'bin', 'svc.js')
const CALL = { jsonrpc: '2.0', id: 2, method: 'tools/call', params: { name: 'refresh_groups' } }
const HELLO = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'test', version: '0' },
    _meta: { kept: 1 },
  },
}

interface Bridge {
  readonly child: ChildProcess
  send(message: object): void
  next(): Promise<{ id?: number; result?: Record<string, unknown> }>
  /** Resolves to the exit code. */
  ended(): Promise<number | null>
  stderr(): string
}

function startBridge(t: TestContext, path: string, env: Record<string, string> = {}): Bridge {
  const child = spawn(process.execPath, [BIN, 'bridge', path], { env: { PATH: process.env.PATH, ...env } })
  // `close` comes after all output.
  const close = once(child, 'close')
  t.after(() => child.kill())
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  let stderr = ''
  child.stderr.on('data', (chunk) => {
    stderr += chunk
  })
  return {
    child,
    send: (message) => child.stdin.write(`${JSON.stringify(message)}\n`),
    next: async () => JSON.parse((await lines.next()).value ?? assert.fail(`it ended: ${stderr}`)),
    ended: async () => (await close)[0],
    stderr: () => stderr,
  }
}

suite('svc bridge', () => {
  test('relays a session and ends after stdin has ended and the last response has arrived', async (t) => {
    const s = await openGatedHost(t)
    const it = startBridge(t, s.path('main'))
    it.send(HELLO)
    assert.equal((await it.next()).id, 1)
    it.send(CALL)
    it.child.stdin?.end()
    assert.match(JSON.stringify(await it.next()), /team\/sub/)
    assert.deepEqual([await it.ended(), it.stderr()], [0, ''])
  })

  test('adds the turn of its environment', async (t) => {
    const s = await openGatedHost(t)
    await s.ask()
    const { turn } = await s.mustClaim()
    const right = startBridge(t, s.path('main'), { SVC_TURN: turn.id, SVC_FENCE: `${turn.fence}` })
    const stale = startBridge(t, s.path('main'), { SVC_TURN: turn.id, SVC_FENCE: `${turn.fence + 1}` })
    for (const it of [right, stale]) {
      it.send(HELLO)
      assert.equal((await it.next()).id, 1)
      it.send(CALL)
    }
    assert.equal((await right.next()).result?.isError, undefined)
    assert.match(JSON.stringify(await stale.next()), /the turn is over/)
  })

  test('exits with 1 when the server closes the connection while stdin is open', async (t) => {
    const s = await openGatedHost(t)
    const it = startBridge(t, s.path('other'))
    it.send(HELLO)
    await it.next()
    await s.cli.call(groupsResource.verbs.remove, { folder: 'other' })
    assert.equal(await it.ended(), 1)
    assert.match(it.stderr(), /closed the connection/)
  })

  test('reports a missing socket with one sentence', async (t) => {
    const cli = testCli(t)
    const path = join(tempDir(t), 'gated.sock')
    const { code, stderr } = await cli.run(['bridge', path])
    assert.equal(code, 1)
    assert.match(stderr, new RegExp(`there is no socket ${path}`))
    assert.equal((await cli.run(['bridge', join(path, 'x'.repeat(120))])).code, 1)
  })
})
