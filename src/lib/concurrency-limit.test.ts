import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { ConcurrencyLimit } from './concurrency-limit.ts'

suite('a limit of concurrency', () => {
  test('lets so many operations run at a time, in their order', async () => {
    const limit = new ConcurrencyLimit(2)
    const begun: number[] = []
    const ends: (() => void)[] = []
    const all = [0, 1, 2, 3].map((at) =>
      limit.run(() => {
        begun.push(at)
        return new Promise<number>((resolve) => {
          ends[at] = () => resolve(at)
        })
      }),
    )
    const beganAfter = async (end: number | undefined): Promise<readonly number[]> => {
      if (end !== undefined) ends[end]?.()
      await new Promise(setImmediate)
      return [...begun]
    }
    assert.deepEqual(await beganAfter(undefined), [0, 1])
    assert.deepEqual(await beganAfter(1), [0, 1, 2])
    assert.deepEqual(await beganAfter(0), [0, 1, 2, 3])
    ends[2]?.()
    ends[3]?.()
    assert.deepEqual(await Promise.all(all), [0, 1, 2, 3])
  })

  test('goes on after an operation that failed', async () => {
    const limit = new ConcurrencyLimit(1)
    await assert.rejects(
      limit.run(() => Promise.reject(new Error('failed'))),
      /failed/,
    )
    assert.equal(await limit.run(async () => 'done'), 'done')
  })
})
