// An instance for one test, with its own store, and callers.
import { hash } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { suite, type TestContext } from 'node:test'
import type { z } from 'zod'
import type { Caller, Face } from '../../src/core/access/caller.ts'
import { agentUsers } from '../../src/core/agent-user.ts'
import { groupDirs, layout } from '../../src/core/layout.ts'
import { type HostSettings, type OpenHost, openHost } from '../../src/daemons/process/host.ts'
import { PRODUCT_TABLES } from '../../src/daemons/tables.ts'
import type { FaultPlace } from '../../src/lib/fault-boundary.ts'
import { Refusal, type RefusalCode } from '../../src/lib/refusal.ts'
import { callVerb } from '../../src/registry/call.ts'
import type { NamedVerb } from '../../src/registry/resource.ts'
import { aclResource } from '../../src/resources/acl.ts'
import { aclMembershipResource } from '../../src/resources/acl-membership.ts'
import { groupsResource } from '../../src/resources/groups.ts'
import { openEngine, type StoreAddress } from '../../src/store/index.ts'
import { migrate } from '../../src/store/migrate.ts'
import { sharedFolder } from './built-once.ts'
import { type FakeClock, fakeClock, seededRandom } from './clock.ts'
import { needs } from './needs.ts'
import { isIn } from './part.ts'
import { openPostgres } from './postgres.ts'
import { tempDir } from './temp.ts'

export type EngineName = 'sqlite' | 'postgres'
export const ENGINES: readonly EngineName[] = ['sqlite', 'postgres']

/** Runs the same tests on every engine: SQLite in the quick part, PostgreSQL in the long one. */
export function onEveryEngine(title: string, tests: (engine: EngineName) => void): void {
  for (const engine of ENGINES) if (isIn(engine === 'sqlite' ? 'quick' : 'long')) onEngine(engine, title, tests)
}

/** For the contract of the store and behaviour that differs between engines: all engines in the quick part. */
export function onEveryEngineQuickly(title: string, tests: (engine: EngineName) => void): void {
  for (const engine of ENGINES) if (isIn('quick')) onEngine(engine, title, tests)
}

function onEngine(engine: EngineName, title: string, tests: (engine: EngineName) => void): void {
  suite(`${title} on ${engine}`, engine === 'postgres' ? needs('postgres') : {}, () => tests(engine))
}

/** The address of a new, empty store. */
export async function emptyStore(t: TestContext, engine: EngineName): Promise<StoreAddress> {
  if (engine === 'sqlite') return { path: join(tempDir(t), 'svc.db'), create: true, strict: true }
  const postgres = await openPostgres()
  t.after(() => postgres.stop())
  return { url: await postgres.createDatabase() }
}

/** The same with the tables of the product, as a copy of a prepared store. */
export async function freshStore(t: TestContext, engine: EngineName): Promise<StoreAddress> {
  const empty = engine === 'sqlite' ? await emptyStore(t, engine) : undefined
  if (empty && 'path' in empty) {
    copyFileSync(await filledFile(), empty.path)
    return empty
  }
  const postgres = await openPostgres()
  t.after(() => postgres.stop())
  return { url: await postgres.copyDatabase(templateName(), (url) => fillStore({ url })) }
}

const filling = new Map<string, Promise<string>>()

/** Created by the first process of the run that needs it. */
function filledFile(): Promise<string> {
  const known = filling.get('sqlite')
  if (known) return known
  const path = join(sharedFolder('stores'), `${templateName()}.db`)
  const ready = existsSync(path) ? Promise.resolve(path) : fillFile(path)
  filling.set('sqlite', ready)
  return ready
}

async function fillFile(path: string): Promise<string> {
  const folder = mkdtempSync(join(dirname(path), 'filling-'))
  const own = join(folder, 'svc.db')
  await fillStore({ path: own, create: true })
  renameSync(own, path)
  rmSync(folder, { recursive: true })
  return path
}

