// `svc bridge`: stdin and stdout as an agent's client sees them, with the tool socket behind.
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
  say(message: object): void
  next(): Promise<{ id?: number; result?: Record<string, unknown> }>
  /** Its exit code, when it has ended. */
  ended(): Promise<number | null>
  stderr(): string
}

function bridge(t: TestContext, path: string, env: Record<string, string> = {}): Bridge {
  const child = spawn(process.execPath, [BIN, 'bridge', path], { env: { PATH: process.env.PATH, ...env } })
  // With all that it has said.
  const close = once(child, 'close')
  t.after(() => child.kill())
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  let said = ''
  child.stderr.on('data', (chunk) => {
    said += chunk
  })
  return {
    child,
    say: (message) => child.stdin.write(`${JSON.stringify(message)}\n`),
    next: async () => JSON.parse((await lines.next()).value ?? assert.fail(`it ended: ${said}`)),
    ended: async () => (await close)[0],
    stderr: () => said,
  }
}

suite('svc bridge', () => {
  test('carries a session to the socket and back, and ends with stdin after the last answer', async (t) => {
    const s = await openGatedHost(t)
    const it = bridge(t, s.path('main'))
    it.say(HELLO)
    assert.equal((await it.next()).id, 1)
    it.say(CALL)
    it.child.stdin?.end()
    assert.match(JSON.stringify(await it.next()), /team\/sub/)
    assert.deepEqual([await it.ended(), it.stderr()], [0, ''])
  })

  test('names the turn of its environment', async (t) => {
    const s = await openGatedHost(t)
    await s.ask()
    const { turn } = await s.mustClaim()
    const right = bridge(t, s.path('main'), { SVC_TURN: turn.id, SVC_FENCE: `${turn.fence}` })
    const stale = bridge(t, s.path('main'), { SVC_TURN: turn.id, SVC_FENCE: `${turn.fence + 1}` })
    for (const it of [right, stale]) {
      it.say(HELLO)
      assert.equal((await it.next()).id, 1)
      it.say(CALL)
    }
    assert.equal((await right.next()).result?.isError, undefined)
    assert.match(JSON.stringify(await stale.next()), /the turn is over/)
  })

  test('ends with 1 when the other side goes, though stdin is open', async (t) => {
    const s = await openGatedHost(t)
    const it = bridge(t, s.path('other'))
    it.say(HELLO)
    await it.next()
    await s.cli.call(groupsResource.verbs.remove, { folder: 'other' })
    assert.equal(await it.ended(), 1)
    assert.match(it.stderr(), /closed the connection/)
  })

  test('says in a sentence that there is no socket', async (t) => {
    const cli = testCli(t)
    const path = join(tempDir(t), 'gated.sock')
    const { code, stderr } = await cli.run(['bridge', path])
    assert.equal(code, 1)
    assert.match(stderr, new RegExp(`there is no socket ${path}`))
    assert.equal((await cli.run(['bridge', join(path, 'x'.repeat(120))])).code, 1)
  })
})
