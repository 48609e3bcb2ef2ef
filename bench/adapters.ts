// Adapters of chat platforms, with Telegram as the example: time from an event of the platform to the stored message, events a
// second, and what an adapter costs while nothing happens. All daemons are on; the messages are routed and start no turn.
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { callVerb } from '../src/registry/call.ts'
import { channelAccountsResource } from '../src/resources/channel-accounts.ts'
import { routesResource } from '../src/resources/routes.ts'
import { BenchScope } from './bench-scope.ts'
import { type BotApi, openBotApi } from './bot-api.ts'
import { openBenchInstance } from './instance.ts'
import { median, middleHalf, type Result } from './result.ts'
import { shuffled, untilQuiet } from './rounds.ts'
import { adapterOf, openServer, processMicros, proportionalKiB, type Server } from './server.ts'

const ROUNDS = 7
/** Messages one after the other in each round. */
const [SINGLE, APART_MS] = [30, 20]
const [BURST, BURST_CHATS] = [2000, 50]
const RATE_GOAL = 500
const IDLE_MS = 30_000
const [MEMORY_GOAL_MB, CPU_GOAL] = [60, 0.002]
const [FEW_CHATS, MANY_CHATS] = [1000, 100_000]
const TOKEN = '123456789:token-of-the-benchmark-0123456789'
const POLLER = join(import.meta.dirname, 'bare-poller.ts')

const chatsUpTo = (count: number, first = 1): number[] => Array.from({ length: count }, (_, at) => first + at)

export async function benchAdapters(): Promise<Result[]> {
  await using scope = new BenchScope()
  const [bare, own] = [await openApi(scope), await openApi(scope)]
  const svc = await startSvc(scope, own)
  const adapter = { pid: adapterOf(svc) }
  // Before the first burst, so that it is as small as that of a new instance.
  const idle = await measureIdle(adapter)
  await scope.start(openServer('bare', [POLLER, bare.url, join(scope.root, 'bare.db')]))
  const single = await compareRounds({ bare: () => oneByOne(bare), svc: () => oneByOne(own) })
  const bursts = await compareRounds({ bare: () => perEvent(bare), svc: () => perEvent(own) })
  const rate = 1000 / median(bursts.map((round) => round.svc))
  await own.say(chatsUpTo(FEW_CHATS))
  const few = await settledKiB(svc, adapter)
  for (let first = FEW_CHATS; first < MANY_CHATS; first += BURST) await own.say(chatsUpTo(BURST, first))
  const many = await settledKiB(svc, adapter)
  const mb = (kib: number): string => `${((kib * 1024) / 1e6).toFixed(0)} MB`
  return [
    {
      name: 'adapters: from an event to its stored message, over a relay with one insert',
      ...ratioOf(single),
      goal: 'at most 2',
    },
    {
      name: `adapters: events a second over ${RATE_GOAL}`,
      ratio: rate / RATE_GOAL,
      goal: 'at least 1',
      detail: `${rate.toFixed(0)} a second in ${BURST_CHATS} chats; the relay ${(1000 / median(bursts.map((round) => round.bare))).toFixed(0)}`,
    },
    {
      name: `adapters: memory of an idle adapter over ${MEMORY_GOAL_MB} MB`,
      ratio: (idle.kib * 1024) / 1e6 / MEMORY_GOAL_MB,
      goal: 'at most 1',
      detail: `${mb(idle.kib)}; pages that it shares with other processes count in parts`,
    },
    {
      name: `adapters: processor time of an idle adapter over ${(CPU_GOAL * 100).toFixed(1)} % of a core`,
      ratio: idle.cpu / CPU_GOAL,
      goal: 'at most 1',
      detail: `${(idle.cpu * 100).toFixed(3)} % over ${IDLE_MS / 1000} s`,
    },
    {
      name: `adapters: memory after ${MANY_CHATS.toLocaleString('en')} chats over that after ${FEW_CHATS.toLocaleString('en')}`,
      ratio: many / few,
      goal: 'at most 1.1',
      detail: `${mb(many)} over ${mb(few)}`,
    },
  ]
}

async function openApi(scope: BenchScope): Promise<BotApi> {
  const api = await openBotApi()
  scope.defer(() => api.close())
  return api
}

/** Serves twice: the first start compiles and caches the code. */
async function startSvc(scope: BenchScope, api: BotApi): Promise<Server> {
  const instance = await openBenchInstance(join(scope.root, 'svc'), { TELEGRAM_API_URL: api.url })
  await instance.open(async (host) => {
    const cli = { host, caller: { kind: 'host', sub: 'cli' }, face: 'cli' } as const
    const account = {
      account: 'telegram',
      platform: 'telegram',
      settings: { dm: 'open' },
      secrets: { token: TOKEN },
    } as const
    await callVerb(cli, channelAccountsResource.verbs.add, account)
    await callVerb(cli, routesResource.verbs.create, { seq: 0, match: 'platform=telegram', target: 'builtin:drop' })
  })
  const first = await instance.serve()
  await api.say([1])
  await untilQuiet(first)
  await first.stop()
  const svc = await scope.start(instance.serve())
  await api.say([1])
  return svc
}

async function oneByOne(api: BotApi): Promise<number> {
  const times: number[] = []
  for (let count = 0; count < SINGLE; count++) {
    times.push(await api.say([1]))
    // svc routes the message meanwhile.
    await sleep(APART_MS)
  }
  return median(times)
}

/** Milliseconds of one event of many that wait. */
async function perEvent(api: BotApi): Promise<number> {
  const chats = Array.from({ length: BURST }, (_, at) => 1 + (at % BURST_CHATS))
  return (await api.say(chats)) / BURST
}

type Name = 'bare' | 'svc'

async function compareRounds(measures: Readonly<Record<Name, () => Promise<number>>>): Promise<Record<Name, number>[]> {
  const rounds: Record<Name, number>[] = []
  for (const name of ['bare', 'svc'] as const) await measures[name]()
  for (let count = 0; count < ROUNDS; count++) {
    const round = { bare: 0, svc: 0 }
    for (const name of shuffled(['bare', 'svc'] as const)) round[name] = await measures[name]()
    rounds.push(round)
  }
  return rounds
}

function ratioOf(rounds: readonly Record<Name, number>[]): Pick<Result, 'ratio' | 'detail'> {
  const ratios = rounds.map(({ bare, svc }) => svc / bare)
  const [low, high] = middleHalf(ratios)
  const ms = (name: Name): string => median(rounds.map((round) => round[name])).toFixed(2)
  return {
    ratio: median(ratios),
    detail: `${ms('svc')} ms over ${ms('bare')} ms; middle half ${low.toFixed(2)}–${high.toFixed(2)}`,
  }
}

async function measureIdle(adapter: Pick<Server, 'pid'>): Promise<{ readonly kib: number; readonly cpu: number }> {
  await sleep(IDLE_MS)
  const [before, started] = [processMicros(adapter.pid), performance.now()]
  await sleep(IDLE_MS)
  const micros = processMicros(adapter.pid) - before
  return { kib: proportionalKiB(adapter), cpu: micros / 1000 / (performance.now() - started) }
}

async function settledKiB(svc: Server, adapter: Pick<Server, 'pid'>): Promise<number> {
  await untilQuiet(svc, 60_000)
  await sleep(IDLE_MS)
  return proportionalKiB(adapter)
}
