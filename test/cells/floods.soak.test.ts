// Agents that send as much as they can, while others use the instance.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import { forEachUser } from '../support/attack.ts'
import { type AttackInstance, attackInstance, type ServedInstance } from '../support/attack-instance.ts'
import { FLOOD_S, FLOODS, healthDuring, SOCKET } from '../support/floods.ts'
import { svcProcesses } from '../support/svc-processes.ts'

/** Of `/proc/<pid>/stat`, on every Linux. */
const TICKS_PER_SECOND = 100
/** A busy machine delays requests too; a flood that is worked off delays them until its end. */
const HEALTH_MAX_MS = 2000
/** Processor time of svc per second of a flood, with the requests of this test. Working off a flood takes nearly all of it. */
const BUSY_MAX = 0.7

forEachUser('an instance with a flood of', [], (user) => {
  const endings: (() => void | Promise<void>)[] = []
  const cleanup = { after: (work: () => void | Promise<void>) => void endings.unshift(work) }
  let instance: AttackInstance
  let served: ServedInstance

  before(async () => {
    instance = await attackInstance(cleanup, user)
    served = await instance.serve()
    // The first turn takes longer.
    await served.askAsVisitor('team', 'echo ready')
  })
  after(async () => {
    await served?.stop()
    for (const work of endings) await work()
  })

  /** Of the front and the runner. */
  const processorSeconds = (): number => svcProcesses(served.pid).reduce((sum, { pid }) => sum + processorTime(pid), 0)

  for (const [what, { program, folder = 'team', error }] of Object.entries(FLOODS)) {
    test(`${what} answers other requests and has little work`, async (t) => {
      const before = processorSeconds()
      const flooding = served.askAsVisitor(folder, program)
      const longest = Math.max(...(await healthDuring(served.url, flooding)))
      const busy = (processorSeconds() - before) / FLOOD_S
      t.diagnostic(`longest request ${longest.toFixed(0)} ms, ${(100 * busy).toFixed(0)} % of a processor`)
      const { status, raw } = await flooding
      assert.equal(status, error ? 'failed' : 'success', raw.slice(-500))
      if (error) assert.ok(raw.includes(error), raw.slice(-500))
      assert.ok(longest < HEALTH_MAX_MS, `a request took ${longest} ms`)
      // Node always accepts connections; only what follows can wait.
      if (what !== 'connections') assert.ok(busy < BUSY_MAX, `svc used ${busy} of a processor`)
    })
  }

  test('requests records the turn that is submitted behind them', async () => {
    const { text } = await served.askAsVisitor(
      'team',
      `perl -e '${SOCKET}
        my $tools = connection() or die;
        my $submit = qq({"jsonrpc":"2.0","id":"end","method":"submit_turn","params":{"turn_id":"$ENV{SVC_TURN}","result":"recorded"}}\\n);
        print $tools qq({"jsonrpc":"2.0","id":$_,"method":"ping"}\\n) for 1 .. 2500;
        print $tools $submit;
        $tools->flush;
        while (<$tools>) { last if /"end"/ }
        exit 1;
      '`,
    )
    assert.match(text, /recorded/)
  })
})

function processorTime(pid: number): number {
  const [, fields = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')
  const [user, system] = fields.split(' ').slice(11, 13).map(Number)
  return ((user ?? Number.NaN) + (system ?? Number.NaN)) / TICKS_PER_SECOND
}
