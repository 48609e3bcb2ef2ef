// Time of a tool call on a folder's socket, against a server of the official SDK with one echo tool on the same transport.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { groupDirs, layout } from '../src/core/layout.ts'
import { BenchScope } from './bench-scope.ts'
import { openBenchInstance } from './instance.ts'
import { median, middleHalf, type Result } from './result.ts'
import { openServer } from './server.ts'

const ECHO = join(import.meta.dirname, 'echo-server.ts')
const CALLS = 200
const WARM = 4
const ROUNDS = 9

type Name = 'echo' | 'durable' | 'read' | 'list' | 'send'

export async function benchToolCalls(): Promise<Result[]> {
  await using scope = new BenchScope()
  const instance = await openBenchInstance(join(scope.root, 'i'))
  const sockets = { echo: join(scope.root, 'echo'), durable: join(scope.root, 'durable') }
  await scope.start(openServer('echo', [ECHO, sockets.echo]))
  await scope.start(openServer('echo', [ECHO, sockets.durable, join(scope.root, 'durable.db')]))
  await scope.start(instance.serve())
  const { socket: main } = groupDirs(layout(instance.root), 'main')
  const callers: Record<Name, Caller> = {
    echo: await openCaller(scope, sockets.echo, 'echo', { text: 'hello' }),
    durable: await openCaller(scope, sockets.durable, 'echo', { text: 'hello' }),
    read: await openCaller(scope, main, 'inspect_identity', { sub: 'github:1' }),
    list: await openCaller(scope, main, 'refresh_groups', {}),
    send: await openCaller(scope, main, 'send', { chatJid: 'web:main', text: 'hello' }),
  }
  const names = Object.keys(callers) as Name[]
  const rounds: Record<Name, number>[] = []
  for (let round = 0; round < WARM + ROUNDS; round++) {
    const micros = { echo: 0, durable: 0, read: 0, list: 0, send: 0 }
    for (const name of round % 2 ? names : names.toReversed()) micros[name] = await callers[name](CALLS)
    if (round >= WARM) rounds.push(micros)
  }
  const shown = (name: Name): string => `${median(rounds.map((micros) => micros[name])).toFixed(0)} µs`
  const against = (name: string, ours: Name, theirs: Name, goal: string): Result => {
    const ratios = rounds.map((micros) => micros[ours] / micros[theirs])
    const [low, high] = middleHalf(ratios)
    const detail = `${shown(ours)} against ${shown(theirs)}; the middle half of ${ROUNDS} rounds ${low.toFixed(2)} to ${high.toFixed(2)}`
    return { name, ratio: median(ratios), goal, detail }
  }
  return [
    against('tool calls: a read over an echo', 'read', 'echo', 'at most 1.5'),
    against('tool calls: a list over an echo', 'list', 'echo', 'none; watched'),
    against('tool calls: a send over an echo that is kept for good', 'send', 'durable', 'at most 2'),
    against('tool calls: a send over an echo', 'send', 'echo', 'none; watched: an echo waits for no disk'),
  ]
}

/** Makes calls one after another and returns the median in microseconds, which other load on the machine hardly affects. */
type Caller = (calls: number) => Promise<number>

async function openCaller(scope: BenchScope, path: string, name: string, args: object): Promise<Caller> {
  const socket = connect(path)
  scope.defer(() => void socket.destroy())
  await once(socket, 'connect')
  const request = openRequests(socket)
  await request('initialize', {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'bench', version: '0' },
  })
  return async (calls) => {
    const micros: number[] = []
    for (let call = 0; call < calls; call++) {
      const started = performance.now()
      await request('tools/call', { name, arguments: args })
      micros.push((performance.now() - started) * 1000)
    }
    return median(micros)
  }
}

function openRequests(socket: Socket): (method: string, params: object) => Promise<void> {
  let [id, received] = [0, '']
  let onResponse = (_line: string): void => {}
  socket.setEncoding('utf8')
  socket.on('data', (text: string) => {
    received += text
    if (!received.endsWith('\n')) return
    const line = received
    received = ''
    onResponse(line)
  })
  return async (method, params) => {
    const response = new Promise<string>((resolve) => {
      onResponse = resolve
    })
    socket.write(`${JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params })}\n`)
    const line = await response
    if (line.includes('"isError":true') || line.includes('"error":')) throw new Error(`${method} was refused: ${line}`)
  }
}
