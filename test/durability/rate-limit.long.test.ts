// A flood on one link slows no other, and its own bucket fills again at its rate (P16).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { routeTokensResource } from '../../src/resources/route-tokens.ts'
import { openLinkedInstance } from '../support/linked-instance.ts'
import { load, post, statuses } from '../support/load.ts'
import { measureMachineLoad } from '../support/machine-load.ts'
import { serveHost } from '../support/served-host.ts'
import { until } from '../support/until.ts'

const RATE = 600
const POSTS = 25
const EVERY_MS = 80
const SLOWEST_MS = 500

/** One post after the other, at its ease; the milliseconds of each. */
async function atEase(url: string, statusesSeen: Set<number | undefined>): Promise<number[]> {
  const took: number[] = []
  for (let count = 0; count < POSTS; count++) {
    const startedAt = performance.now()
    statusesSeen.add((await post(url, { body: 'calm' })).statusCode)
    took.push(performance.now() - startedAt)
    await pause(EVERY_MS)
  }
  return took.sort((a, b) => a - b)
}

test('a flood on one link is refused with 429, and posts on another are all taken, without delay', async (t) => {
  const demo = await openLinkedInstance(t, 'sqlite', { WEBHOOK_RATE_HOOK: String(RATE) })
  const [flooded, calm] = [await demo.mintHook('flooded'), await demo.mintHook('calm')]
  const served = await demo.start()
  const seen = new Set<number | undefined>()
  const idle = await atEase(served.hook(calm), seen)
  const startedAt = performance.now()
  const flood = load(served.hook(flooded), { clients: 32 })
  await until(() => statuses(flood)['429'] !== undefined)
  const busy = await measureMachineLoad()
  const meanwhile = await atEase(served.hook(calm), seen)
  // The control: on the flooded link itself the same posts are not all taken.
  const refused = new Set<number | undefined>()
  await atEase(served.hook(flooded), refused)
  await flood.stop()
  const seconds = (performance.now() - startedAt) / 1000
  await served.stop()

  const slowest = (times: readonly number[]): number => Math.round(times.at(-1) ?? 0)
  t.diagnostic(
    `the slowest post took ${slowest(idle)} ms before, ${slowest(meanwhile)} ms during ${JSON.stringify(statuses(flood))}`,
  )
  assert.deepEqual([...seen], [204])
  assert.ok(slowest(meanwhile) < Math.max(3 * slowest(idle), SLOWEST_MS * busy))
  assert.ok(refused.has(429))
  const { 204: taken = 0, 429: turnedAway = 0, ...others } = statuses(flood)
  assert.deepEqual(others, {})
  assert.ok(turnedAway > taken)
  assert.ok(taken <= RATE + Math.ceil((seconds * RATE) / 60) + 1, `${taken} were taken in ${seconds} s`)
  assert.equal(
    flood.sent.every(({ status, retryAfter }) => status !== 429 || Number(retryAfter) > 0),
    true,
  )
})

test('a bucket fills again at its rate, up to a minute of it', async (t) => {
  const served = await serveHost(t, { settings: { WEBHOOK_RATE_HOOK: String(RATE) } })
  await served.groups('main')
  const { token } = await served.cli.call(routeTokensResource.verbs.issue_hook, {
    target_folder: 'main',
    source_label: 'load',
  })
  const url = `${served.url('webd')}/hook/${token}`
  /** How many are taken now. */
  const taken = async (): Promise<number> => {
    const running = load(url, { clients: 8, messages: RATE + 100 })
    await running.ended
    return statuses(running)['204'] ?? 0
  }
  const nearly = (count: number, expected: number): void =>
    assert.ok(Math.abs(count - expected) <= Math.max(1, expected * 0.05), `${count} instead of ${expected}`)
  nearly(await taken(), RATE)
  for (const seconds of [1, 10, 30, 3600]) {
    served.clock.advance(seconds * 1000)
    nearly(await taken(), Math.min(RATE, (seconds * RATE) / 60))
  }
})
