// Messages, turns, deaths and clocks in any order: whatever happens, the store is what a simple model of the rules says, and
// in the end every message has come to its one end (decisions T1, T2, T4, T5, L14).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { onEveryEngine } from './support/host.ts'
import { ACT, drain, setUpModel, tally } from './support/model-acts.ts'
import { ModelInstance } from './support/model-instance.ts'

/** SVC_TEST_RUNS=<n> has more of them, SVC_TEST_SEED=<seed> the same again. */
const { SVC_TEST_RUNS: runs, SVC_TEST_SEED: seed } = process.env
const LIMIT_MS = 120_000
const ACTS_MAX = 200
const RUNS = { sqlite: 70, postgres: 12 }

onEveryEngine('an instance', (engine) => {
  test('is what the rules say after whatever happens, and answers everything in the end', async (t) => {
    const stage = await ModelInstance.open(t, engine)
    let played = 0
    await fc.assert(
      fc.asyncProperty(fc.commands([ACT], { maxCommands: ACTS_MAX, size: 'max' }), async (acts) => {
        const model = await setUpModel(stage)
        await fc.asyncModelRun(() => ({ model, real: stage }), acts)
        await drain(model, stage)
        played++
      }),
      {
        unbiased: true,
        // For the search for the shortest way to a failure, which takes long where the store is slow. A machine that is
        // busy plays less in that time, and that is no failure.
        ...(runs === undefined ? { interruptAfterTimeLimit: LIMIT_MS } : {}),
        numRuns: runs === undefined ? RUNS[engine] : Number(runs),
        ...(seed === undefined ? {} : { seed: Number(seed) }),
      },
    )
    const never = [...tally].filter(([, times]) => times === 0)
    if (engine === 'sqlite' && played >= RUNS.sqlite)
      assert.deepEqual(never, [], 'what has never happened is not tested')
  })
})
