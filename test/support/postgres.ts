// A real PostgreSQL server for tests, from the packages of the machine. `npm test` starts one for the whole run and sets
// SVC_TEST_POSTGRES; a test file that is run directly starts its own.
import { type ChildProcessByStdio, execFileSync, spawn } from 'node:child_process'
import { hash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  chownSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statfsSync,
  writeFileSync,
} from 'node:fs'
import { createServer, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'

/** The environment variable with the URL of the shared server. */
export const SHARED_POSTGRES = 'SVC_TEST_POSTGRES'

const OLDEST = 15
const DEBIAN_FOLDER = '/usr/lib/postgresql'

export interface Postgres {
  url(database?: string): string
  /** Creates an empty database and returns its URL. */
  createDatabase(): Promise<string>
  /** Creates a copy of a database that `fill` has filled once for this server and name. */
  copyDatabase(name: string, fill: (url: string) => Promise<void>): Promise<string>
  /** Stops the server; for a shared one, removes only the databases of this process. Closes open connections. */
  stop(): Promise<void>
}

export interface PostgresOptions {
  /**
   * `false` disables fsync for speed. `true` never shares: a separate server with the defaults of an operator.
   * By default: the shared server, or a durable one, so that an unsafe one is never measured by accident.
   */
  readonly durable?: boolean
  /** Settings of the server, as `name=value`. A server with settings is not shared. */
  readonly settings?: readonly string[]
}

/** Why no server can be started here, or undefined. */
export function postgresMissing(): string | undefined {
  return process.env[SHARED_POSTGRES] ? undefined : serverMissing()
}

function serverMissing(): string | undefined {
  if (!findBinaries()) return `PostgreSQL ${OLDEST} or newer is not installed`
  if (isRoot() && !findAccount()) return 'PostgreSQL refuses to run as root, and there is no user postgres or nobody'
  return undefined
}

export async function openPostgres(options: PostgresOptions = {}): Promise<Postgres> {
  const shared = process.env[SHARED_POSTGRES]
  if (shared && !options.durable && !options.settings) return attach(shared)
  const binaries = findBinaries()
  if (!binaries) throw new Error(serverMissing())
  for (let attempt = 1; ; attempt++) {
    const server = await start(binaries, options)
    if (!('log' in server)) return server
    // Another process may take a free port before the server binds it.
    if (attempt === 3 || !server.log.includes('Address already in use'))
      throw new Error(`PostgreSQL did not start:\n${server.log}`)
  }
}

function attach(address: string): Postgres {
  const made: string[] = []
  return {
    ...databases(address, made),
    stop: async () => {
      if (made.length === 0) return
      await connected(address, async (run) => {
        for (const name of made.splice(0)) await drop(run, name)
      })
    },
  }
}

/** Closes the connections first: the server would wait for their end in steps of 100 ms. */
async function drop(run: Run, name: string): Promise<void> {
  const end = `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name}'`
  while ((await run(end)).length > 0) await setImmediate()
  await run(`drop database if exists ${name} with (force)`)
}

// The shell outlives this process: the pipe on its stdin closes however this process ends, even after SIGKILL, and then it stops
// the server and removes the directory. No other process has that pipe open (hence </dev/null), and a closed stdout must not
// end the shell before the clean-up (hence the trap).
const KEEPER = `
trap '' PIPE
{ "$1/initdb" --pgdata=data --username=postgres --auth=password --pwfile=password --encoding=UTF8 --no-sync \
    --locale=C --locale-provider=icu --icu-locale=en-US &&
  "$1/pg_ctl" start --wait --pgdata=data --log=log --options="$2"; } </dev/null >>log 2>&1 && echo ready || echo failed
cat >/dev/null
[ ! -f data/postmaster.pid ] || "$1/pg_ctl" stop --pgdata=data --mode=immediate >/dev/null 2>&1
rm -rf "$PWD"
`

// For short-lived databases: no crash safety and no maintenance.
const FAST = [
  ...['fsync=off', 'full_page_writes=off', 'synchronous_commit=off', 'wal_level=minimal', 'max_wal_senders=0'],
  ...['autovacuum=off', 'jit=off', 'checkpoint_timeout=1d', 'max_wal_size=256MB'],
]

const MEMORY = '/dev/shm'
const MEMORY_BYTES = 2 ** 31

/** In memory if there is enough: a database has hundreds of files, which are slow to create and remove on a disk. */
function fastFolder(): string {
  if (!existsSync(MEMORY)) return tmpdir()
  const { bavail, bsize } = statfsSync(MEMORY)
  return bavail * bsize < MEMORY_BYTES ? tmpdir() : MEMORY
}

async function start(
  binaries: string,
  { durable = true, settings: more = [] }: PostgresOptions,
): Promise<Postgres | { log: string }> {
  const folder = mkdtempSync(join(durable ? tmpdir() : fastFolder(), 'svc-postgres-'))
  // Not `trust`: any local user could run programs as this one (copy … from program).
  const password = randomBytes(12).toString('hex')
  // The MD5 form, as the server stores it. Checking the default (SCRAM) takes milliseconds for each connection.
  const kept = `md5${hash('md5', `${password}postgres`, 'hex')}`
  writeFileSync(join(folder, 'password'), kept, { mode: 0o600 })
  const account = isRoot() ? findAccount() : undefined
  if (account) for (const path of [join(folder, 'password'), folder]) chownSync(path, account.uid, account.gid)

  const port = await findFreePort()
  // No unix socket: its path is limited to 107 bytes, and a temporary directory may have a longer one.
  const settings = ['max_connections=200', 'unix_socket_directories=', ...(durable ? [] : FAST), ...more]
  const serverOptions = `-h 127.0.0.1 -p ${port} ${settings.map((setting) => `-c ${setting}`).join(' ')}`
  const keeper = spawn('sh', ['-c', KEEPER, 'sh', binaries, serverOptions], {
    cwd: folder,
    detached: true, // Ctrl-C is for the test run; the keeper must be left to clean up after it
    env: { PATH: process.env.PATH, HOME: folder, LC_ALL: 'C' },
    stdio: ['pipe', 'pipe', 'ignore'],
    ...account,
  })
  const stop = async (): Promise<void> => {
    keeper.ref()
    const exited = keeper.exitCode === null && keeper.signalCode === null ? once(keeper, 'exit') : undefined
    keeper.stdin.end()
    await exited
  }
  if ((await firstWord(keeper)) !== 'ready') {
    const log = join(folder, 'log')
    const said = existsSync(log) ? readFileSync(log, 'utf8') : `no log in ${folder}`
    await stop()
    return { log: said }
  }
  // A test file that does not stop the server must still exit.
  keeper.unref()
  for (const pipe of [keeper.stdin, keeper.stdout]) if (pipe instanceof Socket) pipe.unref()
  return { ...databases(`postgres://postgres:${password}@127.0.0.1:${port}/postgres`), stop }
}

function firstWord(keeper: ChildProcessByStdio<Writable, Readable, null>): Promise<string> {
  return new Promise((resolve, reject) => {
    keeper.once('error', reject)
    keeper.once('exit', () => resolve('failed'))
    keeper.stdout.once('data', (chunk) => resolve(String(chunk).trim()))
  })
}

function databases(address: string, made: string[] = []): Omit<Postgres, 'stop'> {
  const url = (database = 'postgres'): string => {
    const other = new URL(address)
    other.pathname = database
    return other.href
  }
  const create = async (run: Run, template: string): Promise<string> => {
    const name = `t_${randomBytes(8).toString('hex')}`
    await run(`create database ${name} template ${template} strategy file_copy`)
    made.push(name)
    return url(name)
  }
  const copyDatabase = (name: string, fill: (url: string) => Promise<void>): Promise<string> =>
    connected(address, async (run) => {
      if (!filled.has(url(name))) await fillOnce(run, name, () => fill(url(`${name}_filling`)))
      filled.add(url(name))
      return create(run, name)
    })
  return { url, createDatabase: () => connected(address, (run) => create(run, 'template0')), copyDatabase }
}

/** Databases that are known to be filled. */
const filled = new Set<string>()

/** Test files run in parallel: one of them fills it, and the others wait. */
async function fillOnce(run: Run, name: string, fill: () => Promise<void>): Promise<void> {
  await run('select pg_advisory_lock(1)')
  if ((await run(`select 1 from pg_database where datname = '${name}'`)).length === 0) {
    await run(`create database ${name}_filling template template0`)
    await fill()
    await run(`alter database ${name}_filling rename to ${name}`)
  }
  await run('select pg_advisory_unlock(1)')
}

type Run = (sql: string) => Promise<unknown[]>

async function connected<T>(address: string, work: (run: Run) => Promise<T>): Promise<T> {
  // Loaded lazily, because many test files only check the requirements.
  const { Client } = await import('pg')
  const client = new Client({ connectionString: address })
  await client.connect()
  try {
    return await work(async (sql) => (await client.query(sql)).rows)
  } finally {
    await client.end()
  }
}

function findBinaries(): string | undefined {
  const newest = (existsSync(DEBIAN_FOLDER) ? readdirSync(DEBIAN_FOLDER) : [])
    .map(Number)
    .filter((version) => version >= OLDEST && existsSync(join(DEBIAN_FOLDER, String(version), 'bin/initdb')))
    .sort((a, b) => b - a)[0]
  if (newest) return join(DEBIAN_FOLDER, String(newest), 'bin')
  const initdb = (process.env.PATH ?? '')
    .split(delimiter)
    .map((folder) => join(folder, 'initdb'))
    .find((path) => existsSync(path))
  if (!initdb) return undefined
  const version = /\d+/.exec(execFileSync(initdb, ['--version'], { encoding: 'utf8' }))?.[0]
  return Number(version) >= OLDEST ? dirname(realpathSync(initdb)) : undefined
}

function isRoot(): boolean {
  return process.getuid?.() === 0
}

/** The user of the server if root runs the tests. */
function findAccount(): { uid: number; gid: number } | undefined {
  for (const name of ['postgres', 'nobody']) {
    try {
      const id = (flag: string): number =>
        Number(execFileSync('id', [flag, name], { stdio: ['ignore', 'pipe', 'ignore'] }))
      return { uid: id('-u'), gid: id('-g') }
    } catch {
      // `id` fails for a missing user; try the next one.
    }
  }
  return undefined
}

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('a TCP server has no port')
  return address.port
}