/** Changes with the schema: a server that outlives an edit has both. */
function templateName(): string {
  const steps = PRODUCT_TABLES.map(({ name, storage }) => [name, storage.map(String)])
  return `svc_${hash('sha256', JSON.stringify(steps), 'hex').slice(0, 16)}`
}

async function fillStore(address: StoreAddress): Promise<void> {
  const engine = await openEngine(address)
  try {
    await migrate(engine, PRODUCT_TABLES, () => '2026-01-01T00:00:00.000Z')
  } finally {
    await engine.close()
  }
}

export interface TestHost {
  host: OpenHost
  /** Errors of work that no caller waited for. */
  faults: readonly TestFault[]
  clock: FakeClock
  as(caller: Caller, face?: Face): TestCaller
  /** The caller of the command line. */
  cli: TestCaller
  /** Adds groups, parents first, each with an empty workspace. */
  groups(...folders: string[]): Promise<void>
  grant(principal: string, action: string, scope: string, effect?: 'allow' | 'deny', params?: string): Promise<void>
  ungrant(principal: string, action: string, scope: string): Promise<void>
  operator(sub: string): Promise<void>
}

export interface TestCaller {
  call<I extends z.ZodObject, O>(verb: NamedVerb<I, O>, input: unknown): Promise<O>
}

export interface TestFault {
  readonly place: FaultPlace
  readonly message: string
}

/** `store`: the address of a store that is shared with another host, like two processes. */
export async function testHost(
  t: TestContext,
  engine: EngineName = 'sqlite',
  store?: StoreAddress,
  settings: HostSettings = {},
): Promise<TestHost> {
  const clock = fakeClock()
  const root = tempDir(t)
  const places = layout(root, agentUsers({ AGENT_UIDS: 1000 }, root))
  const faults: TestFault[] = []
  const host = await openHost({
    instance: 'test',
    store: store ?? (await freshStore(t, engine)),
    secretsKey: 'a key of the tests',
    webBase: 'http://localhost:8080',
    layout: places,
    ...settings,
    clock,
    random: seededRandom(),
    onBackgroundError: (error, place) =>
      faults.push({ place, message: error instanceof Error ? error.message : String(error) }),
  })
  t.after(() => host.close())
  const as = (caller: Caller, face: Face = faceOf(caller)): TestCaller => ({
    call: (verb, input) => callVerb({ host, caller, face }, verb, input),
  })
  const cli = as({ kind: 'host', sub: 'cli' })
  return {
    host,
    faults,
    clock,
    as,
    cli,
    groups: async (...folders) => {
      for (const folder of folders) {
        await cli.call(groupsResource.verbs.add, { folder })
        mkdirSync(groupDirs(places, folder).home, { recursive: true })
      }
    },
    grant: async (principal, action, scope, effect = 'allow', params = '') => {
      await cli.call(aclResource.verbs.grant, { principal, action, scope, effect, params })
    },
    ungrant: async (principal, action, scope) => {
      await cli.call(aclResource.verbs.ungrant, { principal, action, scope })
    },
    operator: async (sub) => {
      await cli.call(aclMembershipResource.verbs.add, { subject: sub, role: 'role:operator' })
    },
  }
}

function faceOf(caller: Caller): Face {
  if (caller.kind === 'host') return 'cli'
  return caller.kind === 'agent' ? 'tool' : 'rest'
}

export const agent = (folder: string): Caller => ({ kind: 'agent', folder })
export const person = (sub: string, folder?: string): Caller => ({ kind: 'person', sub, ...(folder ? { folder } : {}) })

/** For `assert.rejects`: checks the code of a refusal and that its message contains the text. */
export function isRefusal(code: RefusalCode, text: string | RegExp = ''): (error: unknown) => boolean {
  return (error) => {
    if (!(error instanceof Refusal)) throw error
    if (error.code !== code) throw new Error(`refused as ${error.code} (${error.message}), not as ${code}`)
    const fits = typeof text === 'string' ? error.message.includes(text) : text.test(error.message)
    if (!fits) throw new Error(`the sentence "${error.message}" does not have ${text}`)
    return true
  }
}
