// Model-based test with messages, turns, crashes and clock steps in any order: the store always equals a simple model of
// the rules, and in the end every message has exactly one outcome (decisions T1, T2, T4, T5, L14).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { onEveryEngine } from './support/host.ts'
import { ACT, drain, setUpModel, tally } from './support/model-acts.ts'
import { ModelInstance } from './support/model-instance.ts'

/** SVC_TEST_RUNS=<n> sets the number of runs, SVC_TEST_SEED=<seed> repeats one. */
const { SVC_TEST_RUNS: runs, SVC_TEST_SEED: seed } = process.env
const LIMIT_MS = 120_000
const ACTS_MAX = 200
const RUNS = { sqlite: 70, postgres: 12 }

onEveryEngine('an instance', (engine) => {
  test('matches the model after every action and finally handles every message', async (t) => {
    const stage = await ModelInstance.open(t, engine)
    let completedRuns = 0
    await fc.assert(
      fc.asyncProperty(fc.commands([ACT], { maxCommands: ACTS_MAX, size: 'max' }), async (acts) => {
        const model = await setUpModel(stage)
        await fc.asyncModelRun(() => ({ model, real: stage }), acts)
        await drain(model, stage)
        completedRuns++
      }),
      {
        unbiased: true,
        // Limits shrinking, which takes long on a slow store. A busy machine completes fewer runs in that time, which is
        // not a failure.
        ...(runs === undefined ? { interruptAfterTimeLimit: LIMIT_MS } : {}),
        numRuns: runs === undefined ? RUNS[engine] : Number(runs),
        ...(seed === undefined ? {} : { seed: Number(seed) }),
      },
    )
    const never = [...tally].filter(([, times]) => times === 0)
    if (engine === 'sqlite' && completedRuns >= RUNS.sqlite) assert.deepEqual(never, [], 'these actions never happened')
  })
})
