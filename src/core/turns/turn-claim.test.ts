import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { LEASE_MS, openConversationHost } from '../../../test/support/conversation-host.ts'
import { onEveryEngine } from '../../../test/support/host.ts'
import { needs } from '../../../test/support/needs.ts'
import { run } from '../../../test/support/sql.ts'
import { until } from '../../../test/support/until.ts'
import type { Tx } from '../../store/engine.ts'
import { writeContextOf } from './rounds.ts'
import { claimTurn } from './turn-claim.ts'
import { endTurn } from './turns.ts'

// On SQLite there is one writer: the second begins when the first is over.
suite('claims that cross on postgres', needs('postgres'), () => {
  test('P24: of two who claim a turn in the same moment one has it, and the other finds nothing left', async (t) => {
    const on = await openConversationHost(t, 'postgres')
    const id = await on.ask()
    // As where many turns are behind: those that run are found by an index, and whoever only adds one crosses nobody who reads.
    const claim = async (tx: Tx) => {
      await run(tx, 'set local enable_seqscan = off')
      return claimTurn(tx, on.host.rules, { now: on.clock.now(), leaseMs: LEASE_MS })
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

onEveryEngine('a turn', (engine) => {
  test('is claimed and ended by as many statements for forty hooks as for two', async (t) => {
    const on = await openConversationHost(t, engine)
    const costOf = async (messages: number): Promise<unknown> => {
      for (let n = 0; n < messages; n++)
        await on.ask('push', { jid: 'hook:main/github', sender: 'github', hasRound: false })
      let statements = 0
      const counted = (tx: Tx): Tx => ({
        executeQuery: (query) => {
          statements++
          return tx.executeQuery(query)
        },
        onCommit: (then) => tx.onCommit(then),
      })
      const { rules, clock } = on.host
      const claimed = await on.write((tx) => claimTurn(counted(tx), rules, { now: clock.now(), leaseMs: LEASE_MS }))
      const turn = claimed?.turn ?? assert.fail('nothing waits')
      assert.equal(turn.message_count, messages)
      await on.write((tx) => endTurn(counted(tx), writeContextOf(on.host), rules, turn, { outcome: 'answered' }))
      return statements
    }
    // The first claim of a folder adds its row.
    await costOf(1)
    assert.equal(await costOf(40), await costOf(2))
  })
})

const STANDING = `select count(*) as count from pg_stat_activity
  where datname = current_database() and wait_event_type = 'Lock'`
