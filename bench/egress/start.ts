// How long an operator waits: from the start until it listens, and from a registration until it holds.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { BenchScope, flushMs } from '../bench-scope.ts'
import { median, middleHalf, type Result } from '../result.ts'
import { build, openOrigin } from './load.ts'
import { EGRESS_PROXY, type Ours, openOurs, register } from './ours.ts'
import { mustHave, stopChild } from './peers.ts'

const STARTS = 10
const REGISTRATIONS = 50
const EFFECT_MS = 10

export async function benchStart(): Promise<Result[]> {
  await using stage = new BenchScope()
  const env = {
    PATH: process.env.PATH,
    XDG_CACHE_HOME: join(stage.root, 'cache'),
    EGRESS_STATE_PATH: join(stage.root, 'state.json'),
    EGRESS_TRANSPARENT_ADDR: '127.0.0.1:0',
  }
  const rounds: { readonly bare: number; readonly ready: number }[] = []
  for (let start = 0; start <= STARTS; start++) rounds.push({ bare: bareMs(), ready: await readyMs(env) })
  // The first had no compiled code kept.
  const [first, ...rest] = rounds
  const [bare, ready] = [median(rest.map((each) => each.bare)), median(rest.map((each) => each.ready))]
  return [
    {
      name: 'start: egress-proxy proxy serve until it listens, over node -e 0',
      ratio: median(rest.map((each) => each.ready / each.bare)),
      goal: 'at most 5',
      detail: `${ready.toFixed(0)} ms, the first time ${first?.ready.toFixed(0)} ms; node -e 0 ${bare.toFixed(0)} ms`,
    },
  ]
}

function bareMs(): number {
  const started = performance.now()
  execFileSync(process.execPath, ['-e', '0'], { stdio: 'ignore' })
  return performance.now() - started
}

async function readyMs(env: NodeJS.ProcessEnv): Promise<number> {
  const started = performance.now()
  const args = ['proxy', 'serve', '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']
  // With the flag of the installed command; without it the launcher would start Node a second time.
  const words = ['--disable-warning=ExperimentalWarning', EGRESS_PROXY, ...args]
  const child = spawn(process.execPath, words, { env, stdio: ['ignore', 'pipe', 'ignore'] })
  try {
    for await (const line of createInterface({ input: child.stdout }))
      if (line === 'ready') return performance.now() - started
    throw new Error('egress-proxy ended before it was ready')
  } finally {
    await stopChild(child)
  }
}

/** From the first byte of the registration, which is on the disk before it is answered, to the 200 of a CONNECT. */
export async function benchRegister(): Promise<Result[]> {
  mustHave('cc', 'gcc libc6-dev')
  await using stage = new BenchScope()
  const origin = await openOrigin(build('origin', stage.root))
  stage.defer(() => origin.stop())
  const ours = await openOurs(stage.root)
  stage.defer(() => ours.stop())
  const port = Number(origin.ports('echo').split(',')[0])
  const times: number[] = []
  for (let turn = 0; turn < REGISTRATIONS; turn++) times.push(await effectMs(ours, port, turn))
  const [low, high] = middleHalf(times)
  const flush = flushMs(stage.root)
  return [
    {
      name: 'register: from the request until a CONNECT is let through, over 10 ms',
      ratio: median(times) / EFFECT_MS,
      goal: 'at most 1.0',
      detail: `${median(times).toFixed(2)} ms, middle half ${low.toFixed(2)}–${high.toFixed(2)} ms; one flush of 4 KiB to this disk ${flush.toFixed(2)} ms`,
    },
  ]
}

async function effectMs(ours: Ours, port: number, turn: number): Promise<number> {
  const ip = `127.0.1.${turn + 1}`
  const before = await statusOfConnect(ours, ip, port)
  const started = performance.now()
  await register(ours, ip, ['localhost'])
  const after = await statusOfConnect(ours, ip, port)
  if (before !== '403' || after !== '200') throw new Error(`a CONNECT was answered ${before}, then ${after}`)
  return performance.now() - started
}

async function statusOfConnect(ours: Ours, localAddress: string, port: number): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port: ours.port, localAddress })
  socket.write(`CONNECT localhost:${port} HTTP/1.1\r\nHost: localhost:${port}\r\n\r\n`)
  const [head] = await once(socket, 'data')
  socket.destroy()
  return String(head).slice(9, 12)
}
