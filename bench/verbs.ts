// Mutating verbs a second through `callVerb`, against the same bare statements with one commit each.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { z } from 'zod'
import { type OpenHost, openHost } from '../src/daemons/process/host.ts'
import { PRODUCT_TABLES } from '../src/daemons/tables.ts'
import { timestamp } from '../src/lib/clock.ts'
import { requireTool } from '../src/registry/authorization.ts'
import { callVerb } from '../src/registry/call.ts'
import { defineResource, defineVerb } from '../src/registry/resource.ts'
import { aclMembershipResource } from '../src/resources/acl-membership.ts'
import { migrate } from '../src/store/migrate.ts'
import { Table } from '../src/store/table.ts'
import { median, type Result } from './result.ts'

const CALLS = 320
const ROUNDS = 60
/** Rounds that only warm up. */
const WARM = 6

const notes = new Table({
  name: 'bench_notes',
  row: z.object({ id: z.string(), folder: z.string(), body: z.string(), created_at: z.string() }),
  key: 'id',
  storage: [
    'create table bench_notes (id text primary key, folder text not null, body text not null, created_at text not null)',
  ],
})

const { add } = defineResource({
  of: notes,
  title: 'BenchNotes',
  servedBy: 'routd',
  verbs: (table) => ({
    add: defineVerb({
      input: z.object({ id: z.string().max(64), folder: z.string().max(255), body: z.string().max(1000) }),
      authorize: requireTool(({ folder }: { folder: string }) => folder),
      run: (ctx, note) => table.insert(ctx.tx, { ...note, created_at: ctx.now }),
    }),
  }),
}).verbs

const BODY = 'a row of ordinary length, as an operator would write it'

async function openStore(path: string): Promise<OpenHost> {
  const host = await openHost({ instance: 'bench', store: { path, create: true }, webBase: 'http://localhost' })
  await migrate(host.engine, [...PRODUCT_TABLES, notes], () => timestamp(Date.now()))
  const request = { host, caller: { kind: 'host', sub: 'cli' }, face: 'cli' } as const
  await callVerb(request, aclMembershipResource.verbs.add, { subject: 'github:1', role: 'role:operator' })
  return host
}

/** Makes `CALLS` calls, `concurrency` at a time, and returns the calls a second. */
async function callRate(host: OpenHost, concurrency: number, round: number): Promise<number> {
  const request = { host, caller: { kind: 'person', sub: 'github:1' }, face: 'rest', requestId: 'r' } as const
  let next = 0
  const client = async (): Promise<void> => {
    while (next < CALLS)
      await callVerb(request, add, { id: `${concurrency}-${round}-${next++}`, folder: 'team', body: BODY })
  }
  const started = performance.now()
  await Promise.all(Array.from({ length: concurrency }, client))
  return (CALLS / (performance.now() - started)) * 1000
}

/** The prepared statements of one such call, with one commit per call. */
function openBare(path: string): { rate(round: number): number; close(): void } {
  const db = new DatabaseSync(path)
  db.exec('pragma journal_mode = wal; pragma synchronous = full; pragma foreign_keys = on')
  const [begin, commit] = [db.prepare('begin immediate'), db.prepare('commit')]
  const stamp = db.prepare('select stamp from access_stamp where id = 1')
  const note = db.prepare('insert into bench_notes (id, folder, body, created_at) values (?, ?, ?, ?)')
  const audit = db.prepare(`insert into audit (created_at, category, action, actor, resource, key, surface,
    params_summary, outcome, duration_ms, instance, request_id) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
  const one = (id: string): void => {
    const now = timestamp(Date.now())
    begin.run()
    stamp.get()
    note.run(id, 'team', BODY, now)
    const summary = JSON.stringify({ id, folder: 'team', body: BODY })
    audit.run(now, 'mutation', 'bench_notes.add', 'github:1', 'bench_notes', id, 'rest', summary, 'ok', 0, 'bench', 'r')
    commit.run()
  }
  return {
    rate: (round) => {
      const started = performance.now()
      for (let index = 0; index < CALLS; index++) one(`bare-${round}-${index}`)
      return (CALLS / (performance.now() - started)) * 1000
    },
    close: () => db.close(),
  }
}

export async function benchVerbs(): Promise<Result[]> {
  const root = mkdtempSync(join(tmpdir(), 'svc-bench-'))
  const host = await openStore(join(root, 'ours.db'))
  await (await openStore(join(root, 'bare.db'))).close()
  const bare = openBare(join(root, 'bare.db'))
  const rounds: { bare: number; one: number; many: number }[] = []
  try {
    for (let round = 0; round < WARM + ROUNDS; round++) {
      const rates = {
        bare: bare.rate(round),
        one: await callRate(host, 1, round),
        many: await callRate(host, 64, round),
      }
      if (round >= WARM) rounds.push(rates)
    }
  } finally {
    await host.close()
    bare.close()
    rmSync(root, { recursive: true, force: true })
  }
  const shown = (rate: number): string => `${Math.round(rate).toLocaleString('en')}/s`
  const mid = (key: 'bare' | 'one' | 'many'): string => shown(median(rounds.map((rates) => rates[key])))
  return [
    {
      name: 'mutating verbs, 64 at once: rate through call over rate of bare SQL',
      ratio: median(rounds.map(({ many, bare }) => many / bare)),
      goal: 'more than 1',
      detail: `${mid('many')}; bare, a commit each, ${mid('bare')}`,
    },
    {
      name: 'mutating verbs, one at a time: time through call over time of bare SQL',
      ratio: median(rounds.map(({ one, bare }) => bare / one)),
      goal: 'at most 2',
      detail: `${mid('one')}; bare ${mid('bare')}`,
    },
  ]
}
