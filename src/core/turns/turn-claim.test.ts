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

// SQLite has only one writer at a time.
suite('concurrent claims on postgres', needs('postgres'), () => {
  test('of two concurrent claims one gets the turn and the other nothing', async (t) => {
    const on = await openConversationHost(t, 'postgres')
    const id = await on.ask()
    // With many turns the planner uses the index; then inserting a turn does not conflict with reading the running ones.
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
    // Without lockMessageOrder, it reads the state before the first claim and blocks at the first common write.
    const second = on.write(claim)
    const settled = Promise.allSettled([first, second])
    await until(() => on.read(async (tx) => Number((await run(tx, BLOCKED)).rows[0]?.count) === 1))
    committed.resolve()
    await settled
    assert.deepEqual([(await first)?.turn.id, await second], [id, undefined])
  })
})

onEveryEngine('a turn', (engine) => {
  test('takes as many statements to claim and end for forty messages as for two', async (t) => {
    const on = await openConversationHost(t, engine)
    const countStatements = async (messages: number): Promise<unknown> => {
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
    // The first claim of a folder also inserts its row.
    await countStatements(1)
    assert.equal(await countStatements(40), await countStatements(2))
  })
})

const BLOCKED = `select count(*) as count from pg_stat_activity
  where datname = current_database() and wait_event_type = 'Lock'`
