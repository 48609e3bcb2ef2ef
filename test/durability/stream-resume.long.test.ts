// A stream that is broken off anywhere and taken up again has no gap and nothing twice (P6).
import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { recordOutbound } from '../../src/core/delivery/outbox.ts'
import { lockMessageOrder } from '../../src/core/messages/messages.ts'
import { claimTurn } from '../../src/core/turns/turn-claim.ts'
import { endTurn, type Turn } from '../../src/core/turns/turns.ts'
import { openHost } from '../../src/daemons/process/host.ts'
import { routeBatch } from '../../src/daemons/routd/router.ts'
import { type Reading, readEvents, type StreamEvent } from '../support/event-reader.ts'
import { onEveryEngine } from '../support/host.ts'
import { type LinkedInstance, openLinkedInstance, type ServedLinks } from '../support/linked-instance.ts'
import { type RepeatableRandom, repeatableRandom } from '../support/repeatable-random.ts'
import { slicing } from '../support/slicing-proxy.ts'

const FRAMES = 500
const CUTS = 30
const CONTENT_MOST = 700
/** Of a stream of all frames; so that the cuts are spread over it. */
const CUT_MOST = (FRAMES * (CONTENT_MOST / 2 + 200) * 1.2) / CUTS
const ODD = ['\n', '\r', '\n\n', 'data: ', 'é', '€', '👩‍🚀', '\u2028', '"', '\\', 'id: 7\n\n', '\0']

function randomText(by: RepeatableRandom): string {
  const length = by.below(CONTENT_MOST)
  let text = ''
  while (text.length < length) text += by.below(4) === 0 ? ODD[by.below(ODD.length)] : 'words '
  return text
}

/** Speaks in a round from this process, which is none of those that serve it. */
async function openSpeaker(t: TestContext, demo: LinkedInstance) {
  const host = await openHost({ instance: 'demo', store: demo.address, webBase: 'http://localhost' })
  t.after(() => host.close())
  const { engine, rules } = host
  const speaking = { ...host, dialect: engine.dialect }
  return {
    claim: async (): Promise<Turn> => {
      for (;;) {
        await engine.transaction((tx) => routeBatch(tx, { host, assistantName: 'svc' }))
        const claimed = await engine.transaction(async (tx) => {
          await lockMessageOrder(tx, engine.dialect)
          return claimTurn(tx, rules, { now: Date.now(), leaseMs: 600_000 })
        })
        if (claimed) return claimed.turn
        await turn()
      }
    },
    say: ({ id: turn_id, jid, folder }: Turn, content: string, kind: 'message' | 'status') =>
      engine.transaction((tx) =>
        recordOutbound(tx, speaking, rules, { jid, topic: '', folder, turn_id, content, kind }),
      ),
    end: (held: Turn) => engine.transaction((tx) => endTurn(tx, speaking, rules, held, { outcome: 'answered' })),
  }
}

interface Seen {
  readonly seq: number
  readonly kind: string
  readonly content: string
}

function frameOf({ data }: StreamEvent): Seen {
  const { seq, kind, content } = JSON.parse(data)
  return { seq, kind, content }
}

/** What is wrong with a list of frames, held against what was said. */
function faults(seen: readonly Seen[], said: readonly Omit<Seen, 'seq'>[]): string[] {
  const ids = seen.map(({ seq }) => seq)
  const missing = said.map((_, index) => index + 1).filter((seq) => !ids.includes(seq))
  const doubled = ids.filter((seq, index) => ids.indexOf(seq) !== index)
  const disordered = ids.filter((seq, index) => index > 0 && seq < (ids[index - 1] ?? 0))
  const changed = seen
    .filter(({ seq, kind, content }) => said[seq - 1]?.kind !== kind || said[seq - 1]?.content !== content)
    .map(({ seq }) => seq)
  return Object.entries({ missing, doubled, disordered, changed }).flatMap(([name, all]) =>
    all.map((seq) => `${seq} is ${name}`),
  )
}

