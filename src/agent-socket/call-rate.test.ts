// How many tool calls come through one socket.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Gated, openGate } from '../../test/support/gate.ts'
import { AGENT_LIMITS } from '../core/agent-limits.ts'

const OVER = 'too many tool calls\nhint: wait 1 s before the next call'

const open = (t: Parameters<typeof openGate>[0], toolCallsPerSecond: number): Promise<Gated> =>
  openGate(t, {
    before: async (on) => {
      Object.assign(on.host, { limits: { ...AGENT_LIMITS, toolCallsPerSecond } })
      await on.groups('main', 'team')
    },
  })

test('beyond the rate a call is answered with an error, and the connection goes on', async (t) => {
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

test('another connection to the same socket gives no more calls, and another folder has its own', async (t) => {
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

test('what a status says counts as a call, and the end of a turn does not', async (t) => {
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

test('0 is no limit', async (t) => {
  const s = await open(t, 0)
  const tools = await s.open('team')
  for (let count = 0; count < 30; count++) assert.equal((await tools.call('refresh_groups')).isError, false)
})
