// An instance with links, run as real processes on either engine, and direct access to its store
// without its own code.
import assert from 'node:assert/strict'
import { cpSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { TestContext } from 'node:test'
import type { StoreAddress } from '../../src/store/index.ts'
import type { EngineName } from './host.ts'
import { openPostgres } from './postgres.ts'
import { type Instance, instance, type ServedProcess } from './svc.ts'
import { tempDir } from './temp.ts'

export interface Link {
  readonly jid: string
  readonly token: string
}

export interface ServedLinks extends ServedProcess {
  /** The URL of this link: `/hook/<token>` or `/chat/<token>/`. */
  hook(link: Link): string
  chat(link: Link, path?: string): string
  /** Kills it with SIGKILL and waits for its exit. */
  kill(): Promise<void>
}

export interface StoredMessage {
  readonly seq: number
  readonly id: string
  readonly jid: string
  readonly direction: string
  readonly content: Uint8Array
}

export interface LinkedInstance {
  readonly engine: EngineName
  /** The directory of the instance. */
  readonly root: string
  readonly address: StoreAddress
  readonly run: Instance['run']
  mintHook(source: string, folder?: string): Promise<Link>
  /** Without a suffix, for the chat of the folder itself. */
  mintChat(suffix?: string, folder?: string): Promise<Link>
  /** Starts another process on the store, with all daemons or some; `env` is only for this one. */
  start(options?: { daemons?: readonly string[]; env?: Record<string, string>; root?: string }): Promise<ServedLinks>
  /** Incoming messages in the order of their sequence. Also checks the integrity of an SQLite file. */
  inbound(link: Link, root?: string): Promise<StoredMessage[]>
  query(sql: string, root?: string): Promise<Record<string, unknown>[]>
  /** Copies the directory of the instance while no process writes to it. */
  copy(): string
}

/** Without rate limits, unless the settings contain some. */
export async function openLinkedInstance(
  t: TestContext,
  engine: EngineName = 'sqlite',
  settings: Record<string, string> = {},
): Promise<LinkedInstance> {
  const database = engine === 'postgres' ? { DATABASE_URL: await freshDatabase(t) } : {}
  const { root, run, serve } = await instance(t, {
    WEBHOOK_RATE_HOOK: '0',
    WEBHOOK_RATE_WEB: '0',
    LOG_LEVEL: 'warn',
    ...database,
    ...settings,
  })
  const mint = async (...args: string[]): Promise<Link> => {
    const { code, stdout, stderr } = await run('token', 'demo', 'issue', ...args)
    assert.equal(code, 0, stderr)
    const read = (key: string): string =>
      new RegExp(`^${key}:\\s*(\\S+)$`, 'm').exec(stdout)?.[1] ?? assert.fail(stdout)
    return { jid: read('jid'), token: read('token') }
  }
  const query: LinkedInstance['query'] = (sql, at = root) =>
    database.DATABASE_URL ? queryPostgres(database.DATABASE_URL, sql) : querySqlite(join(at, 'store', 'svc.db'), sql)
  return {
    engine,
    root,
    address: database.DATABASE_URL ? { url: database.DATABASE_URL } : { path: join(root, 'store', 'svc.db') },
    run,
    query,
    mintHook: (source, folder = 'main') => mint('webhook', folder, source),
    mintChat: (suffix, folder = 'main') => mint('chat', folder, ...(suffix === undefined ? [] : [suffix])),
    start: async ({ daemons = [], env = {}, root: elsewhere } = {}) => {
      const served = await serve(daemons, { ...env, ...(elsewhere ? { SVC_DATA_DIR: dirname(elsewhere) } : {}) })
      const door = served.urls.get('proxyd') ?? ''
      return {
        ...served,
        hook: ({ token }) => `${door}/hook/${token}`,
        chat: ({ token }, path = '') => `${door}/chat/${token}/${path}`,
        kill: async () => {
          served.child.kill('SIGKILL')
          await served.ended
        },
      }
    },
    inbound: async ({ jid }, at) => {
      const rows = await query(
        `select seq, id, jid, direction, content from messages where jid = '${jid}' and direction = 'in' order by seq`,
        at,
      )
      return rows.map(readMessage)
    },
    copy: () => {
      const copy = join(tempDir(t), 'svc_demo')
      cpSync(root, copy, { recursive: true })
      return copy
    },
  }
}

async function freshDatabase(t: TestContext): Promise<string> {
  const postgres = await openPostgres()
  t.after(() => postgres.stop())
  return postgres.createDatabase()
}

function readMessage({ seq, id, jid, direction, content }: Record<string, unknown>): StoredMessage {
  assert.ok(content instanceof Uint8Array)
  return { seq: Number(seq), id: String(id), jid: String(jid), direction: String(direction), content }
}

async function querySqlite(path: string, sql: string): Promise<Record<string, unknown>[]> {
  const db = new DatabaseSync(path, { timeout: 60_000 })
  try {
    assert.equal(Object.values(db.prepare('pragma integrity_check').get() ?? {})[0], 'ok')
    return db.prepare(sql).all()
  } finally {
    db.close()
  }
}

async function queryPostgres(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const { Client } = await import('pg')
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end()
  }
}
