// Turns in processes that are killed at any moment: each message reaches a final state (P9), in the order of arrival (P5),
// and the turns of a conversation never overlap.
import assert from 'node:assert/strict'
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, test } from 'node:test'
import { onEveryEngine } from '../support/host.ts'
import { type Link, openLinkedInstance, type ServedLinks } from '../support/linked-instance.ts'
import { repeatableRandom } from '../support/repeatable-random.ts'
import { until } from '../support/until.ts'

const FOLDERS = 3
const LINKS = 2
const MESSAGES = 15
const WORKERS = 3
const KILLS = 3

/** Logs its start, its end and the numbers in its messages, and runs for a while. */
const AGENT = `#!/bin/sh
seen=$(grep -o 'n=[0-9]*' | tr '\\n' ',')
echo "start $$-$SVC_TURN-$SVC_FENCE $SVC_JID $seen" >> data/runs.log
sleep 0.2
echo "stop $$-$SVC_TURN-$SVC_FENCE" >> data/runs.log
echo done
`

/** Overlaps and gaps in the log of one folder, which is one conversation. */
function findFaults(log: string): string[] {
  const found: string[] = []
  const ended = new Set<string>()
  let last: string | undefined
  const seen = new Map<string, number>()
  for (const line of log.split('\n').filter(Boolean)) {
    const [what, id = '', jid = '', numbers = ''] = line.split(' ')
    if (what === 'stop') {
      if (id !== last) found.push(`${id} ran at the same time as ${last}`)
      ended.add(id)
      continue
    }
    last = id
    for (const text of numbers.split(',').filter(Boolean)) {
      const number = Number(text.slice(2))
      const before = seen.get(jid) ?? -1
      // A retried turn gets the same messages again; only gaps are wrong.
      if (number > before + 1) found.push(`${jid}: ${number} came after ${before}`)
      seen.set(jid, Math.max(before, number))
    }
  }
  return found
}

onEveryEngine('turns in killed processes', (engine) => {
  test('P5, P9: handle every message in order, one turn at a time', async (t) => {
    const by = repeatableRandom(t)
    const settings = {
      AGENT_RUNTIME: 'command',
      AGENT_COMMAND: 'sh ./agent.sh',
      // Much longer than the delays of a busy machine, on which a process could fail to renew its lease in time.
      TURN_LEASE: '3s',
      MAX_CONCURRENT_TURNS: '8',
    }
    const demo = await openLinkedInstance(t, engine, settings)
    const folders = Array.from({ length: FOLDERS }, (_, at) => `f${at}`)
    const links: { link: Link; folder: string }[] = []
    for (const folder of folders) {
      const added = await demo.run('group', 'demo', 'add', `sandbox:${folder}`, folder)
      assert.equal(added.code, 0, added.stderr)
      const program = join(demo.root, 'groups', folder, 'agent.sh')
      writeFileSync(program, AGENT)
      chmodSync(program, 0o755)
      for (let at = 0; at < LINKS; at++) links.push({ link: await demo.mintHook(`s${at}`, folder), folder })
    }
    const front = await demo.start({ daemons: ['proxyd', 'webd', 'gated'] })
    const workers: ServedLinks[] = []
    for (let at = 0; at < WORKERS; at++) workers.push(await demo.start({ daemons: ['routd', 'runed'] }))

    const posting = Promise.all(
      links.map(async ({ link }) => {
        for (let n = 0; n < MESSAGES; n++) {
          const answer = await fetch(front.hook(link), { method: 'POST', body: `n=${n}` })
          assert.equal(answer.status, 204)
        }
      }),
    )
    for (let kill = 0; kill < KILLS; kill++) {
      const started = Date.now()
      await until(() => Date.now() - started > 700)
      const at = by.below(WORKERS)
      await workers[at]?.kill()
      workers[at] = await demo.start({ daemons: ['routd', 'runed'] })
    }
    await posting

    const all = FOLDERS * LINKS * MESSAGES
    const ends = async () => demo.query(`select state, count(*) as n from inbox group by state`)
    await until(async () => {
      const rows = await ends()
      const over = rows.filter(({ state }) => state === 'answered' || state === 'failed')
      return over.reduce((sum, { n }) => sum + Number(n), 0) === all
    })
    for (const folder of folders) {
      const log = join(demo.root, 'groups', folder, 'data', 'runs.log')
      assert.ok(existsSync(log), `${folder} has never run`)
      assert.deepEqual(findFaults(readFileSync(log, 'utf8')), [], folder)
    }
    const open = await demo.query(`select count(*) as n from turns where state <> 'done'`)
    assert.equal(Number(open[0]?.n), 0)
    const busy = await demo.query('select count(*) as n from conversations where waiting <> 0 or turn_id is not null')
    assert.equal(Number(busy[0]?.n), 0)
  })
})

suite('the turn test itself', () => {
  const cases: [string, string[], number][] = [
    ['accepts turns in order', ['start a hook:x n=0,n=1,', 'stop a', 'start b hook:x n=2,', 'stop b'], 0],
    ['accepts a killed and retried turn', ['start a hook:x n=0,', 'start b hook:x n=0,', 'stop b'], 0],
    ['detects overlapping turns', ['start a hook:x n=0,', 'start b hook:x n=1,', 'stop a', 'stop b'], 1],
    ['detects a skipped message', ['start a hook:x n=0,', 'stop a', 'start b hook:x n=2,', 'stop b'], 1],
  ]
  for (const [title, lines, count] of cases) test(title, () => assert.equal(findFaults(lines.join('\n')).length, count))
})
