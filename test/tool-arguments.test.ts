// Every tool called with odd arguments, through the socket of a run as its agent calls it: each call has a result, and none
// leaves an unhandled exception, which would end svc.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { RunSockets } from '../src/agent-socket/run-socket.ts'
import type { Reach } from '../src/core/access/reach.ts'
import { agentTools } from '../src/daemons/agents/agent-tools.ts'
import { formatToolCall } from '../src/daemons/runed/tool-call-line.ts'
import type { ToolCallReport } from '../src/faces/mcp.ts'
import { TurnLog } from '../src/runtimes/turn-log.ts'
import { openRpcConnection } from './support/gated-host.ts'
import { onEveryEngine, testHost } from './support/host.ts'
import { openLinkHost } from './support/link-host.ts'
import { tempDir } from './support/temp.ts'
import { openHttpTools, PRODUCT_TOOLS, type ToolSession } from './support/tools.ts'
import { startTurn } from './support/turns.ts'

const HUGE = 'x'.repeat(64 * 1024)
const NESTED = JSON.parse('['.repeat(50) + ']'.repeat(50))
const ODD_VALUES: readonly unknown[] = [7, -1.5, 'x', '', '\0', null, true, [], {}, [{}], NESTED, HUGE]

/** No member, an unknown one, and every member with each odd value. */
function oddArguments(names: readonly string[]): Record<string, unknown>[] {
  const all = ODD_VALUES.map((value) => Object.fromEntries(names.map((name) => [name, value])))
  return [{}, { nonsense: 1 }, { __proto__: null, constructor: {}, toString: 1 }, ...all]
}

onEveryEngine('every tool answers a call with odd arguments', (engine) => {
  for (const reach of ['chat', 'all'] satisfies Reach[])
    test(`in a turn of reach ${reach}`, async (t) => {
      const on = await testHost(t, engine)
      const host = { ...on.host, limits: { ...on.host.limits, toolCallsPerSecond: 0 } }
      await on.groups('main', 'team')
      const turn = await startTurn(t, on, { folder: 'main', content: 'hello', jid: 'web:main', reach })
      const faults: unknown[] = []
      const onError = (error: unknown): void => void faults.push(error)
      const sockets = new RunSockets({ host, list: agentTools(), onError, onUnexpectedUser: assert.fail })
      t.after(() => sockets.close())
      const logFile = join(tempDir(t), 'turn.log')
      const log = new TurnLog(logFile)
      const onCall =
        () =>
        (call?: ToolCallReport): void => {
          if (call) log.write(Buffer.from(`${formatToolCall(call)}\n`))
        }
      const socket = await sockets.open('main', { id: turn.id, fence: turn.fence, reach, onCall })
      t.after(() => socket.close())
      const connection = await openRpcConnection(t, socket.path)
      const clientInfo = { name: 'test', version: '1' }
      const ask = async (id: number, method: string, params: object) => {
        connection.send({ jsonrpc: '2.0', id, method, params })
        return connection.next()
      }
      await ask(0, 'initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo })
      let id = 0
      for (const { name, input } of PRODUCT_TOOLS.tools.values())
        for (const args of oddArguments(Object.keys(input.shape))) {
          const answer = await ask(++id, 'tools/call', { name, arguments: args })
          assert.equal(answer?.id, id, name)
          const isAnswered = answer.result !== undefined || answer.error !== undefined
          assert.ok(isAnswered, `${name} ${JSON.stringify(args).slice(0, 100)}`)
        }
      await log.close()
      assert.deepEqual(faults, [])
      const lines = readFileSync(logFile, 'utf8').split('\n')
      assert.ok(lines.length > PRODUCT_TOOLS.tools.size, 'calls are logged')
    })
})

suite('every tool over HTTP answers a call with odd arguments', () => {
  const callEach = async ({ client, tools }: ToolSession): Promise<number> => {
    const listed = await tools()
    for (const { name, inputSchema } of listed)
      for (const args of oddArguments(Object.keys(inputSchema.properties ?? {}))) {
        const { content } = await client.callTool({ name, arguments: args })
        assert.equal(content.length, 1, name)
        assert.notDeepEqual(content, [{ type: 'text', text: 'internal error' }], name)
      }
    return listed.length
  }

  test('at a chat link, for a visitor', async (t) => {
    const on = await openLinkHost(t, { daemons: ['webd'], settings: { TOOL_CALLS_PER_SECOND: '0' } })
    const { chat } = await on.mintChat()
    assert.equal(await callEach(await openHttpTools(t, `${on.url('webd')}${chat}mcp`)), 3)
  })

  test('at the endpoint of a person, for an operator', async (t) => {
    const on = await openLinkHost(t, { daemons: ['webd'], settings: { TOOL_CALLS_PER_SECOND: '0' } })
    await on.operator('github:1')
    const headers = { Authorization: `Bearer ${await on.bearer({ sub: 'github:1' })}` }
    assert.ok((await callEach(await openHttpTools(t, `${on.url('webd')}/mcp`, { headers }))) >= 3)
  })
})

suite('a visitor', () => {
  test('cannot end the server with a tool call in a message', async (t) => {
    const on = await openLinkHost(t, { daemons: [] })
    const link = await on.mintChat()
    for (const line of [
      '/tool cancel_task {"taskId":"task-1"}',
      '/tool audit.list {"limit":1}',
      '/tool cancel_task {}',
      '/tool nonsense {"a":[[[]]]}',
    ])
      assert.equal((await on.ended(link, await on.speak(link, line))).status, 'success', line)
  })
})
