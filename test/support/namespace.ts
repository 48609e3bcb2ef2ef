// A network namespace for a test, and sockets in it. It does not affect the network of the machine, and it disappears with its
// process, even if the test is killed.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import type { Socket as Datagrams } from 'node:dgram'
import { once } from 'node:events'
import type { Server, Socket } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Order, Outcome } from './namespace-child.ts'
import type { CleanupScope } from './temp.ts'

const CHILD = join(import.meta.dirname, 'namespace-child.ts')
const run = promisify(execFile)

/** A command that runs another in a network of its own, where all ports are free, and as this user. */
export function inNewNetwork(
  command: readonly string[],
  { uid, gid }: { readonly uid?: number; readonly gid?: number } = {},
): string[] {
  const user = uid === undefined ? [] : ['setpriv', `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups']
  return ['unshare', '--net', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh', ...user, ...command]
}

export class Namespace {
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, (outcome: Outcome, handle: unknown) => void>()
  #number = 0

  private constructor(child: ChildProcess) {
    this.#child = child
    child.on('message', (outcome: Outcome, handle) => {
      this.#waiting.get(outcome.number)?.(outcome, handle)
      this.#waiting.delete(outcome.number)
    })
  }

  /** Contains only a loopback that is up. */
  static async open(t: CleanupScope): Promise<Namespace> {
    const stdio = ['ignore', 'inherit', 'inherit', 'ipc'] as const
    const child = spawn('unshare', ['--net', process.execPath, CHILD], { stdio: [...stdio] })
    t.after(() => child.disconnect())
    await once(child, 'message')
    const namespace = new Namespace(child)
    await namespace.run('ip', 'link', 'set', 'dev', 'lo', 'up')
    return namespace
  }

  /** The name for `ip`. */
  get pid(): number {
    return this.#child.pid ?? 0
  }

  /** Prefix of a command that runs in this namespace. */
  get inside(): readonly string[] {
    return ['nsenter', `--net=/proc/${this.pid}/ns/net`]
  }

  async run(...command: string[]): Promise<string> {
    const [program = '', ...args] = [...this.inside, ...command]
    const { stdout } = await run(program, args)
    return stdout
  }

  /** Lines for `ip -batch`. */
  async configure(...lines: string[]): Promise<void> {
    const [program = '', ...args] = [...this.inside, 'ip', '-batch', '-']
    const child = spawn(program, args, { stdio: ['pipe', 'inherit', 'inherit'] })
    child.stdin.end(`${lines.join('\n')}\n`)
    const [code] = await once(child, 'exit')
    if (code !== 0) throw new Error(`ip refused one of: ${lines.join('; ')}`)
  }

  /** A server with half-open connections. */
  async listen(host: string, port: number): Promise<Server> {
    // The child sends a server for this command.
    const server = (await this.#order('listen', host, port)) as Server
    return Object.assign(server, { allowHalfOpen: true })
  }

  /** Rejects with the system error code. */
  async connect(host: string, port: number, from?: string): Promise<Socket> {
    // The child sends a socket for this command.
    const socket = (await this.#order('connect', host, port, from)) as Socket
    return Object.assign(socket, { allowHalfOpen: true })
  }

  async datagrams(host: string, port: number): Promise<Datagrams> {
    // The child sends a datagram socket for this command.
    return (await this.#order('datagrams', host, port)) as Datagrams
  }

  #order(kind: Order['kind'], host: string, port: number, from?: string): Promise<unknown> {
    const number = ++this.#number
    const order: Order = { number, kind, host, port, from }
    return new Promise((resolve, reject) => {
      this.#waiting.set(number, ({ error }, handle) =>
        error === undefined ? resolve(handle) : reject(new Error(error)),
      )
      this.#child.send(order)
    })
  }
}
