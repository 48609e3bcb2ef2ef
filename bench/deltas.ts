// The text of an answer on its way from the endpoint of a model to the streams that ask for deltas, beside a bare relay.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setInterval as ticks } from 'node:timers/promises'
import { BenchScope } from './bench-scope.ts'
import { mintChat, openBenchInstance } from './instance.ts'
import { median, type Result } from './result.ts'
import { compare, shuffled } from './rounds.ts'
import { frontOf, MANY_FILES, openServer, processMicros, type Server } from './server.ts'

const PIECES = 25
const EVERY_MS = 200
const ROUNDS = 7
const READERS = 1000
const GOAL_P99_MS = 500
const GOAL_MICROS = 60
const NAMES = ['svc', 'bare'] as const
type Name = (typeof NAMES)[number]

interface Figures {
  readonly deltas: number
  readonly medianMs: number
  readonly p99Ms: number
  /** Processor time of the process that serves the streams. */
  readonly micros: number
}

interface Source {
  readonly server: Server
  readonly stream: string
  /** Resolves when the answer is complete. */
  ask(): Promise<void>
}

export async function benchDeltas(): Promise<Result[]> {
  await using scope = new BenchScope()
  const endpoint = await openEndpoint(scope)
  const svc = await openSvc(scope, endpoint)
  const bare = await openBare(scope, endpoint)
  const sources = { svc, bare }
  const rounds: Record<Name, Figures>[] = []
  for (let round = -1; round < ROUNDS; round++) {
    const entries: [Name, Figures][] = []
    for (const name of shuffled(NAMES)) entries.push([name, await measure(sources[name], 1)])
    // Both names have an entry, which the type of Object.fromEntries does not tell. The first round warms up.
    if (round >= 0) rounds.push(Object.fromEntries(entries) as Record<Name, Figures>)
  }
  const { ratio, spread } = compare<Name, Figures>(rounds, NAMES, ({ medianMs }) => medianMs)
  const shown = (name: Name): string => `${median(rounds.map((round) => round[name].medianMs)).toFixed(2)} ms`
  const many = await measure(svc, READERS)
  const bareMany = await measure(bare, READERS)
  const micros = ({ micros: all, deltas }: Figures): number => all / deltas
  const count = READERS.toLocaleString('en')
  return [
    {
      name: 'deltas: from the piece of the endpoint to the event, over a bare relay',
      ratio,
      goal: 'at most 2',
      detail: `${spread} of ${ROUNDS}; ${shown('svc')}, bare ${shown('bare')}`,
    },
    {
      name: `deltas: p99 of ${count} readers at ${1000 / EVERY_MS} a second`,
      ratio: many.p99Ms / GOAL_P99_MS,
      goal: `at most 1 (${GOAL_P99_MS} ms)`,
      detail: `${many.p99Ms.toFixed(0)} ms, median ${many.medianMs.toFixed(0)} ms; bare ${bareMany.p99Ms.toFixed(0)} ms`,
    },
    {
      name: 'deltas: processor time of the front for each of them and reader',
      ratio: micros(many) / GOAL_MICROS,
      goal: `at most 1 (${GOAL_MICROS} µs)`,
      detail: `${micros(many).toFixed(1)} µs, bare ${micros(bareMany).toFixed(1)} µs; ${many.deltas} deltas`,
    },
  ]
}

/** Streams pieces that have the time of their writing. */
async function openEndpoint(scope: BenchScope): Promise<string> {
  const server = createServer(async (request, response) => {
    for await (const _ of request);
    response.writeHead(200, { 'Content-Type': 'text/event-stream' })
    const send = (delta: object, finish_reason: string | null = null): void =>
      void response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })}\n\n`)
    let left = PIECES
    for await (const _ of ticks(EVERY_MS)) {
      send({ content: `text @${performance.timeOrigin + performance.now()}@` })
      if (--left === 0) break
    }
    send({}, 'stop')
    response.end('data: [DONE]\n\n')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  scope.defer(() => void server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
}

async function openSvc(scope: BenchScope, endpoint: string): Promise<Source> {
  const instance = await openBenchInstance(join(scope.root, 'deltas'), {
    ...{ STREAMS_PER_LINK: '0', STREAMS_MAX: '0' },
    ...{ AGENT_RUNTIME: 'openai', OPENAI_BASE_URL: endpoint, OPENAI_MODEL: 'bench' },
  })
  const path = await instance.open(mintChat)
  const server = await scope.start(instance.serve())
  const chat = `${server.url}${path}`
  const ask = async (): Promise<void> => {
    const post = await fetch(chat, { method: 'POST', body: new URLSearchParams({ content: 'write' }) })
    const { turn_id } = (await post.json()) as { turn_id: string }
    const events = await (await fetch(`${chat}${turn_id}/sse`)).text()
    if (!events.includes('"status":"success"')) throw new Error(events)
  }
  return { server, stream: `${chat}events?deltas=1`, ask }
}

async function openBare(scope: BenchScope, endpoint: string): Promise<Source> {
  const server = await scope.start(openServer('bare', [join(import.meta.dirname, 'bare-relay.ts')]))
  const ask = async (): Promise<void> => void (await fetch(server.url, { method: 'POST', body: endpoint }))
  return { server, stream: server.url, ask }
}

async function measure({ server, stream, ask }: Source, readers: number): Promise<Figures> {
  const client = join(import.meta.dirname, 'delta-client.ts')
  const child = spawn('sh', ['-c', MANY_FILES, 'sh', process.execPath, client, stream, `${readers}`])
  child.stderr.pipe(process.stderr)
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  if ((await lines.next()).value !== 'open') throw new Error('the client did not open its streams')
  child.stdin.write('\n')
  await lines.next()
  const before = processMicros(frontOf(server))
  await ask()
  const micros = processMicros(frontOf(server)) - before
  child.stdin.write('\n')
  const { value = '' } = await lines.next()
  child.stdin.end()
  await once(child, 'exit')
  return { ...JSON.parse(value), micros }
}
