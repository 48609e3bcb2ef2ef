// Latency for an operator: from the start until the proxy listens, and from a registration until it takes effect.
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
  for (let start = 0; start <= STARTS; start++) rounds.push({ bare: measureBareMs(), ready: await measureReadyMs(env) })
  // The first start has no compile cache.
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

function measureBareMs(): number {
  const started = performance.now()
  execFileSync(process.execPath, ['-e', '0'], { stdio: 'ignore' })
  return performance.now() - started
}

async function measureReadyMs(env: NodeJS.ProcessEnv): Promise<number> {
  const started = performance.now()
  const args = ['proxy', 'serve', '--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0']
  // Without this flag, which the installed command sets, the launcher would start Node a second time.
  const command = ['--disable-warning=ExperimentalWarning', EGRESS_PROXY, ...args]
  const child = spawn(process.execPath, command, { env, stdio: ['ignore', 'pipe', 'ignore'] })
  try {
    for await (const line of createInterface({ input: child.stdout }))
      if (line === 'ready') return performance.now() - started
    throw new Error('egress-proxy exited before it was ready')
  } finally {
    await stopChild(child)
  }
}

/** Measures from the registration request, which is answered after it is on disk, to the 200 of a CONNECT. */
export async function benchRegister(): Promise<Result[]> {
  mustHave('cc', 'gcc libc6-dev')
  await using stage = new BenchScope()
  const origin = await openOrigin(build('origin', stage.root))
  stage.defer(() => origin.stop())
  const ours = await openOurs(stage.root)
  stage.defer(() => ours.stop())
  const port = Number(origin.ports('echo').split(',')[0])
  const times: number[] = []
  for (let turn = 0; turn < REGISTRATIONS; turn++) times.push(await measureEffectMs(ours, port, turn))
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

async function measureEffectMs(ours: Ours, port: number, turn: number): Promise<number> {
  const ip = `127.0.1.${turn + 1}`
  const before = await sendConnect(ours, ip, port)
  const started = performance.now()
  await register(ours, ip, ['localhost'])
  const after = await sendConnect(ours, ip, port)
  if (before !== '403' || after !== '200')
    throw new Error(`CONNECT returned ${before}, then ${after}; expected 403, then 200`)
  return performance.now() - started
}

async function sendConnect(ours: Ours, localAddress: string, port: number): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port: ours.port, localAddress })
  socket.write(`CONNECT localhost:${port} HTTP/1.1\r\nHost: localhost:${port}\r\n\r\n`)
  const [head] = await once(socket, 'data')
  socket.destroy()
  return String(head).slice(9, 12)
}
