// Attacks through a served instance: `svc serve` as root or as an ordinary user, with a link to each folder. The agent of
// each folder is a shell that runs the program in a message.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { identityOf, type SvcUser } from './attack.ts'
import { copyInstance } from './built-once.ts'
import { type CleanupScope, tempDir } from './temp.ts'
import { until } from './until.ts'

const BIN = join(import.meta.dirname, '..', '..', 'bin', 'svc.js')
/** The last message of the prompt that contains a program, in base64. */
const AGENT = `sed -n 's/.*run=\\([A-Za-z0-9+/=]*\\).*/\\1/p' | tail -n 1 | base64 -d > /tmp/program; exec sh /tmp/program 2>&1`

export interface Answer {
  readonly status: string
  /** The reply of the agent. */
  readonly text: string
  /** Everything that the visitor received. */
  readonly raw: string
}

export interface ServedInstance {
  readonly pid: number
  /** The front door. */
  readonly url: string
  /** The log so far. */
  readonly log: string[]
  /** Lets the agent of the folder run this program and returns its output. */
  /** In a turn of reach `all`. */
  ask(folder: string, program: string, topic?: string): Promise<Answer>
  askAtWork(folder: string, program: string): Promise<Answer>
  /** The same as a visitor of the chat link of the folder. */
  askAsVisitor(folder: string, program: string, topic?: string): Promise<Answer>
  stop(): Promise<void>
}

export interface AttackInstance {
  readonly root: string
  home(folder: string): string
  /** The value of a setting in `.env`. */
  setting(name: string): string
  /** Runs `svc` and returns its output. */
  svc(...args: string[]): Promise<string>
  store<T>(work: (db: DatabaseSync) => T): T
  serve(options?: ServeOptions): Promise<ServedInstance>
}

export interface ServeOptions {
  readonly env?: Readonly<Record<string, string>>
  /** A descriptor that the process inherits as number `INHERITED_FD`. */
  readonly inherited?: number
  /** Instead of the user of the instance. */
  readonly asRoot?: boolean
}

/** Above the descriptors that svc passes to bubblewrap, which would replace it. */
export const INHERITED_FD = 60

export const FOLDERS = ['team', 'team/child', 'other'] as const

/** Of the links of each folder: of webhooks with all tools and with those for work, and of chats. */
type Tokens = Record<'all' | 'work' | 'chat', Record<string, string>>

function environmentOf(directory: string) {
  return {
    ...{ PATH: process.env.PATH, HOME: directory, SVC_DATA_DIR: directory, WEB_LISTEN: '127.0.0.1:0' },
    ...{ AGENT_RUNTIME: 'command', AGENT_COMMAND: AGENT, WEBHOOK_RATE_HOOK: '0' },
    ...{ MAX_CONCURRENT_TURNS: '8', LOG_LEVEL: 'warn' },
  }
}

async function runSvc(user: SvcUser, directory: string, args: readonly string[]): Promise<string> {
  const child = spawn(process.execPath, [BIN, ...args], { ...identityOf(user), env: environmentOf(directory) })
  const [said, failed] = [collect(child.stdout), collect(child.stderr)]
  const [code] = await once(child, 'close')
  assert.equal(code, 0, `svc ${args.join(' ')}: ${failed.join('')}`)
  return said.join('')
}

/** Takes a dozen processes, which is why tests get copies. */
async function createLinked(user: SvcUser, directory: string): Promise<void> {
  const { uid, gid } = identityOf(user)
  if (uid !== undefined && gid !== undefined) chownSync(directory, uid, gid)
  const run = (...args: string[]): Promise<string> => runSvc(user, directory, args)
  await run('create', 'demo')
  const tokens: Tokens = { all: {}, work: {}, chat: {} }
  for (const folder of FOLDERS) {
    await run('group', 'demo', 'add', `sandbox:${folder}`, folder)
    // Turns of a webhook link may use the secrets and the work file of the folder.
    tokens.all[folder] = tokenOf(await run('token', 'demo', 'issue', 'webhook', folder, 'test', '--tools', 'all'))
    tokens.work[folder] = tokenOf(await run('token', 'demo', 'issue', 'webhook', folder, 'work'))
    tokens.chat[folder] = tokenOf(await run('token', 'demo', 'issue', 'chat', folder, 'test'))
  }
  // Fills the compile cache of this home directory with the modules of a server.
  await run('create', 'other')
  const child = spawn(process.execPath, [BIN, 'serve', 'other'], { ...identityOf(user), env: environmentOf(directory) })
  collect(child.stderr)
  await frontDoorOf(child.stdout)
  await stop(child)
  rmSync(join(directory, 'svc_other'), { recursive: true })
  writeFileSync(`${directory}.tokens`, JSON.stringify(tokens), { mode: 0o600 })
}

