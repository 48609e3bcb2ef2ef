import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { openGatedHost } from '../../../test/support/gated-host.ts'
import { tempDir } from '../../../test/support/temp.ts'
import { SocketClient, SocketFault } from '../../runtimes/socket-client.ts'

test('a tool call that fails because the store is busy is a transient fault, not a result of the tool', async (t) => {
  const path = join(tempDir(t), 'svc.db')
  const on = await openGatedHost(t, { store: { path, create: true, strict: true, busyMs: 50 } })
  const id = await on.ask()
  const { turn } = await on.mustClaim()
  const client = await SocketClient.open(on.path('main'), { id, fence: turn.fence })
  t.after(() => client.close())
  const say = (text: string) => client.call('reply', { chatJid: turn.jid, text })
  assert.equal((await say('one')).isError, false)
  using other = new DatabaseSync(path)
  other.exec('begin immediate')
  const isPassing = (error: unknown) => error instanceof SocketFault && /the store is busy/.test(error.message)
  await assert.rejects(say('two'), isPassing)
  await assert.rejects(client.request('submit_status', { turn_id: id, text: 'hm' }), isPassing)
  other.exec('rollback')
  assert.equal((await say('two')).isError, false)
  assert.deepEqual(await on.frames(id), ['one', 'two'])
})
