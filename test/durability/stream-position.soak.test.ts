// An event that a stream has delivered is already stored durably (P7).
import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { readEvents } from '../support/event-reader.ts'
import { onEveryEngine } from '../support/host.ts'
import { type Link, type LinkedInstance, openLinkedInstance } from '../support/linked-instance.ts'
import { post } from '../support/load.ts'
import { needs } from '../support/needs.ts'
import { buildShim, watchDisk } from '../support/power-cut/shim.ts'
import { type RepeatableRandom, repeatableRandom } from '../support/repeatable-random.ts'

const QUESTIONS = 10
/** When the events that are missing will not come. */
const LATE_MS = 180_000

interface ServerOptions {
  readonly root?: string
  readonly env?: Record<string, string>
  /** Kills it after this many events; random by default. */
  readonly enough?: number
}

/** Posts many questions, reads the stream of the link, and kills the server as soon as `enough` events have arrived. */
async function killWhileReading(
  demo: LinkedInstance,
  link: Link,
  by: RepeatableRandom,
  { enough = by.between(1, QUESTIONS * 2), ...options }: ServerOptions,
): Promise<string[]> {
  const served = await demo.start(options)
  const seen: string[] = []
  const reading = readEvents(served.chat(link, 'events'), {
    onEvent: ({ data, event }) => {
      if (event !== 'round_done') seen.push(JSON.parse(data).id)
      if (seen.length < enough) return false
      served.child.kill('SIGKILL')
      return true
    },
  })
  const posts = Array.from({ length: QUESTIONS }, (_, index) =>
    post(served.chat(link), { body: `question ${index}` }).catch(() => undefined),
  )
  const late = setTimeout(() => served.child.kill('SIGKILL'), LATE_MS)
  await reading
  clearTimeout(late)
  await Promise.all(posts)
  const { stderr } = await served.ended
  assert.ok(seen.length >= enough, `${seen.length} of ${enough} events arrived: ${stderr}`)
  return seen
}

async function findUnstored(demo: LinkedInstance, seen: readonly string[], root?: string): Promise<string[]> {
  const rows = await demo.query('select id from messages', root)
  const recorded = new Set(rows.map(({ id }) => String(id)))
  return seen.filter((id) => !recorded.has(id))
}

onEveryEngine('a delivered event', (engine) => {
  test('is in the store when the process is killed at that moment', async (t) => {
    const by = repeatableRandom(t)
    const demo = await openLinkedInstance(t, engine)
    for (let round = 0; round < 3; round++) {
      const seen = await killWhileReading(demo, await demo.mintChat(`round${round}`), by, {})
      t.diagnostic(`${seen.length} seen`)
      assert.ok(seen.length > 0)
      assert.deepEqual(await findUnstored(demo, seen), [])
    }
  })
})

suite('a delivered event', needs('compiler'), () => {
  const cut = async (
    t: TestContext,
    demo: LinkedInstance,
    link: Link,
    shim: string,
    by: RepeatableRandom,
    lazy?: string,
  ) => {
    const root = demo.copy()
    const disk = watchDisk(t, shim, root, lazy ? { lazy } : {})
    // A process that opens the store may sync what others wrote before; only the last answers are certain to come later.
    const enough = lazy ? { enough: QUESTIONS * 2 } : {}
    const seen = await killWhileReading(demo, link, by, { root, env: disk.env, ...enough })
    assert.ok(seen.length > 0)
    const lost = await findUnstored(demo, seen, disk.cut('none', by))
    t.diagnostic(`${lost.length} of ${seen.length} lost`)
    return lost
  }

  test('is on the disk when the power is cut at that moment', async (t) => {
    const [by, shim, demo] = [repeatableRandom(t), buildShim(t), await openLinkedInstance(t)]
    const link = await demo.mintChat('seen')
    for (let round = 0; round < 4; round++) assert.deepEqual(await cut(t, demo, link, shim, by), [])
  })

  test('control: is lost when the log is not synced at each commit', async (t) => {
    const [by, shim, demo] = [repeatableRandom(t), buildShim(t), await openLinkedInstance(t)]
    const link = await demo.mintChat('seen')
    let lost = 0
    for (let round = 0; round < 4 && lost === 0; round++) lost += (await cut(t, demo, link, shim, by, '-wal')).length
    assert.ok(lost > 0)
  })
})
