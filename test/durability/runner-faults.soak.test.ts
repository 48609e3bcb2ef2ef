// The runner ends, freezes or throws while messages arrive: links and pages go on, and every message is answered once.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import { readEvents, type StreamEvent } from '../support/event-reader.ts'
import type { EngineName } from '../support/host.ts'
import { openLinkedInstance } from '../support/linked-instance.ts'
import { compare, isAcknowledged } from '../support/load.ts'
import { measureMachineLoad } from '../support/machine-load.ts'
import { needs } from '../support/needs.ts'
import { failures, longestWait, type PacedLoad, startPacedLoad } from '../support/paced-load.ts'
import { processOf } from '../support/svc-processes.ts'
import { tempDir } from '../support/temp.ts'
import { until } from '../support/until.ts'

/** Requests a second. */
const [HOOKS, CHATS, PAGES] = [200, 20, 10]
const [BEFORE_S, AFTER_S] = [1, 1]

interface WaitLimit {
  readonly waitMs: number
  readonly pauseMs: number
}

const SHORT: WaitLimit = { waitMs: 1000, pauseMs: 0 }
/** The parent looks every 250 ms for a process that showed no sign of life for 5 s. */
const LOCKED: WaitLimit = { waitMs: 7000, pauseMs: 5250 }

const PRELOAD = join(import.meta.dirname, '..', 'support', 'runner-faults.ts')
/** Hooks need no answer. */
const SCRIPT = '/silent\nwhen chat-\n/say {text}\nwhen stream-\n/count 300\n'
const STREAMS = 3

interface Round {
  readonly status: string
  readonly frames: readonly { readonly kind: string; readonly content: string }[]
}

interface Loads {
  readonly hooks: PacedLoad
  readonly chats: PacedLoad
  readonly pages: PacedLoad
}

async function openLoaded(t: TestContext, engine: EngineName = 'sqlite') {
  const demo = await openLinkedInstance(t, engine)
  writeFileSync(join(demo.root, 'groups', 'main', 'demo.script'), SCRIPT)
  const [hook, chat] = [await demo.mintHook('load'), await demo.mintChat('load')]
  const faultFile = join(tempDir(t), 'fault')
  // A smaller heap is full sooner.
  const served = await demo.start({
    env: { NODE_OPTIONS: `--import=${PRELOAD} --max-old-space-size=256`, RUNNER_FAULT: faultFile },
  })
  const log: string[] = []
  served.child.stderr?.on('data', (chunk) => log.push(String(chunk)))
  const parent = served.child.pid ?? 0
  const createChat = (name: string) => ({
    url: served.chat(chat),
    body: new URLSearchParams({ content: name, topic: name }).toString(),
    headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
  })
  const readRound = async (id: string): Promise<Round> => (await fetch(served.chat(chat, id))).json() as Promise<Round>
  const endOf = async (id: string): Promise<Round> => {
    await until(async () => (await readRound(id)).status !== 'pending')
    return readRound(id)
  }
  let loads = 0
  const startLoads = (): Loads => {
    const label = ++loads
    return {
      hooks: startPacedLoad(HOOKS, `hook-${label}`, (name) => ({ url: served.hook(hook), body: `${name} posted` })),
      chats: startPacedLoad(CHATS, `chat-${label}`, createChat),
      pages: startPacedLoad(PAGES, 'page', () => ({ url: served.chat(chat), headers: { Accept: 'text/html' } })),
    }
  }
  const postChat = async (content: string): Promise<string> => {
    const response = await fetch(served.chat(chat), {
      method: 'POST',
      body: new URLSearchParams({ content, topic: content }),
    })
    return String(Object(await response.json()).turn_id)
  }
  // The runner starts with the first turn.
  await endOf(await postChat('chat-first'))
  return {
    demo,
    startLoads,
    log,
    postChat,
    streamOf: (id: string) => served.chat(chat, `${id}/sse`),
    runnerOf: (not: readonly number[] = []) => processOf(parent, 'runner', { not }),
    frontOf: (not: readonly number[] = []) => processOf(parent, 'front', { not }),
    cause: (runner: number, fault: string): void => {
      if (fault === 'SIGKILL') process.kill(runner, fault)
      writeFileSync(faultFile, fault)
      if (fault !== 'SIGKILL') process.kill(runner, 'SIGUSR2')
    },
    /** Every acknowledged message is stored once, and every round has its one answer. */
    checkAnswers: async ({ hooks, chats }: Loads): Promise<void> => {
      for (const { name, body = '' } of chats.responses.filter(({ status }) => isAcknowledged(status))) {
        const { status, frames } = await endOf(JSON.parse(body).turn_id)
        const answers = frames.filter(({ kind }) => kind === 'message').map(({ content }) => content)
        assert.deepEqual([status, answers], ['success', [name]])
      }
      const stored = (await demo.inbound(hook)).map(({ content }) => content)
      const { lost, doubled } = compare([{ sent: hooks.responses }], stored)
      assert.deepEqual([lost, doubled], [[], []])
      const countOpen = async () => (await demo.query(`select count(*) as n from turns where state <> 'done'`))[0]?.n
      await until(async () => Number(await countOpen()) === 0)
    },
  }
}

