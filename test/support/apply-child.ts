// Runs one apply in a process that can kill itself at a given write. Protocol by lines: prints `ready` and waits for a line,
// prints `writing` at the first write, and `<kind> <writes>` at the end.
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { openHost } from '../../src/daemons/process/host.ts'
import { callVerb } from '../../src/registry/call.ts'
import type { Engine, Tx } from '../../src/store/engine.ts'
import type { StoreAddress } from '../../src/store/index.ts'
import { fakeClock } from './clock.ts'
import { overrideEngine } from './engine-override.ts'
import { manifestVerb } from './manifest.ts'
import { run } from './sql.ts'

export interface Orders {
  readonly store: StoreAddress
  readonly manifest: string
  /** Exits before this write. The commit and the answer count as two more writes. */
  readonly dieAt?: number
  /** For the control test: one transaction per resource, which must be detected. */
  readonly torn?: boolean
}

let writes = 0
const { store, manifest, dieAt, torn }: Orders = JSON.parse(process.argv[2] ?? '')

function step(): void {
  writes++
  if (writes === 1) console.log('writing')
  if (writes === dieAt) process.kill(process.pid, 'SIGKILL')
}

function counted(tx: Tx): Tx {
  return {
    executeQuery: (query) => {
      if (!/^\s*select/i.test(query.sql)) step()
      return tx.executeQuery(query)
    },
    onCommit: (then) => tx.onCommit(then),
  }
}

function dying(engine: Engine): Engine {
  return overrideEngine(engine, {
    transaction: (work) =>
      engine.transaction(async (tx) => {
        // A small cache writes pages to disk long before the commit.
        if (engine.dialect.name === 'sqlite') await run(tx, 'pragma cache_size = 5')
        const value = await work(counted(tx))
        step()
        return value
      }),
  })
}

const host = await openHost({ instance: 'child', store, webBase: 'http://localhost', clock: fakeClock() })
const asking = {
  host: { ...host, engine: dying(host.engine) },
  caller: { kind: 'host', sub: 'cli' },
  face: 'cli',
} as const
const text = readFileSync(manifest, 'utf8')
console.log('ready')
await new Promise((resolve) => createInterface({ input: process.stdin }).once('line', resolve))
const parts = torn
  ? text
      .split(/^(?=\w)/m)
      .slice(1)
      .map((part) => `config_version: 1\n${part}`)
  : [text]
let kind = ''
for (const part of parts)
  ({ kind } = await callVerb(asking, manifestVerb.apply, { manifest: part, force: torn === true }))
step()
console.log(`${kind} ${writes}`)
await host.close()
process.exit(0)
