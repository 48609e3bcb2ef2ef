// npm run bench: every benchmark, or those whose name holds an argument. Ratios against baselines of the same run.
import { loadavg } from 'node:os'
import { styleText } from 'node:util'
import { benchAccess } from './access.ts'
import { benchColdStart } from './cold-start.ts'
import { benchExport } from './export.ts'
import { benchIngestBigStore, benchIngestMemory, benchIngestPostgres, benchIngestRate } from './ingest.ts'
import { benchList } from './list.ts'
import { Missing, type Result } from './result.ts'
import { benchSearch } from './search.ts'
import { benchSockets } from './sockets.ts'
import { benchStreams } from './streams.ts'
import { benchToolCalls } from './tool-calls.ts'
import { benchFairness, benchFirstFrame } from './turns.ts'
import { benchVerbs } from './verbs.ts'

const BENCHES: Record<string, () => Promise<Result[]>> = {
  verbs: benchVerbs,
  list: benchList,
  access: benchAccess,
  export: benchExport,
  'cold-start': benchColdStart,
  'ingest-rate': benchIngestRate,
  'ingest-memory': benchIngestMemory,
  'ingest-postgres': benchIngestPostgres,
  'ingest-big-store': benchIngestBigStore,
  streams: benchStreams,
  'tool-calls': benchToolCalls,
  sockets: benchSockets,
  search: benchSearch,
  'first-frame': benchFirstFrame,
  fairness: benchFairness,
}

/** What else the machine did while it measured belongs beside the figures. */
const load = (): string => `load average ${loadavg()[0]?.toFixed(1)}`

async function runBench(name: string, bench: () => Promise<Result[]>): Promise<void> {
  process.stderr.write(`${name} … (${load()})\n`)
  for (const { name, ratio, goal, detail } of await bench()) {
    process.stdout.write(
      `${styleText('bold', ratio.toFixed(2).padStart(8))}  ${name}\n${' '.repeat(10)}goal: ${goal}\n${' '.repeat(10)}${detail}\n`,
    )
  }
  process.stderr.write(`${name} done (${load()})\n`)
}

const wanted = process.argv.slice(2)
for (const [name, bench] of Object.entries(BENCHES)) {
  if (wanted.length > 0 && !wanted.some((part) => name.includes(part))) continue
  try {
    await runBench(name, bench)
  } catch (error) {
    if (!(error instanceof Missing)) throw error
    process.stderr.write(`${name} was not measured: it ${error.message}\n`)
    process.exitCode = 1
  }
}