/** Resolves when the load has lasted for these seconds more. */
async function lasts({ hooks }: Loads, seconds: number): Promise<void> {
  const enough = hooks.count + seconds * HOOKS
  await until(() => hooks.count >= enough)
}

/** Ends the load. On an idle machine no request may have waited longer than this, `pauseMs` of which is a fixed time. */
async function checkRequests(t: TestContext, loads: Loads, { waitMs, pauseMs }: WaitLimit): Promise<void> {
  const all: readonly PacedLoad[] = Object.values(loads)
  const busy = await measureMachineLoad()
  await lasts(loads, AFTER_S)
  for (const load of all) await load.stop()
  const waits = Object.entries(loads).map(([name, load]) => `${name} ${Math.round(longestWait([load]))}`)
  t.diagnostic(`longest waits in ms: ${waits.join(', ')}; machine load ${busy.toFixed(1)}`)
  assert.deepEqual(all.flatMap(failures), [])
  const longest = longestWait(all)
  assert.ok(longest <= pauseMs + (waitMs - pauseMs) * busy, `${longest} ms, machine load ${busy}`)
}

interface Fault {
  readonly cause: string
  /** How svc doctor describes it. */
  readonly reason: string
  readonly limit?: WaitLimit
}

const SILENCE = 'it showed no sign of life for 5 s'

const FAULTS: Readonly<Record<string, Fault>> = {
  'is killed': { cause: 'SIGKILL', reason: 'it was ended by SIGKILL' },
  'is stopped': { cause: 'stop', reason: SILENCE },
  'is stopped in a transaction': { cause: 'stop in a transaction', reason: SILENCE, limit: LOCKED },
  'loops endlessly': { cause: 'endless loop', reason: SILENCE },
  // The parent may be first, because collecting garbage stops everything else.
  'reaches its memory limit': { cause: 'memory limit', reason: `(?:it was ended by SIG(?:ABRT|TRAP)|${SILENCE})` },
  'has an exception that nothing catches': { cause: 'exception', reason: 'it ended with exit code 70' },
}

const ENGINES: Readonly<Record<EngineName, Readonly<Record<string, Fault>>>> = {
  sqlite: FAULTS,
  // Transactions take turns of the event loop there, so it may be stopped in one.
  postgres: { 'is stopped': { cause: 'stop', reason: SILENCE, limit: LOCKED } },
}

