// The first page of a list through `callVerb`, against the bare query for the same rows.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { z } from 'zod'
import { groups } from '../src/core/groups/groups.ts'
import { hashToken } from '../src/core/links/link-token.ts'
import { routeTokens } from '../src/core/links/route-tokens.ts'
import { type OpenHost, openHost } from '../src/daemons/process/host.ts'
import { timestamp } from '../src/lib/clock.ts'
import { callVerb } from '../src/registry/call.ts'
import type { NamedVerb } from '../src/registry/resource.ts'
import { aclResource } from '../src/resources/acl.ts'
import { aclMembershipResource } from '../src/resources/acl-membership.ts'
import { groupsResource } from '../src/resources/groups.ts'
import { routeTokensResource } from '../src/resources/route-tokens.ts'
import type { Table } from '../src/store/table.ts'
import { median, type Result } from './result.ts'

const TOKENS = 100_000
const GROUPS = 10_000
const ROUNDS = 60
/** Rounds that only warm up. */
const WARM = 20
const GOAL_MS = 5

const folderOf = (index: number): string => `team${index % 100}/g${index}`

async function fill(host: OpenHost): Promise<void> {
  const started = Date.UTC(2026, 0, 1)
  await host.engine.transaction(async (tx) => {
    for (let index = 0; index < GROUPS; index++) {
      const added_at = timestamp(started)
      await groups.insert(tx, {
        folder: folderOf(index),
        name: `g${index}`,
        product: 'assistant',
        open: true,
        added_at,
      })
    }
    for (let index = 0; index < TOKENS; index++) {
      const folder = folderOf(index % GROUPS)
      const token = {
        token_hash: hashToken(`${index}`),
        jid: `web:${folder}`,
        owner_folder: folder,
        target_folder: folder,
      }
      await routeTokens.insert(tx, { ...token, created_at: timestamp(started + Math.floor(index / 3)) })
    }
  })
  const request = { host, caller: { kind: 'host', sub: 'cli' }, face: 'cli' } as const
  await callVerb(request, aclMembershipResource.verbs.add, { subject: 'github:1', role: 'role:operator' })
  await callVerb(request, aclResource.verbs.grant, {
    principal: 'github:2',
    action: 'admin',
    scope: `${folderOf(7)}/**`,
  })
}

interface Case {
  readonly name: string
  readonly verb: NamedVerb<z.ZodObject, unknown>
  readonly sub: string
  readonly sql: string
  readonly goal: string
}

const page = (table: Table<z.ZodObject>, order: string): string =>
  `select ${table.columns.join(', ')} from ${table.name} order by ${order} limit 101`

const CASES: readonly Case[] = [
  {
    name: `first page of ${TOKENS.toLocaleString('en')} tokens, for an operator`,
    verb: routeTokensResource.verbs.list,
    sub: 'github:1',
    sql: page(routeTokens, 'created_at desc, token_hash asc'),
    goal: `at most 1 (${GOAL_MS} ms over the bare query)`,
  },
  {
    name: `first page of ${GROUPS.toLocaleString('en')} groups, for an operator`,
    verb: groupsResource.verbs.list,
    sub: 'github:1',
    sql: page(groups, 'folder asc'),
    goal: `at most 1 (${GOAL_MS} ms over the bare query)`,
  },
  {
    name: `the few tokens of one folder among ${TOKENS.toLocaleString('en')}, for its admin`,
    verb: routeTokensResource.verbs.list,
    sub: 'github:2',
    sql: page(routeTokens, 'created_at desc, token_hash asc').replace(
      ' order',
      ` where owner_folder = '${folderOf(7)}' order`,
    ),
    goal: `at most 1 (${GOAL_MS} ms over the bare query)`,
  },
]

async function measure(host: OpenHost, db: DatabaseSync, { name, verb, sub, sql, goal }: Case): Promise<Result> {
  const bare = db.prepare(sql)
  const request = { host, caller: { kind: 'person', sub }, face: 'rest' } as const
  const rounds: { bare: number; called: number }[] = []
  for (let round = 0; round < WARM + ROUNDS; round++) {
    const started = performance.now()
    bare.all()
    const between = performance.now()
    await callVerb(request, verb, {})
    if (round >= WARM) rounds.push({ bare: between - started, called: performance.now() - between })
  }
  const over = median(rounds.map((round) => round.called - round.bare))
  const [bareMs, calledMs] = [median(rounds.map((round) => round.bare)), median(rounds.map((round) => round.called))]
  return {
    name,
    ratio: over / GOAL_MS,
    goal,
    detail: `${calledMs.toFixed(2)} ms; the bare query ${bareMs.toFixed(2)} ms`,
  }
}

export async function benchList(): Promise<Result[]> {
  const root = mkdtempSync(join(tmpdir(), 'svc-bench-'))
  const path = join(root, 'svc.db')
  const host = await openHost({
    instance: 'bench',
    store: { path, create: true },
    secretsKey: 'bench',
    webBase: 'http://localhost',
  })
  const db = new DatabaseSync(path)
  try {
    await fill(host)
    const results: Result[] = []
    for (const one of CASES) results.push(await measure(host, db, one))
    return results
  } finally {
    db.close()
    await host.close()
    rmSync(root, { recursive: true, force: true })
  }
}
