// Thousands of open event streams on one link: memory of each, and time until a message has reached all.
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { BenchScope } from './bench-scope.ts'
import { mintChat, openBenchInstance } from './instance.ts'
import { median, type Result } from './result.ts'
import { untilQuiet } from './rounds.ts'
import { MANY_FILES, openBareServer, residentKiB, type Server } from './server.ts'

const STREAMS = 5000
/** Streams that only warm up. */
const FEW = 200
const MESSAGES = 7
const GOAL_KIB = 32
const GOAL_MS = 1000
const CLIENT = join(import.meta.dirname, 'stream-client.ts')

interface Cost {
  readonly kib: number
  readonly ms: number
  readonly slowestMs: number
}

export async function benchStreams(): Promise<Result[]> {
  await using scope = new BenchScope()
  const instance = await openBenchInstance(join(scope.root, 'chat'), { STREAMS_PER_LINK: '0', STREAMS_MAX: '0' })
  const chat = await instance.open(mintChat)
  const svc = await scope.start(instance.serve())
  const bare = await scope.start(openBareServer())
  const ours = await measure(svc, {
    path: `${chat}events`,
    post: (text) => post(`${svc.url}${chat}`, JSON.stringify({ content: text })),
  })
  const bares = await measure(bare, { path: '/events', post: (text) => post(`${bare.url}/events`, text) })
  return [
    {
      name: `streams: memory of each of ${STREAMS.toLocaleString('en')}`,
      ratio: ours.kib / GOAL_KIB,
      goal: `at most 1 (${GOAL_KIB} KiB)`,
      detail: `${ours.kib.toFixed(1)} KiB; bare node:http ${bares.kib.toFixed(1)} KiB`,
    },
    {
      name: `streams: until a message has reached ${STREAMS.toLocaleString('en')}`,
      ratio: ours.ms / GOAL_MS,
      goal: `at most 1 (${GOAL_MS / 1000} s)`,
      detail: `${ours.ms.toFixed(0)} ms, slowest of ${MESSAGES} ${ours.slowestMs.toFixed(0)} ms; bare node:http ${bares.ms.toFixed(0)} ms`,
    },
  ]
}

interface StreamSource {
  readonly path: string
  post(text: string): Promise<void>
}

async function measure(server: Server, { path, post }: StreamSource): Promise<Cost> {
  const warm = await openStreams(`${server.url}${path}`, FEW)
  await warm.measureDelivery('a first text', post)
  await warm.close()
  await untilQuiet(server)
  const before = residentKiB(server)
  const streams = await openStreams(`${server.url}${path}`, STREAMS)
  try {
    await untilQuiet(server)
    const kib = (residentKiB(server) - before) / STREAMS
    const times: number[] = []
    for (let index = 0; index < MESSAGES; index++) {
      times.push(await streams.measureDelivery(`text-${index}-of-${process.pid}`, post))
      await untilQuiet(server)
    }
    return { kib, ms: median(times), slowestMs: Math.max(...times) }
  } finally {
    await streams.close()
  }
}

async function post(url: string, body: string): Promise<void> {
  const answer = await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body })
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
}

interface OpenStreams {
  /** Milliseconds from the post until the text has arrived on every stream. */
  measureDelivery(text: string, post: (text: string) => Promise<void>): Promise<number>
  close(): Promise<void>
}

/** In a process of its own; `cookie` is that of a session. */
export async function openStreams(url: string, count: number, cookie = ''): Promise<OpenStreams> {
  const child = spawn('sh', ['-c', MANY_FILES, 'sh', process.execPath, CLIENT, url, `${count}`, cookie])
  child.stderr.pipe(process.stderr)
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const expectLine = async (word: string): Promise<string> => {
    const { value } = await lines.next()
    if (typeof value === 'string' && value.startsWith(word)) return value.slice(word.length)
    throw new Error(`the stream client printed ${JSON.stringify(value)} instead of ${word}`)
  }
  await expectLine('open')
  return {
    measureDelivery: async (text, post) => {
      child.stdin.write(`${text}\n`)
      await expectLine('waiting')
      const posted = performance.timeOrigin + performance.now()
      await post(text)
      return Number(await expectLine('all ')) - posted
    },
    close: () => endClient(child),
  }
}

async function endClient(child: ChildProcessWithoutNullStreams): Promise<void> {
  const exit = child.exitCode === null ? once(child, 'exit') : undefined
  child.stdin.end()
  await exit
}
