// A flood on one link does not slow down other links, and its bucket refills at its rate (P16).
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

/** Posts one after the other with pauses and returns the sorted durations in milliseconds. */
async function postSlowly(url: string, statusesSeen: Set<number | undefined>): Promise<number[]> {
  const durations: number[] = []
  for (let count = 0; count < POSTS; count++) {
    const startedAt = performance.now()
    statusesSeen.add((await post(url, { body: 'calm' })).statusCode)
    durations.push(performance.now() - startedAt)
    await pause(EVERY_MS)
  }
  return durations.sort((a, b) => a - b)
}

test('a flood on one link is refused with 429, and all posts on another link are accepted without delay', async (t) => {
  const demo = await openLinkedInstance(t, 'sqlite', { WEBHOOK_RATE_HOOK: String(RATE) })
  const [flooded, calm] = [await demo.mintHook('flooded'), await demo.mintHook('calm')]
  const served = await demo.start()
  const seen = new Set<number | undefined>()
  const idle = await postSlowly(served.hook(calm), seen)
  const startedAt = performance.now()
  const flood = load(served.hook(flooded), { clients: 32 })
  await until(() => statuses(flood)['429'] !== undefined)
  const busy = await measureMachineLoad()
  const meanwhile = await postSlowly(served.hook(calm), seen)
  // Control: on the flooded link some of the same posts are refused.
  const refused = new Set<number | undefined>()
  await postSlowly(served.hook(flooded), refused)
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
  const { 204: accepted = 0, 429: limited = 0, ...others } = statuses(flood)
  assert.deepEqual(others, {})
  assert.ok(limited > accepted)
  assert.ok(accepted <= RATE + Math.ceil((seconds * RATE) / 60) + 1, `${accepted} were accepted in ${seconds} s`)
  assert.equal(
    flood.sent.every(({ status, retryAfter }) => status !== 429 || Number(retryAfter) > 0),
    true,
  )
})

test('a bucket refills at its rate, up to the amount of one minute', async (t) => {
  const served = await serveHost(t, { settings: { WEBHOOK_RATE_HOOK: String(RATE) } })
  await served.groups('main')
  const { token } = await served.cli.call(routeTokensResource.verbs.issue_hook, {
    target_folder: 'main',
    source_label: 'load',
  })
  const url = `${served.url('webd')}/hook/${token}`
  /** The number of posts that the bucket allows now. */
  const countAccepted = async (): Promise<number> => {
    const running = load(url, { clients: 8, messages: RATE + 100 })
    await running.ended
    return statuses(running)['204'] ?? 0
  }
  const isNearly = (count: number, expected: number): void =>
    assert.ok(Math.abs(count - expected) <= Math.max(1, expected * 0.05), `${count} instead of ${expected}`)
  isNearly(await countAccepted(), RATE)
  for (const seconds of [1, 10, 30, 3600]) {
    served.clock.advance(seconds * 1000)
    isNearly(await countAccepted(), Math.min(RATE, (seconds * RATE) / 60))
  }
})
