// Network of a run: connections through the socket that a cell hands to the proxy, against connections through the proxy's
// TCP listener. Client, origin and proxy are the same.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { PROXY_PORT } from '../src/cell/init-perl.ts'
import { openCell } from '../src/cell/open-cell.ts'
import { CELL_SETTINGS } from '../src/cell/settings.ts'
import { type EgressProxy, startProxy } from '../src/egress/proxy.ts'
import { Directory } from '../src/lib/files/directory.ts'
import { readSettings, sourceOf } from '../src/lib/settings.ts'
import { BenchScope } from './bench-scope.ts'
import { argsOf, build, type Load, type Mode, type Options, type Origin, openOrigin, readLoad } from './egress/load.ts'
import { mustHave } from './egress/peers.ts'
import { median, type Result } from './result.ts'
import { compare, shuffled } from './rounds.ts'

const NAMES = ['cell', 'tcp'] as const
type Name = (typeof NAMES)[number]
type Round = Readonly<Record<Name, Load>>

const CONNECTION_ROUNDS = 60
const CONNECTIONS = 100
const BULK_ROUNDS = 60
const BULK_BYTES = 200_000_000

const ALLOWED = { id: 'bench', allowlist: ['localhost'] }

export async function benchCellNetwork(): Promise<Result[]> {
  mustHave('cc', 'gcc libc6-dev')
  mustHave('bwrap', 'bubblewrap')
  await using scope = new BenchScope()
  // As root, the client in the cell runs as another user.
  chmodSync(scope.root, 0o711)
  const origin = await openOrigin(build('origin', scope.root))
  scope.defer(() => origin.stop())
  const proxy = await startProxy({ listen: { host: '127.0.0.1', port: 0 }, log: () => undefined })
  scope.defer(() => proxy.close())
  await proxy.sources.set({ ip: '127.0.0.1', ...ALLOWED })
  const program = build('load', scope.root)
  const clients = { cell: await openInCell(scope, proxy, program), tcp: openHere(scope, proxy, program) }
  return [await benchConnections(clients, origin), await benchThroughput(clients, origin)]
}

async function benchConnections(clients: Clients, origin: Origin): Promise<Result> {
  const options = { origin: origin.ports('echo'), count: CONNECTIONS, flight: 1 }
  const rounds = await runRounds(clients, CONNECTION_ROUNDS, 'tunnels', options)
  const micros = ({ ms, count }: Load): number => (ms * 1000) / count
  return {
    name: "cell network: time of a connection through a run's socket over one through the TCP listener",
    goal: 'at most 1.2',
    ...summarize(rounds, micros, 'µs'),
  }
}

async function benchThroughput(clients: Clients, origin: Origin): Promise<Result> {
  const options = { origin: origin.ports('source'), bytes: BULK_BYTES, tunnels: 1 }
  const rounds = await runRounds(clients, BULK_ROUNDS, 'bulk', options)
  return {
    name: "cell network: bytes a second of one tunnel through a run's socket over one through the TCP listener",
    goal: 'at least 0.9',
    ...summarize(rounds, ({ bytes, ms }) => bytes / ms / 1000, 'MB/s'),
  }
}

type Clients = Readonly<Record<Name, Client>>

/** Each round has one burst of each client, in random order; the first rounds only warm up. */
async function runRounds(clients: Clients, count: number, mode: Mode, options: Options): Promise<Round[]> {
  const rounds: Round[] = []
  const warm = Math.ceil(count / 10)
  for (let number = 0; number < warm + count; number++) {
    const entries: [Name, Load][] = []
    for (const name of shuffled(NAMES)) entries.push([name, await clients[name].run(mode, options)])
    // Both names have an entry, which the type of Object.fromEntries does not tell.
    if (number >= warm) rounds.push(Object.fromEntries(entries) as Round)
  }
  return rounds
}

function summarize(rounds: Round[], figure: (load: Load) => number, unit: string): Pick<Result, 'ratio' | 'detail'> {
  const { ratio, spread } = compare<Name, Load>(rounds, NAMES, figure)
  const [cell, tcp] = NAMES.map((name) => median(rounds.map((round) => figure(round[name]))).toFixed(0))
  return { ratio, detail: `${rounds.length} rounds, ${spread}; ${cell} ${unit}, TCP listener ${tcp} ${unit}` }
}

/** Runs the load generator once per line of arguments. A shell loop, because a cell runs one command. */
const LOOP = 'while read -r arguments; do "$1" $arguments || exit; done'

/** A process that runs the load generator repeatedly, in the network that it was started in. */
interface LoadProcess {
  readonly stdin: Writable
  readonly stdout: Readable
  readonly ended: Promise<unknown>
}

class Client {
  readonly #process: LoadProcess
  readonly #port: number
  readonly #lines: AsyncIterator<string>

  constructor(process: LoadProcess, port: number) {
    this.#process = process
    this.#port = port
    this.#lines = createInterface({ input: process.stdout })[Symbol.asyncIterator]()
  }

  async run(mode: Mode, options: Options): Promise<Load> {
    this.#process.stdin.write(`${argsOf(mode, { proxy: this.#port, ...options }).join(' ')}\n`)
    const { value, done } = await this.#lines.next()
    if (done) throw new Error('the load generator failed')
    return readLoad(value)
  }

  async end(): Promise<void> {
    this.#process.stdin.end()
    await this.#process.ended
  }
}

function openHere(scope: BenchScope, { forward }: EgressProxy, program: string): Client {
  if (!forward) throw new Error('the proxy has no TCP listener')
  // In its own session, as in a cell, because the kernel divides processor time between sessions.
  const child = spawn('/bin/sh', ['-c', LOOP, 'sh', program], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: {},
    detached: true,
  })
  const client = new Client({ stdin: child.stdin, stdout: child.stdout, ended: once(child, 'exit') }, forward.port)
  scope.defer(() => client.end())
  return client
}

/** Starts it in a cell like that of a run, whose init program opens the listener and hands it to the proxy. */
async function openInCell(scope: BenchScope, proxy: EgressProxy, program: string): Promise<Client> {
  const home = join(scope.root, 'home')
  mkdirSync(home)
  const overrides = sourceOf('the benchmark', new Map([['SANDBOX_PATHS', program]]))
  const cell = await openCell({
    settings: readSettings(CELL_SETTINGS, [overrides]),
    groups: home,
    chats: '/nowhere',
    files: '/nowhere',
  })
  scope.defer(() => cell.close())
  const openHome = async (): Promise<Directory> => {
    const directory = await Directory.open(home)
    if (!directory) throw new Error(`there is no directory ${home}`)
    return directory
  }
  const source = await proxy.openSource(ALLOWED)
  const place = { folder: 'bench', home, openHome, socket: '/dev/null', handover: source.handover }
  const child = await cell.start(place, ['/bin/sh', '-c', LOOP, 'sh', program], {})
  source.release()
  child.stderr.pipe(process.stderr)
  const client = new Client(child, PROXY_PORT)
  scope.defer(() => client.end())
  return client
}
