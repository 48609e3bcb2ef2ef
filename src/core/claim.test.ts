import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { conversing, LEASE_MS } from '../../test/support/conversation.ts'
import { needs } from '../../test/support/needs.ts'
import { until } from '../../test/support/until.ts'
import type { Tx } from '../store/engine.ts'
import { run } from '../store/statement.ts'
import { claimTurn } from './claim.ts'

// On SQLite there is one writer: the second begins when the first is over.
suite('claims that cross on postgres', needs('postgres'), () => {
  test('P24: of two who claim a turn in the same moment one has it, and the other finds nothing left', async (t) => {
    const on = await conversing(t, 'postgres')
    const id = await on.ask()
    // As where many turns are behind: those that run are found by an index, and whoever only adds one crosses nobody who reads.
    const claim = async (tx: Tx) => {
      await run(tx, 'set local enable_seqscan = off')
      return claimTurn(tx, on.host.rules, { now: on.clock.now(), forMs: LEASE_MS })
    }
    const [claimed, committed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const first = on.write(async (tx) => {
      const mine = await claim(tx)
      claimed.resolve()
      await committed.promise
      return mine
    })
    await claimed.promise
    // Nothing queues them up here: it reads what stood before the first, and stands still where both write.
    const second = on.write(claim)
    const settled = Promise.allSettled([first, second])
    await until(() => on.read(async (tx) => Number((await run(tx, STANDING)).rows[0]?.count) === 1))
    committed.resolve()
    await settled
    assert.deepEqual([(await first)?.turn.id, await second], [id, undefined])
  })
})

const STANDING = `select count(*) as count from pg_stat_activity
  where datname = current_database() and wait_event_type = 'Lock'`
