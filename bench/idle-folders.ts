// Cost of many idle folders, against the version before cells had their own network.
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { openVersions, type Version } from './baseline.ts'
import { BASELINE, CellBenchScope, NAMES, type Name } from './cell-bench-scope.ts'
import { mustHave } from './egress/peers.ts'
import type { Instance } from './instance.ts'
import { median, type Result } from './result.ts'
import { compare, shuffled, untilQuiet } from './rounds.ts'
import { cpuOf, residentKiB, type Server } from './server.ts'

const FOLDERS = 10_000
const STARTS = 3
const IDLE_MS = 10_000

interface IdleFigures {
  /** Milliseconds of processor time in each second. */
  readonly cpu: number
  readonly kib: number
}

export async function benchIdleFolders(): Promise<Result[]> {
  mustHave('bwrap', 'bubblewrap')
  await using scope = new CellBenchScope()
  const versions = await openVersions(scope, BASELINE)
  const instances = new Map<Name, Instance>()
  for (const name of NAMES) {
    const instance = await scope.openInstance(versions[name], name)
    await addFolders(instance, versions[name])
    instances.set(name, instance)
  }
  const rounds: Record<Name, IdleFigures>[] = []
  for (let start = 0; start < STARTS; start++) rounds.push(await idleRound(instances))
  const result = (what: string, unit: string, goal: string, figure: (figures: IdleFigures) => number): Result => {
    const { ratio, spread } = compare<Name, IdleFigures>(rounds, NAMES, figure)
    const [now, before] = NAMES.map((name) => median(rounds.map((round) => figure(round[name]))).toFixed(1))
    return {
      name: `cells: ${what} of an idle instance with ${FOLDERS} folders over the same at ${BASELINE}`,
      ratio,
      goal,
      detail: `${STARTS} starts each, ${spread}; ${now} ${unit}, at ${BASELINE} ${before} ${unit}`,
    }
  }
  return [
    result('memory', 'MiB', 'at most 1.1', ({ kib }) => kib / 1024),
    result('processor time', 'ms a second', 'at most 1.1', ({ cpu }) => cpu),
  ]
}

/** Adds one group through the verb and copies its rows, because each call would compile the access policy again. */
async function addFolders(instance: Instance, { call, groupsResource }: Version): Promise<void> {
  const request = { caller: { kind: 'host', sub: 'cli' }, face: 'cli' } as const
  await instance.open((host) => call({ ...request, host }, groupsResource.verbs.add, { folder: TEMPLATE }))
  const db = new DatabaseSync(instance.store)
  try {
    // No task may become due during the measurement.
    db.exec(`begin; update scheduled_tasks set next_run = '9999-01-01T00:00:00.000Z'`)
    for (const [table, key] of FOLDER_TABLES) copyRows(db, table, key)
    db.exec('commit')
  } finally {
    db.close()
  }
}

/** Tables with rows of a new group, and the column with its folder. */
const FOLDER_TABLES = [
  ['groups', 'folder'],
  ['acl_membership', 'subject'],
  ['scheduled_tasks', 'owner'],
] as const
const TEMPLATE = 'template'

function copyRows(db: DatabaseSync, table: string, key: string): void {
  const names = db.prepare('select name from pragma_table_info(?)').all(table)
  // Only texts, because replace() would turn numbers into text.
  const columns = names.map(({ name }) => `iif(typeof(${name}) = 'text', replace(${name}, :template, copy), ${name})`)
  db.prepare(
    `with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < :count),
       copies(copy) as (select 'f' || n from numbers),
       originals as materialized (select * from ${table} where ${key} like '%' || :template)
     insert into ${table} select ${columns.join(', ')} from originals, copies`,
  ).run({ template: TEMPLATE, count: FOLDERS - 1 })
}

/** Measures both versions at the same time, so that other processes disturb both alike. */
async function idleRound(instances: ReadonlyMap<Name, Instance>): Promise<Record<Name, IdleFigures>> {
  await using serving = new AsyncDisposableStack()
  const round = { now: { cpu: 0, kib: 0 }, before: { cpu: 0, kib: 0 } }
  const servers: { readonly name: Name; readonly server: Server }[] = []
  for (const [name, instance] of shuffled([...instances])) {
    const server = await instance.serve()
    serving.defer(() => server.stop())
    await untilQuiet(server)
    servers.push({ name, server })
  }
  const before = servers.map(({ server }) => cpuOf(server).all)
  await sleep(IDLE_MS)
  for (const [at, { name, server }] of servers.entries())
    round[name] = { cpu: (cpuOf(server).all - (before[at] ?? 0)) / IDLE_MS, kib: residentKiB(server) }
  return round
}