onEveryEngine('a stream of a round', (engine) => {
  test('cut at random bytes, sliced, across a restart and on another process, gives every frame once', async (t) => {
    const by = repeatableRandom(t)
    const demo = await openLinkedInstance(t, engine)
    const link = await demo.mintChat('stream')
    // Without whoever would answer: that is this process.
    const daemons = ['proxyd', 'webd']
    const servers = [await demo.start({ daemons }), await demo.start({ daemons })]
    const speaker = await openSpeaker(t, demo)
    const answer = await fetch(servers[0]?.chat(link) ?? '', { method: 'POST', body: 'go on' })
    const { turn_id } = JSON.parse(await answer.text())
    const held = await speaker.claim()
    assert.equal(held.id, turn_id)

    const said = Array.from({ length: FRAMES }, () => ({
      kind: by.below(3) === 0 ? ('status' as const) : ('message' as const),
      content: randomText(by),
    }))
    const speak = async (): Promise<void> => {
      for (const { content, kind } of said) await speaker.say(held, content, kind)
      await speaker.end(held)
    }
    const speech = speak()

    const events: StreamEvent[] = []
    const ends: Record<Reading['end'], number> = { closed: 0, cut: 0, broken: 0 }
    const restart = by.between(5, CUTS - 5)
    for (let cut = 0; cut <= CUTS || events.at(-1)?.event !== 'round_done'; cut++) {
      const isRestart = cut === restart
      const served: ServedLinks = servers[isRestart ? 0 : by.below(servers.length)] ?? assert.fail()
      const url = served.chat(link, `${turn_id}/sse`)
      const through = by.below(3) === 0 ? await slicing(t, by, url) : url
      const reading = await readEvents(through, {
        lastId: events.at(-1)?.id,
        ...(cut < CUTS && !isRestart ? { cutAfter: by.below(CUT_MOST) } : {}),
        onEvent: () => {
          if (isRestart) served.child.kill('SIGKILL')
          return false
        },
      })
      if (isRestart) {
        await served.kill()
        servers[0] = await demo.start({ daemons })
      }
      events.push(...reading.events)
      ends[reading.end]++
      if (reading.status === 204) break
      assert.equal(reading.status, 200)
    }
    await speech
    t.diagnostic(`${events.length} events over ${JSON.stringify(ends)}`)

    const last = events.pop()
    assert.deepEqual([last?.event, last?.id], ['round_done', String(FRAMES + 1)])
    assert.deepEqual(JSON.parse(last?.data ?? ''), { turn_id, status: 'success' })
    assert.deepEqual(faults(events.map(frameOf), said), [])
    for (const { id, data, event } of events)
      assert.deepEqual([id, event], [String(JSON.parse(data).seq), JSON.parse(data).kind])
    for (const served of servers) {
      assert.equal((await readEvents(served.chat(link, `${turn_id}/sse`), { lastId: String(FRAMES + 1) })).status, 204)
      assert.deepEqual(
        await poll(served.chat(link, turn_id)),
        events.map(({ data }) => JSON.parse(data)),
      )
    }
    for (const served of servers) await served.stop()
  })
})

/** All frames, page by page. */
async function poll(url: string): Promise<unknown[]> {
  const all: unknown[] = []
  for (let after = 0; ; ) {
    const page = JSON.parse(await (await fetch(`${url}?after=${after}`)).text())
    if (page.frames.length === 0) return all
    all.push(...page.frames)
    after = page.frames.at(-1).seq
  }
}

suite('the test of streams itself', () => {
  test('finds a gap, a repeat, a wrong order and another content', () => {
    const said = ['a', 'b', 'c'].map((content) => ({ kind: 'message', content }))
    const seen = (...seqs: number[]): Seen[] =>
      seqs.map((seq) => ({ seq, kind: 'message', content: 'xabc'[seq] ?? '' }))
    assert.deepEqual(faults(seen(1, 2, 3), said), [])
    assert.deepEqual(faults(seen(1, 3), said), ['2 is missing'])
    assert.deepEqual(faults(seen(1, 2, 2, 3), said), ['2 is doubled'])
    assert.deepEqual(faults(seen(2, 1, 3), said), ['1 is disordered'])
    const [first] = seen(1)
    assert.deepEqual(faults([{ seq: 1, kind: 'status', content: first?.content ?? '' }, ...seen(2, 3)], said), [
      '1 is changed',
    ])
  })
})
