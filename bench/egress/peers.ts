// The proxies that ours is held against, from the machine's own packages, with the same policy and a log each.
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

/** The proxy has one processor, and whatever loads it the other. */
export const PROXY_CORE = ['taskset', '-c', '1'] as const
export const LOAD_CORE = ['taskset', '-c', '0'] as const
const START_MS = 20_000

export function mustHave(command: string, debianPackage: string): void {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin']
  if (folders.some((folder) => existsSync(join(folder, command)))) return
  throw new MissingRequirement(`needs ${command}: there is no ${command} (Debian: apt-get install ${debianPackage})`)
}

/** Squid changes to a user of its own and cannot read below a folder that is ours alone. */
function openFolder(root: string, name: string): string {
  chmodSync(root, 0o755)
  const folder = join(root, name)
  mkdirSync(folder, { recursive: true })
  chmodSync(folder, 0o777)
  return folder
}

/** Those programs cannot be told to take any port that is free. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  if (address === null || typeof address === 'string') throw new Error('there is no free port')
  return address.port
}

async function untilListening(child: ChildProcess, port: number): Promise<void> {
  const deadline = performance.now() + START_MS
  while (!(await isListening(port))) {
    if (child.exitCode !== null || performance.now() > deadline)
      throw new Error(`${child.spawnargs.join(' ')} does not listen`)
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

/** A program in the foreground on the proxies' processor; `pid` is the program's own. */
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

/** As Debian ships it but for the allowlist; lines of its log are kept back until there are some, as ours are. */
export async function openSquid(root: string): Promise<Peer> {
  mustHave('squid', 'squid')
  const [folder, port] = [openFolder(root, 'squid'), await freePort()]
  const lines = [
    `http_port 127.0.0.1:${port}`,
    'workers 1',
    'visible_hostname squid',
    'acl clients src 127.0.0.0/8',
    'acl allowed dstdomain localhost',
    'http_access allow clients allowed',
    'http_access deny all',
    'cache deny all',
    `access_log stdio:${folder}/access.log`,
    'buffered_logs on',
    `cache_log ${folder}/cache.log`,
    `coredump_dir ${folder}`,
    'netdb_filename none',
    'pid_filename none',
    'pinger_enable off',
    'max_filedescriptors 65536',
    'shutdown_lifetime 1 seconds',
  ]
  writeFileSync(join(folder, 'squid.conf'), `${lines.join('\n')}\n`)
  return openPeer(['squid', '-N', '-f', join(folder, 'squid.conf')], port)
}

export async function openTinyproxy(root: string): Promise<Peer> {
  mustHave('tinyproxy', 'tinyproxy')
  const [folder, port] = [openFolder(root, 'tinyproxy'), await freePort()]
  writeFileSync(join(folder, 'filter'), '^localhost$\n')
  const lines = [
    `Port ${port}`,
    'Listen 127.0.0.1',
    'Timeout 600',
    'MaxClients 12000',
    `LogFile "${folder}/log"`,
    'LogLevel Connect',
    `Filter "${folder}/filter"`,
    'FilterDefaultDeny Yes',
  ]
  writeFileSync(join(folder, 'tinyproxy.conf'), `${lines.join('\n')}\n`)
  return openPeer(['tinyproxy', '-d', '-c', join(folder, 'tinyproxy.conf')], port)
}
