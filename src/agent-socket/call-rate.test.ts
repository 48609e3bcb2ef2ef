// Limits of what comes through one socket: tool calls, lines and connections.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { type GatedHost, openGatedHost } from '../../test/support/gated-host.ts'
import { until } from '../../test/support/until.ts'
import { AGENT_LIMITS } from '../core/access/agent-limits.ts'
import { socketLimits } from './tool-listener.ts'

const OVER = 'too many tool calls\nhint: wait 1 s before the next call'

const open = (t: Parameters<typeof openGatedHost>[0], toolCallsPerSecond: number): Promise<GatedHost> =>
  openGatedHost(t, {
    before: async (on) => {
      Object.assign(on.host, { limits: { ...AGENT_LIMITS, toolCallsPerSecond } })
      await on.groups('main', 'team')
    },
  })

test('a call beyond the rate limit gets an error and the connection stays open', async (t) => {
  const s = await open(t, 1)
  const tools = await s.open('team')
  for (let count = 0; count < 10; count++) assert.equal((await tools.call('refresh_groups')).isError, false)
  const { text, isError } = await tools.call('refresh_groups')
  assert.deepEqual([text, isError], [OVER, true])
  s.clock.advance(999)
  assert.equal((await tools.call('refresh_groups')).isError, true)
  s.clock.advance(1)
  assert.equal((await tools.call('refresh_groups')).isError, false)
  assert.ok((await tools.list()).length > 0)
})

test('connections to one socket share its rate limit, and each folder has its own', async (t) => {
  const s = await open(t, 1)
  const [one, two, other] = [await s.open('team'), await s.open('team'), await s.open('main')]
  for (let count = 0; count < 5; count++) {
    assert.equal((await one.call('refresh_groups')).isError, false)
    assert.equal((await two.call('refresh_groups')).isError, false)
  }
  assert.equal((await one.call('refresh_groups')).isError, true)
  assert.equal((await (await s.open('team')).call('refresh_groups')).isError, true)
  assert.equal((await other.call('refresh_groups')).isError, false)
})

test('submit_status counts as a call, submit_turn does not', async (t) => {
  const s = await open(t, 1)
  const wire = await s.wire('team')
  const ask = async (method: string) => {
    wire.send({ jsonrpc: '2.0', id: 1, method, params: {} })
    return (await wire.next())?.error?.message
  }
  for (let count = 0; count < 10; count++) assert.doesNotMatch((await ask('submit_status')) ?? '', /too many/)
  assert.equal(await ask('submit_status'), 'too many tool calls')
  assert.equal(await ask('submit_turn'), 'turn_id required')
})

test('a limit of 0 means unlimited', async (t) => {
  const s = await open(t, 0)
  const tools = await s.open('team')
  for (let count = 0; count < 30; count++) assert.equal((await tools.call('refresh_groups')).isError, false)
})

test('a client is answered during a flood of connections, with a delay', async (t) => {
  const s = await open(t, 100)
  for (let count = 0; count < 400; count++) {
    const socket = connect(s.path('team'))
    socket.on('error', () => undefined)
    await once(socket, 'connect')
    socket.destroy()
  }
  await until(async () => {
    const wire = await s.wire('team')
    wire.send({ jsonrpc: '2.0', id: 1, method: 'ping' })
    return (await wire.next())?.id === 1
  })
})

test('limits of lines follow the limit of calls, and 0 means no limit', () => {
  const lines = (calls: number): number => socketLimits(calls).linesPerSecond
  assert.deepEqual([0, 1, 100, 101].map(lines), [0, 200, 200, 202])
})
