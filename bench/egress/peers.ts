// The proxies that egress-proxy is compared with: installed packages, with the same policy and an access log.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { MissingRequirement } from '../result.ts'
import { MANY_FILES } from '../server.ts'

/** A proxy under test. */
export interface Peer {
  readonly pid: number
  readonly port: number
  stop(): Promise<void>
}

export const PROXY_CORE = ['taskset', '-c', '1'] as const
export const LOAD_CORE = ['taskset', '-c', '0'] as const
const START_MS = 20_000

export function mustHave(command: string, debianPackage: string): void {
  const directories = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin']
  if (directories.some((directory) => existsSync(join(directory, command)))) return
  throw new MissingRequirement(`${command} is not installed (Debian: apt-get install ${debianPackage})`)
}

/** Creates a directory that all users can use, because squid switches to a user of its own. */
function createSharedDirectory(root: string, name: string): string {
  chmodSync(root, 0o755)
  const directory = join(root, name)
  mkdirSync(directory, { recursive: true })
  chmodSync(directory, 0o777)
  return directory
}

/** These proxies cannot listen on port 0. */
async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  if (address === null || typeof address === 'string') throw new Error('no free port')
  return address.port
}

async function untilListening(child: ChildProcess, port: number): Promise<void> {
  const deadline = performance.now() + START_MS
  while (!(await isListening(port))) {
    if (child.exitCode !== null || performance.now() > deadline)
      throw new Error(`${child.spawnargs.join(' ')} does not listen on its port`)
    await sleep(20)
  }
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

/** Starts a program on the processor of the proxies. `taskset` and `sh` replace themselves, so `pid` is that of the program. */
export function spawnPinned(args: readonly string[], env: NodeJS.ProcessEnv, log: number | 'ignore'): ChildProcess {
  const path = `${process.env.PATH}${delimiter}/usr/sbin`
  return spawn('sh', ['-c', MANY_FILES, 'sh', ...PROXY_CORE, ...args], {
    env: { HOME: process.env.HOME, ...env, PATH: path },
    stdio: ['ignore', 'pipe', log],
  })
}

export async function stopChild(child: ChildProcess): Promise<void> {
  const ended = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined
  child.kill('SIGTERM')
  await ended
}

async function openPeer(args: readonly string[], port: number): Promise<Peer> {
  const child = spawnPinned(args, {}, 'ignore')
  await untilListening(child, port)
  if (child.pid === undefined) throw new Error(`${args[0]} did not start`)
  return { pid: child.pid, port, stop: () => stopChild(child) }
}

/** The configuration of Debian with an allowlist, and with buffered logs like those of egress-proxy. */
export async function openSquid(root: string): Promise<Peer> {
  mustHave('squid', 'squid')
  const [directory, port] = [createSharedDirectory(root, 'squid'), await findFreePort()]
  const lines = [
    `http_port 127.0.0.1:${port}`,
    'workers 1',
    'visible_hostname squid',
    'acl clients src 127.0.0.0/8',
    'acl allowed dstdomain localhost',
    'http_access allow clients allowed',
    'http_access deny all',
    'cache deny all',
    `access_log stdio:${directory}/access.log`,
    'buffered_logs on',
    `cache_log ${directory}/cache.log`,
    `coredump_dir ${directory}`,
    'netdb_filename none',
    'pid_filename none',
    'pinger_enable off',
    'max_filedescriptors 65536',
    'shutdown_lifetime 1 seconds',
  ]
  writeFileSync(join(directory, 'squid.conf'), `${lines.join('\n')}\n`)
  return openPeer(['squid', '-N', '-f', join(directory, 'squid.conf')], port)
}

export async function openTinyproxy(root: string): Promise<Peer> {
  mustHave('tinyproxy', 'tinyproxy')
  const [directory, port] = [createSharedDirectory(root, 'tinyproxy'), await findFreePort()]
  writeFileSync(join(directory, 'filter'), '^localhost$\n')
  const lines = [
    `Port ${port}`,
    'Listen 127.0.0.1',
    'Timeout 600',
    'MaxClients 12000',
    `LogFile "${directory}/log"`,
    'LogLevel Connect',
    `Filter "${directory}/filter"`,
    'FilterDefaultDeny Yes',
  ]
  writeFileSync(join(directory, 'tinyproxy.conf'), `${lines.join('\n')}\n`)
  return openPeer(['tinyproxy', '-d', '-c', join(directory, 'tinyproxy.conf')], port)
}
