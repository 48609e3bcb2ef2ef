// A process on PostgreSQL that is paused, as a machine is that sleeps or swaps: the others go on without it, and when it
// goes on itself, nothing that was acknowledged is lost or doubled.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { openLinkedInstance } from '../support/linked-instance.ts'
import { compare, load } from '../support/load.ts'
import { needs } from '../support/needs.ts'
import { until } from '../support/until.ts'

/** Two transactions of a paused process keep their locks for 2 seconds each; the rest is room for a busy machine. */
const BACK_MS = 20_000

/** Connections that wait for their client while they hold the lock that all writers of messages need. */
const HOLDING = `select count(*) as n from pg_stat_activity a join pg_locks l on l.pid = a.pid
  where a.datname = current_database() and a.state = 'idle in transaction' and l.granted
    and l.relation = 'filing'::regclass and l.mode = 'ExclusiveLock'`

suite('a process on PostgreSQL that is paused while it holds a lock', needs('postgres'), () => {
  test('does not stop the others, and loses and doubles nothing', async (t) => {
    const demo = await openLinkedInstance(t, 'postgres')
    const [paused, other] = [await demo.start(), await demo.start({ daemons: ['proxyd', 'webd', 'routd', 'runed'] })]
    const [loaded, asked] = [await demo.mintHook('load'), await demo.mintChat('asked')]
    const running = load(paused.hook(loaded), { clients: 8 })
    await running.begun
    await until(async () => {
      paused.child.kill('SIGSTOP')
      // What was sent before has been answered when it still waits for its client after a moment.
      for (let looks = 0; looks < 3; looks++) if (Number((await demo.query(HOLDING))[0]?.n) === 0) break
      if (Number((await demo.query(HOLDING))[0]?.n) > 0) return true
      paused.child.kill('SIGCONT')
      return false
    })
    const pausedAt = performance.now()
    const round = await until200(other.chat(asked))
    const backAfter = performance.now() - pausedAt
    t.diagnostic(`the other process took a message ${Math.round(backAfter)} ms after the pause`)
    assert.ok(backAfter < BACK_MS, `${backAfter} ms`)
    const ended = async () => (await answerOf(await fetch(other.chat(asked, round)))).status
    await until(async () => (await ended()) !== 'pending')
    assert.equal(await ended(), 'success')

    paused.child.kill('SIGCONT')
    const before = running.sent.filter(({ status }) => status === 204).length
    await until(() => running.sent.filter(({ status }) => status === 204).length > before)
    await running.stop()
    const stored = await demo.inbound(loaded)
    // A message that was answered with 503 may be stored all the same.
    const { lost, doubled, foreign, acknowledged } = compare(
      [running],
      stored.map(({ content }) => content),
    )
    assert.deepEqual({ lost, doubled, foreign }, { lost: [], doubled: [], foreign: [] })
    assert.ok(acknowledged > 0)
    for (const { child, ended } of [paused, other]) {
      child.kill('SIGTERM')
      assert.equal((await ended).code, 0)
    }
  })
})

async function answerOf(response: Response): Promise<{ readonly status?: string; readonly turn_id?: string }> {
  return Object(await response.json())
}

/** Asks again while the answer is that it cannot be taken now; the round that was opened. */
async function until200(url: string): Promise<string> {
  let turnId: string | undefined
  await until(async () => {
    const headers = { 'content-type': 'application/json', 'idempotency-key': 'once' }
    const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ content: 'hello' }) })
    if (answer.status === 200) turnId = (await answerOf(answer)).turn_id
    else assert.equal(answer.status, 503)
    return turnId !== undefined
  })
  return turnId ?? assert.fail('no round')
}
