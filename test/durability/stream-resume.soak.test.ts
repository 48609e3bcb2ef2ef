// A stream that is interrupted anywhere and resumed has no gaps and no duplicates (P6).
import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { setImmediate as nextTick } from 'node:timers/promises'
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
/** Chosen so that the cuts are spread over the whole stream. */
const CUT_MOST = (FRAMES * (CONTENT_MOST / 2 + 200) * 1.2) / CUTS
const ODD = ['\n', '\r', '\n\n', 'data: ', 'é', '€', '👩‍🚀', '\u2028', '"', '\\', 'id: 7\n\n', '\0']

function randomText(by: RepeatableRandom): string {
  const length = by.below(CONTENT_MOST)
  let text = ''
  while (text.length < length) text += by.below(4) === 0 ? ODD[by.below(ODD.length)] : 'words '
  return text
}

/** Writes the answers of a round from this process, which serves no requests. */
async function openAnswerer(t: TestContext, demo: LinkedInstance) {
  const host = await openHost({ instance: 'demo', store: demo.address, webBase: 'http://localhost' })
  t.after(() => host.close())
  const { engine, rules } = host
  const context = { ...host, dialect: engine.dialect }
  return {
    claim: async (): Promise<Turn> => {
      for (;;) {
        await engine.transaction((tx) => routeBatch(tx, { host, assistantName: 'svc' }))
        const claimed = await engine.transaction(async (tx) => {
          await lockMessageOrder(tx, engine.dialect)
          return claimTurn(tx, rules, { now: Date.now(), leaseMs: 600_000 })
        })
        if (claimed) return claimed.turn
        await nextTick()
      }
    },
    write: ({ id: turn_id, jid, folder }: Turn, content: string, kind: 'message' | 'status') =>
      engine.transaction((tx) =>
        recordOutbound(tx, context, rules, { jid, topic: '', folder, turn_id, content, kind }),
      ),
    end: (turn: Turn) => engine.transaction((tx) => endTurn(tx, context, rules, turn, { outcome: 'answered' })),
  }
}

interface Frame {
  readonly seq: number
  readonly kind: string
  readonly content: string
}

function frameOf({ data }: StreamEvent): Frame {
  const { seq, kind, content } = JSON.parse(data)
  return { seq, kind, content }
}

/** Compares the received frames with those that were written. */
function findFaults(received: readonly Frame[], written: readonly Omit<Frame, 'seq'>[]): string[] {
  const ids = received.map(({ seq }) => seq)
  const missing = written.map((_, index) => index + 1).filter((seq) => !ids.includes(seq))
  const doubled = ids.filter((seq, index) => ids.indexOf(seq) !== index)
  const disordered = ids.filter((seq, index) => index > 0 && seq < (ids[index - 1] ?? 0))
  const changed = received
    .filter(({ seq, kind, content }) => written[seq - 1]?.kind !== kind || written[seq - 1]?.content !== content)
    .map(({ seq }) => seq)
  return Object.entries({ missing, doubled, disordered, changed }).flatMap(([name, all]) =>
    all.map((seq) => `${seq} is ${name}`),
  )
}

onEveryEngine('the stream of a round', (engine) => {
  test('delivers every frame once when cut at random bytes, sliced, and resumed after a restart or in another process', async (t) => {
    const by = repeatableRandom(t)
    const demo = await openLinkedInstance(t, engine)
    const link = await demo.mintChat('stream')
    // Without routd and runed: this process writes the answers.
    const daemons = ['proxyd', 'webd']
    const servers = [await demo.start({ daemons }), await demo.start({ daemons })]
    const answerer = await openAnswerer(t, demo)
    const answer = await fetch(servers[0]?.chat(link) ?? '', { method: 'POST', body: 'go on' })
    const { turn_id } = JSON.parse(await answer.text())
    const turn = await answerer.claim()
    assert.equal(turn.id, turn_id)

    const written = Array.from({ length: FRAMES }, () => ({
      kind: by.below(3) === 0 ? ('status' as const) : ('message' as const),
      content: randomText(by),
    }))
    const writeAll = async (): Promise<void> => {
      for (const { content, kind } of written) await answerer.write(turn, content, kind)
      await answerer.end(turn)
    }
    const writing = writeAll()

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
    await writing
    t.diagnostic(`${events.length} events over ${JSON.stringify(ends)}`)

    const last = events.pop()
    assert.deepEqual([last?.event, last?.id], ['round_done', String(FRAMES + 1)])
    assert.deepEqual(JSON.parse(last?.data ?? ''), { turn_id, status: 'success' })
    assert.deepEqual(findFaults(events.map(frameOf), written), [])
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

suite('the stream test itself', () => {
  test('detects a gap, a repetition, a wrong order and changed content', () => {
    const written = ['a', 'b', 'c'].map((content) => ({ kind: 'message', content }))
    const frames = (...seqs: number[]): Frame[] =>
      seqs.map((seq) => ({ seq, kind: 'message', content: 'xabc'[seq] ?? '' }))
    assert.deepEqual(findFaults(frames(1, 2, 3), written), [])
    assert.deepEqual(findFaults(frames(1, 3), written), ['2 is missing'])
    assert.deepEqual(findFaults(frames(1, 2, 2, 3), written), ['2 is doubled'])
    assert.deepEqual(findFaults(frames(2, 1, 3), written), ['1 is disordered'])
    const [first] = frames(1)
    assert.deepEqual(
      findFaults([{ seq: 1, kind: 'status', content: first?.content ?? '' }, ...frames(2, 3)], written),
      ['1 is changed'],
    )
  })
})
