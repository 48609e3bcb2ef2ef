// `svc export` of 100,000 rows, against reading the same rows.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { networkRules } from '../src/core/access/allowlist.ts'
import { routes } from '../src/core/routing/routes.ts'
import { openHost } from '../src/daemons/process/host.ts'
import { manifestVerbs } from '../src/faces/manifest/manifest-verbs.ts'
import { callVerb } from '../src/registry/call.ts'
import { resources } from '../src/resources/index.ts'
import { run } from '../test/support/sql.ts'
import { median, type Result } from './result.ts'

const ROWS = 100_000
const ROUNDS = 5

export async function benchExport(): Promise<Result[]> {
  const root = mkdtempSync(join(tmpdir(), 'svc-bench-'))
  const host = await openHost({
    instance: 'bench',
    store: { path: join(root, 'svc.db'), create: true },
    webBase: 'http://localhost',
  })
  try {
    await host.engine.transaction(async (tx) => {
      for (let index = 0; index < ROWS / 2; index++) {
        await run(tx, 'insert into routes (seq, match, target) values ($1, $2, $3)', [
          index % 100,
          `room=${index} verb=mention`,
          `team/g${index % 500}`,
        ])
        await run(tx, 'insert into network_rules (folder, target, created_at, created_by) values ($1, $2, $3, $4)', [
          `team/g${index % 500}`,
          `host${index}.example.com`,
          '2026-01-01T00:00:00.000Z',
          'cli',
        ])
      }
    })
    const request = { host, caller: { kind: 'host', sub: 'cli' }, face: 'cli' } as const
    const { export: exportVerb } = manifestVerbs(resources)
    const timed = async (work: () => Promise<unknown>): Promise<number> => {
      const started = performance.now()
      await work()
      return performance.now() - started
    }
    const read = () => timed(() => host.engine.read(async (tx) => [await routes.list(tx), await networkRules.list(tx)]))
    const exported = () => timed(() => callVerb(request, exportVerb, {}))
    await read()
    await exported()
    const rounds: { read: number; exported: number }[] = []
    for (let round = 0; round < ROUNDS; round++) rounds.push({ read: await read(), exported: await exported() })
    const [readMs, exportMs] = [
      median(rounds.map((round) => round.read)),
      median(rounds.map((round) => round.exported)),
    ]
    return [
      {
        name: `export of ${ROWS.toLocaleString('en')} rows`,
        ratio: exportMs / readMs,
        goal: 'at most 3',
        detail: `${exportMs.toFixed(0)} ms; reading the rows ${readMs.toFixed(0)} ms`,
      },
    ]
  } finally {
    await host.close()
    rmSync(root, { recursive: true, force: true })
  }
}
