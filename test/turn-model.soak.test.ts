// Random sequences of messages, turns, crashes and clock changes: the store always matches a simple model of the rules, and
// every message reaches its final state.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { onEveryEngine } from './support/host.ts'
import { ANY_ACTION, drain, setUpModel, tally } from './support/model-actions.ts'
import { ModelInstance } from './support/model-instance.ts'

/** SVC_TEST_RUNS=<n> sets the number of runs, SVC_TEST_SEED=<seed> repeats one. */
const { SVC_TEST_RUNS: runs, SVC_TEST_SEED: seed } = process.env
const LIMIT_MS = 120_000
const ACTIONS_MAX = 200
const RUNS = { sqlite: 70, postgres: 12 }

onEveryEngine('an instance', (engine) => {
  test('matches the model after any sequence of actions, and finally answers everything', async (t) => {
    const instance = await ModelInstance.open(t, engine)
    let completedRuns = 0
    await fc.assert(
      fc.asyncProperty(fc.commands([ANY_ACTION], { maxCommands: ACTIONS_MAX, size: 'max' }), async (actions) => {
        const model = await setUpModel(instance)
        await fc.asyncModelRun(() => ({ model, real: instance }), actions)
        await drain(model, instance)
        completedRuns++
      }),
      {
        unbiased: true,
        // Shrinking a failure takes long on a slow store. Fewer runs on a busy machine are not a failure.
        ...(runs === undefined ? { interruptAfterTimeLimit: LIMIT_MS } : {}),
        numRuns: runs === undefined ? RUNS[engine] : Number(runs),
        ...(seed === undefined ? {} : { seed: Number(seed) }),
      },
    )
    const never = [...tally].filter(([, times]) => times === 0)
    if (engine === 'sqlite' && completedRuns >= RUNS.sqlite)
      assert.deepEqual(never, [], 'these actions never happened, so they are not tested')
  })
})
