// How long a tool call takes on a folder's socket, against an official server with one echo tool over the same transport.
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

type Name = 'echo' | 'kept' | 'read' | 'list' | 'send'

export async function benchToolCalls(): Promise<Result[]> {
  await using stage = new BenchScope()
  const instance = await openBenchInstance(join(stage.root, 'i'))
  const places = { echo: join(stage.root, 'echo'), kept: join(stage.root, 'kept') }
  await stage.start(openServer('echo', [ECHO, places.echo]))
  await stage.start(openServer('echo', [ECHO, places.kept, join(stage.root, 'kept.db')]))
  await stage.start(instance.serve())
  const { socket: main } = groupDirs(layout(instance.root), 'main')
  const callers: Record<Name, Caller> = {
    echo: await openCaller(stage, places.echo, 'echo', { text: 'hello' }),
    kept: await openCaller(stage, places.kept, 'echo', { text: 'hello' }),
    read: await openCaller(stage, main, 'inspect_identity', { sub: 'github:1' }),
    list: await openCaller(stage, main, 'refresh_groups', {}),
    send: await openCaller(stage, main, 'send', { chatJid: 'web:main', text: 'hello' }),
  }
  const names = Object.keys(callers) as Name[]
  const rounds: Record<Name, number>[] = []
  for (let round = 0; round < WARM + ROUNDS; round++) {
    const micros = { echo: 0, kept: 0, read: 0, list: 0, send: 0 }
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
    against('tool calls: a send over an echo that is kept for good', 'send', 'kept', 'at most 2'),
    against('tool calls: a send over an echo', 'send', 'echo', 'none; watched: an echo waits for no disk'),
  ]
}

/** Microseconds of the median call, one after another: what else the machine does falls on few of them. */
type Caller = (calls: number) => Promise<number>

async function openCaller(stage: BenchScope, path: string, name: string, args: object): Promise<Caller> {
  const socket = connect(path)
  stage.defer(() => void socket.destroy())
  await once(socket, 'connect')
  const ask = askerOf(socket)
  await ask('initialize', {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'bench', version: '0' },
  })
  return async (calls) => {
    const micros: number[] = []
    for (let call = 0; call < calls; call++) {
      const started = performance.now()
      await ask('tools/call', { name, arguments: args })
      micros.push((performance.now() - started) * 1000)
    }
    return median(micros)
  }
}

function askerOf(socket: Socket): (method: string, params: object) => Promise<void> {
  let [id, heard] = [0, '']
  let answered = (_line: string): void => {}
  socket.setEncoding('utf8')
  socket.on('data', (text: string) => {
    heard += text
    if (!heard.endsWith('\n')) return
    const line = heard
    heard = ''
    answered(line)
  })
  return async (method, params) => {
    const answer = new Promise<string>((resolve) => {
      answered = resolve
    })
    socket.write(`${JSON.stringify({ jsonrpc: '2.0', id: ++id, method, params })}\n`)
    const line = await answer
    if (line.includes('"isError":true') || line.includes('"error":')) throw new Error(`${method} was refused: ${line}`)
  }
}
