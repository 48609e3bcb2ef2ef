// npm run bench: every benchmark, or those whose name holds an argument. Ratios against baselines of the same run.
import { benchAccess } from './access.ts'
import { benchCellNetwork } from './cell-network.ts'
import { benchCellTurns } from './cells.ts'
import { benchColdStart } from './cold-start.ts'
import { benchExport } from './export.ts'
import { benchIdleFolders } from './idle-folders.ts'
import { benchIngestBigStore, benchIngestMemory, benchIngestPostgres, benchIngestRate } from './ingest.ts'
import { benchList } from './list.ts'
import { type Benches, runBenches } from './report.ts'
import { benchSearch } from './search.ts'
import { benchSockets } from './sockets.ts'
import { benchStreams } from './streams.ts'
import { benchToolCalls } from './tool-calls.ts'
import { benchFairness, benchFirstFrame } from './turns.ts'
import { benchVerbs } from './verbs.ts'

const BENCHES: Benches = {
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
  'cell-turns': benchCellTurns,
  'cell-network': benchCellNetwork,
  'idle-folders': benchIdleFolders,
}

await runBenches(BENCHES, process.argv.slice(2))
