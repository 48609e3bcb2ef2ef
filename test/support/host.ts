// An instance for one test, on a store of its own, and the callers that ask it.
import { hash } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { suite } from 'node:test'
import type { z } from 'zod'
import type { Caller, Face } from '../../src/core/caller.ts'
import { groupDirs, layout } from '../../src/core/layout.ts'
import { type OpenHost, openHost, TABLES } from '../../src/daemons/host.ts'
import { Refusal, type RefusalCode } from '../../src/lib/refusal.ts'
import { call } from '../../src/registry/call.ts'
import type { NamedVerb } from '../../src/registry/resource.ts'
import { aclResource } from '../../src/resources/acl.ts'
import { aclMembershipResource } from '../../src/resources/acl-membership.ts'
import { groupsResource } from '../../src/resources/groups.ts'
import { type Address, openEngine } from '../../src/store/index.ts'
import { migrate } from '../../src/store/migrate.ts'
import { type FakeClock, fakeClock, seededRandom } from './clock.ts'
import { needs } from './needs.ts'
import { openPostgres } from './postgres.ts'
import { tempDir } from './temp.ts'

export type EngineName = 'sqlite' | 'postgres'
export const ENGINES: readonly EngineName[] = ['sqlite', 'postgres']

/** The same tests on every engine. */
export function onEveryEngine(title: string, tests: (engine: EngineName) => void): void {
  for (const engine of ENGINES) {
    suite(`${title} on ${engine}`, engine === 'postgres' ? needs('postgres') : {}, () => tests(engine))
  }
}

/** The address of a store that is nobody else's, with nothing in it. */
export async function emptyStore(t: TestContext, engine: EngineName): Promise<Address> {
  if (engine === 'sqlite') return { path: join(tempDir(t), 'svc.db'), create: true, strict: true }
  const postgres = await openPostgres()
  t.after(() => postgres.stop())
  return { url: await postgres.createDatabase() }
}

/** The same with the tables of the product, where making them takes long. */
export async function freshStore(t: TestContext, engine: EngineName): Promise<Address> {
  if (engine === 'sqlite') return emptyStore(t, engine)
  const postgres = await openPostgres()
  t.after(() => postgres.stop())
  return { url: await postgres.copyDatabase(templateName(), fillStore) }
}

/** Changes with the schema: a server that outlives an edit has both. */
function templateName(): string {
  const steps = TABLES.map(({ name, storage }) => [name, storage.map(String)])
  return `svc_${hash('sha256', JSON.stringify(steps), 'hex').slice(0, 16)}`
}

async function fillStore(url: string): Promise<void> {
  const engine = await openEngine({ url })
  try {
    await migrate(engine, TABLES, () => '2026-01-01T00:00:00.000Z')
  } finally {
    await engine.close()
  }
}

export interface TestHost {
  host: OpenHost
  clock: FakeClock
  as(caller: Caller, face?: Face): Asker
  /** The command line on the host. */
  cli: Asker
  /** Adds groups, parents first, each with an empty workspace. */
  groups(...folders: string[]): Promise<void>
  grant(principal: string, action: string, scope: string, effect?: 'allow' | 'deny', params?: string): Promise<void>
  ungrant(principal: string, action: string, scope: string): Promise<void>
  operator(sub: string): Promise<void>
}

export interface Asker {
  call<I extends z.ZodObject, O>(verb: NamedVerb<I, O>, input: unknown): Promise<O>
}

/** `store`: the address of one that is shared with another host, as by two processes. */
export async function testHost(t: TestContext, engine: EngineName = 'sqlite', store?: Address): Promise<TestHost> {
  const clock = fakeClock()
  const places = layout(tempDir(t))
  const host = await openHost({
    instance: 'test',
    store: store ?? (await freshStore(t, engine)),
    secretsKey: 'a key of the tests',
    webBase: 'http://localhost:8080',
    layout: places,
    clock,
    random: seededRandom(),
  })
  t.after(() => host.close())
  const as = (caller: Caller, face: Face = faceOf(caller)): Asker => ({
    call: (verb, input) => call({ host, caller, face }, verb, input),
  })
  const cli = as({ kind: 'host', sub: 'cli' })
  return {
    host,
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

/** For `assert.rejects`: a refusal of this code, whose sentence holds the text. */
export function refused(code: RefusalCode, text: string | RegExp = ''): (error: unknown) => boolean {
  return (error) => {
    if (!(error instanceof Refusal)) throw error
    if (error.code !== code) throw new Error(`refused as ${error.code} (${error.message}), not as ${code}`)
    const fits = typeof text === 'string' ? error.message.includes(text) : text.test(error.message)
    if (!fits) throw new Error(`the sentence "${error.message}" does not have ${text}`)
    return true
  }
}
