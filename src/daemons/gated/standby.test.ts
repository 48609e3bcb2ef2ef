import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { openTools } from '../../../test/support/socket-client.ts'
import { instance } from '../../../test/support/svc.ts'
import { until } from '../../../test/support/until.ts'

test('a second process of an instance takes over the sockets when the first one ends', async (t) => {
  const demo = await instance(t)
  const socket = join(demo.root, 'ipc', 'main', 'gated.sock')
  const first = await demo.serve(['gated'])
  const tools = await openTools(t, socket)
  assert.ok((await tools.list()).length > 50)
  const second = await demo.serve(['gated'])
  // The first process still serves its sockets.
  assert.equal((await tools.call('refresh_groups')).isError, false)
  const { code, stderr } = await first.stop()
  assert.equal(code, 0, stderr)
  await until(async () => {
    try {
      const again = await openTools(t, socket)
      return (await again.list()).length > 50
    } catch {
      return false
    }
  })
  const ended = await second.stop()
  assert.equal(ended.code, 0)
  assert.match(ended.stderr, /takes over when it ends/)
})