for (const [engine, faults] of Object.entries(ENGINES) as [EngineName, (typeof ENGINES)[EngineName]][])
  suite(`faults of the runner on ${engine}`, engine === 'postgres' ? needs('postgres') : {}, () => {
    test('fail no request at a link or page, delay none for long, and every message is answered once', async (t) => {
      const loaded = await openLoaded(t, engine)
      let [runner, restarts] = [await loaded.runnerOf(), 0]
      for (const [what, { cause, reason, limit = SHORT }] of Object.entries(faults))
        await t.test(`when it ${what}`, async (t) => {
          const loads = loaded.startLoads()
          const times = ++restarts === 1 ? 'once' : `${restarts} times`
          await lasts(loads, BEFORE_S)
          loaded.cause(runner, cause)
          runner = await loaded.runnerOf([runner])
          await checkRequests(t, loads, limit)
          await loaded.checkAnswers(loads)
          const { stdout } = await loaded.demo.run('doctor', 'demo')
          assert.match(stdout, new RegExp(`the runner was started again ${times}: ${reason}`))
        })
    })
  })

suite('exceptions of the runner in fault boundaries', () => {
  test('fail no request and no turn, and the runner goes on', async (t) => {
    const loaded = await openLoaded(t)
    const runner = await loaded.runnerOf()
    const loads = loaded.startLoads()
    await lasts(loads, BEFORE_S)
    loaded.cause(runner, 'exceptions in boundaries')
    await checkRequests(t, loads, SHORT)
    await loaded.checkAnswers(loads)
    const places = (event: string): string[] =>
      [...new Set(loaded.log.join('').match(new RegExp(`(?<=odd ${event} in )\\w+`, 'g')))].sort()
    assert.deepEqual(places('code'), ['job', 'signal', 'tool', 'turn'])
    // Those of deliveries and of the network of runs are made with platforms and cells.
    assert.deepEqual(places('event'), ['job', 'process', 'search', 'signal', 'turn'])
    assert.equal(await loaded.runnerOf(), runner)
  })
})

suite('while messages arrive, the front that is killed', () => {
  test('is replaced; streams have no gap and no repetition, and runs go on', async (t) => {
    const loaded = await openLoaded(t)
    const [front, runner] = [await loaded.frontOf(), await loaded.runnerOf()]
    const loads = loaded.startLoads()
    const all: readonly PacedLoad[] = Object.values(loads)
    const streams: { readonly events: StreamEvent[]; readonly ended: Promise<void> }[] = []
    for (let at = 0; at < STREAMS; at++) streams.push(follow(loaded.streamOf(await loaded.postChat(`stream-${at}`))))
    await until(() => streams.every(({ events }) => events.length > 0))
    process.kill(front, 'SIGKILL')
    await loaded.frontOf([front])
    const counts = all.map(countAcknowledged)
    await until(() => all.every((load, at) => countAcknowledged(load) > (counts[at] ?? 0)))
    await lasts(loads, AFTER_S)
    for (const load of all) await load.stop()
    for (const { events, ended } of streams) {
      await ended
      assert.deepEqual(
        events.map(({ id }) => Number(id)),
        events.map((_, at) => at + 1),
      )
      assert.equal(JSON.parse(events.at(-1)?.data ?? '{}').status, 'success')
    }
    // Requests that the front had not answered, and those until the next one listened.
    const failed = all.flatMap(failures)
    t.diagnostic(`${failed.length} requests without a response`)
    assert.deepEqual(
      failed.filter((failure) => !/ECONNREFUSED|ECONNRESET|socket hang up|aborted/.test(failure)),
      [],
    )
    await loaded.checkAnswers(loads)
    assert.equal(await loaded.runnerOf(), runner)
    const { stdout } = await loaded.demo.run('doctor', 'demo')
    assert.match(stdout, /the front was started again once: it was ended by SIGKILL/)
  })
})

function countAcknowledged({ responses }: PacedLoad): number {
  return responses.filter(({ status }) => isAcknowledged(status)).length
}

/** Reads the stream of a round like a browser, which connects again with the last id that it has seen. */
function follow(url: string): { readonly events: StreamEvent[]; readonly ended: Promise<void> } {
  const events: StreamEvent[] = []
  const read = async (): Promise<boolean> => {
    const onEvent = (event: StreamEvent): undefined => void events.push(event)
    // It cannot connect until the next front listens.
    await readEvents(url, { lastId: events.at(-1)?.id, onEvent }).catch(() => undefined)
    return events.at(-1)?.event === 'round_done'
  }
  return { events, ended: until(read) }
}
