// A paused process on PostgreSQL, as on a machine that sleeps or swaps: the other processes continue, and when it resumes,
// no acknowledged message is lost or duplicated.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { openLinkedInstance } from '../support/linked-instance.ts'
import { compare, load } from '../support/load.ts'
import { needs } from '../support/needs.ts'
import { until } from '../support/until.ts'

/** Two transactions of a paused process keep their locks for 2 seconds each; the rest is a margin for busy machines. */
const BACK_MS = 20_000

/** Idle connections that hold the lock needed by all writers of messages. */
const COUNT_LOCK_HOLDERS = `select count(*) as n from pg_stat_activity a join pg_locks l on l.pid = a.pid
  where a.datname = current_database() and a.state = 'idle in transaction' and l.granted
    and l.relation = 'filing'::regclass and l.mode = 'ExclusiveLock'`

suite('a process on PostgreSQL paused while it holds a lock', needs('postgres'), () => {
  test('does not block other processes, and loses and duplicates nothing', async (t) => {
    const demo = await openLinkedInstance(t, 'postgres')
    // In one process, without a parent that would replace it.
    const daemons = ['proxyd', 'webd', 'routd', 'runed']
    const [paused, other] = [await demo.start({ daemons }), await demo.start({ daemons })]
    const [loaded, chat] = [await demo.mintHook('load'), await demo.mintChat('chat')]
    const running = load(paused.hook(loaded), { clients: 8 })
    await running.begun
    await until(async () => {
      paused.child.kill('SIGSTOP')
      // Queries sent before the pause are finished if the connection is still idle after several checks.
      for (let looks = 0; looks < 3; looks++) if (Number((await demo.query(COUNT_LOCK_HOLDERS))[0]?.n) === 0) break
      if (Number((await demo.query(COUNT_LOCK_HOLDERS))[0]?.n) > 0) return true
      paused.child.kill('SIGCONT')
      return false
    })
    const pausedAt = performance.now()
    const round = await postUntilAccepted(other.chat(chat))
    const backAfter = performance.now() - pausedAt
    t.diagnostic(`the other process accepted a message ${Math.round(backAfter)} ms after the pause`)
    assert.ok(backAfter < BACK_MS, `${backAfter} ms`)
    const roundStatus = async () => (await readJson(await fetch(other.chat(chat, round)))).status
    await until(async () => (await roundStatus()) !== 'pending')
    assert.equal(await roundStatus(), 'success')

    paused.child.kill('SIGCONT')
    const before = running.sent.filter(({ status }) => status === 204).length
    await until(() => running.sent.filter(({ status }) => status === 204).length > before)
    await running.stop()
    const stored = await demo.inbound(loaded)
    // A message refused with 503 may still be stored.
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

async function readJson(response: Response): Promise<{ readonly status?: string; readonly turn_id?: string }> {
  return Object(await response.json())
}

/** Repeats the post while the response is 503 and returns the id of the round. */
async function postUntilAccepted(url: string): Promise<string> {
  let turnId: string | undefined
  await until(async () => {
    const headers = { 'content-type': 'application/json', 'idempotency-key': 'once' }
    const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ content: 'hello' }) })
    if (answer.status === 200) turnId = (await readJson(answer)).turn_id
    else assert.equal(answer.status, 503)
    return turnId !== undefined
  })
  return turnId ?? assert.fail('no round')
}