/** Creates an instance with groups and links, without a process. */
export async function attackInstance(cleanup: CleanupScope, user: SvcUser): Promise<AttackInstance> {
  const directory = tempDir(cleanup)
  const identity = identityOf(user)
  if (identity.uid !== undefined && identity.gid !== undefined) chownSync(directory, identity.uid, identity.gid)
  const svc = (...args: string[]): Promise<string> => runSvc(user, directory, args)
  const original = await copyInstance(user, directory, (folder) => createLinked(user, folder))
  const tokens: Tokens = JSON.parse(readFileSync(`${original}.tokens`, 'utf8'))
  const root = join(directory, 'svc_demo')
  return {
    root,
    home: (folder) => join(root, 'groups', folder),
    setting: (name) => {
      const text = readFileSync(join(root, '.env'), 'utf8')
      return new RegExp(`^${name}=(.*)$`, 'm').exec(text)?.[1] ?? assert.fail(`${name} is not set`)
    },
    svc,
    store: (work) => {
      const db = new DatabaseSync(join(root, 'store', 'svc.db'), { timeout: 60_000 })
      try {
        return work(db)
      } finally {
        db.close()
      }
    },
    serve: async ({ env = {}, inherited, asRoot = false } = {}) => {
      const rest = inherited === undefined ? [] : [...Array<'ignore'>(INHERITED_FD - 3).fill('ignore'), inherited]
      const child = spawn(process.execPath, [BIN, 'serve', 'demo'], {
        ...(asRoot ? {} : identity),
        env: { ...environmentOf(directory), ...env },
        stdio: ['ignore', 'pipe', 'pipe', ...rest],
      })
      cleanup.after(() => void child.kill('SIGKILL'))
      assert.ok(child.stdout && child.stderr && child.pid !== undefined)
      const log = collect(child.stderr)
      const url = await frontDoorOf(child.stdout)
      assert.ok(url, log.join(''))
      return {
        pid: child.pid,
        url,
        log,
        ask: (folder, program, topic = '') => ask(`${url}/chat/${tokens.all[folder]}/`, program, topic),
        askAtWork: (folder, program) => ask(`${url}/chat/${tokens.work[folder]}/`, program, ''),
        askAsVisitor: (folder, program, topic = '') => ask(`${url}/chat/${tokens.chat[folder]}/`, program, topic),
        stop: () => stop(child),
      }
    },
  }
}

function tokenOf(issued: string): string {
  return /^token:\s*(\S+)$/m.exec(issued)?.[1] ?? assert.fail(issued)
}

async function ask(link: string, program: string, topic: string): Promise<Answer> {
  const content = `run=${Buffer.from(program).toString('base64')}`
  const posted = await fetch(link, { method: 'POST', body: new URLSearchParams({ content, topic }) })
  const accepted = await posted.text()
  assert.equal(posted.status, 200, accepted)
  const { turn_id: turn } = JSON.parse(accepted)
  let raw = ''
  await until(async () => {
    raw = await (await fetch(`${link}${turn}?after=0`)).text()
    return JSON.parse(raw).status !== 'pending'
  })
  const { status, frames } = JSON.parse(raw)
  const texts: string[] = frames.flatMap((frame: { kind: string; content: string }) =>
    frame.kind === 'message' ? [frame.content] : [],
  )
  return { status, text: texts.join('\n'), raw }
}

async function frontDoorOf(stdout: NodeJS.ReadableStream): Promise<string | undefined> {
  let url: string | undefined
  for await (const line of createInterface({ input: stdout })) {
    if (line === 'ready') return url
    const [name, address] = line.split(' ')
    if (name === 'proxyd') url = address
  }
  return undefined
}

async function stop(child: ChildProcess): Promise<void> {
  const closed = once(child, 'close')
  child.kill('SIGTERM')
  await closed
}

function collect(stream: NodeJS.ReadableStream): string[] {
  const chunks: string[] = []
  stream.on('data', (chunk) => chunks.push(String(chunk)))
  return chunks
}
