// A child process that passes a listening socket, or something invalid, to the proxy (`hand-over.py`).
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { SocketSource } from '../../src/egress/proxy.ts'
import type { CleanupScope } from './temp.ts'

const SCRIPT = join(import.meta.dirname, 'hand-over.py')

/** See `hand-over.py`. */
export type HandoverKind =
  | 'listener'
  | 'two'
  | 'twice'
  | 'many'
  | 'pipe'
  | 'udp'
  | 'connected'
  | 'bound'
  | 'unix'
  | 'words'
  | 'end'
  | 'shutdown'
  | 'linger'
  | 'blocking'

export interface HandoverChild {
  readonly child: ChildProcess
  /** The port of its listener on loopback. */
  readonly port: number
  /** The next line of its output. */
  nextLine(): Promise<string>
  /** Stops it and waits for its exit. */
  end(): Promise<void>
}

/** The parameters of a child. */
type Handover = Pick<SocketSource, 'handover' | 'release'>

/** Resolves when the child has sent the socket. */
export async function handOver(t: CleanupScope, source: Handover, kind: HandoverKind): Promise<HandoverChild> {
  const child = spawn('python3', [SCRIPT, kind, '0'], { stdio: ['pipe', 'pipe', 'inherit', source.handover] })
  source.release()
  return follow(t, child)
}

/** A child with a listener for each of these sources. */
export async function handOverEach(t: CleanupScope, sources: readonly Handover[]): Promise<HandoverChild> {
  const handovers = sources.map(({ handover }) => handover)
  const args = [SCRIPT, 'each', `${sources.length}`]
  const child = spawn('python3', args, { stdio: ['pipe', 'pipe', 'inherit', ...handovers] })
  for (const source of sources) source.release()
  return follow(t, child)
}

/** Runs a command in a network namespace with only loopback, where the proxy listens on port 3128. */
export async function runInNamespace(source: Handover, command: string): Promise<string> {
  const inside = `ip link set lo up && exec python3 ${SCRIPT} listener 3128 sh -c '${command}'`
  const child = spawn('unshare', ['--net', 'sh', '-c', inside], {
    stdio: ['pipe', 'pipe', 'inherit', source.handover],
    env: { PATH: process.env.PATH, http_proxy: 'http://127.0.0.1:3128', https_proxy: 'http://127.0.0.1:3128' },
  })
  source.release()
  let output = ''
  for await (const chunk of child.stdout ?? []) output += chunk
  return output
}

async function follow(t: CleanupScope, child: ChildProcess): Promise<HandoverChild> {
  const { stdin, stdout } = child
  if (!stdin || !stdout) throw new Error('the child has no pipes')
  const exited = once(child, 'exit')
  t.after(() => child.kill('SIGKILL'))
  const lines = createInterface(stdout)[Symbol.asyncIterator]()
  const nextLine = async (): Promise<string> => (await lines.next()).value ?? ''
  const { port } = JSON.parse(await nextLine())
  const end = async (): Promise<void> => {
    stdin.end()
    await exited
  }
  return { child, port, nextLine, end }
}
