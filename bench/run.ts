// npm run bench: runs every benchmark, or those whose name contains an argument.
import { benchAccess } from './access.ts'
import { benchAdapters } from './adapters.ts'
import { benchBearers } from './bearers.ts'
import { benchBytesWritten } from './bytes-written.ts'
import { benchCellNetwork } from './cell-network.ts'
import { benchCellTurns } from './cells.ts'
import { benchColdStart } from './cold-start.ts'
import { benchColdRun, benchImageSize } from './container-stack.ts'
import { benchContainerTurns } from './containers.ts'
import { benchDashboard } from './dashboard.ts'
import { benchDeltas } from './deltas.ts'
import { benchExport } from './export.ts'
import { benchFrontCommand, benchFrontFirstFrame, benchFrontHooks, benchFrontStart } from './front-runner.ts'
import {
  benchHooks,
  benchHooksBigStore,
  benchHooksManyLinks,
  benchHooksMemory,
  benchHooksPostgres,
  benchUnknownToken,
} from './hooks.ts'
import { benchIdle } from './idle.ts'
import { benchIdleFolders } from './idle-folders.ts'
import { benchList } from './list.ts'
import { benchMessages } from './messages.ts'
import { benchPaths } from './paths.ts'
import { type Benches, runBenches } from './report.ts'
import { benchSearch } from './search.ts'
import { benchSessions } from './sessions.ts'
import { benchSoak } from './soak.ts'
import { benchSockets } from './sockets.ts'
import { benchStreams } from './streams.ts'
import { benchToolCalls } from './tool-calls.ts'
import { benchFairness, benchFirstFrame } from './turns.ts'
import { benchUploads } from './uploads.ts'
import { benchVerbs } from './verbs.ts'

const BENCHES: Benches = {
  verbs: benchVerbs,
  paths: benchPaths,
  list: benchList,
  access: benchAccess,
  bearers: benchBearers,
  sessions: benchSessions,
  export: benchExport,
  'cold-start': benchColdStart,
  hooks: benchHooks,
  'hooks-many-links': benchHooksManyLinks,
  'hooks-big-store': benchHooksBigStore,
  'hooks-postgres': benchHooksPostgres,
  'hooks-memory': benchHooksMemory,
  'unknown-token': benchUnknownToken,
  messages: benchMessages,
  adapters: benchAdapters,
  idle: benchIdle,
  streams: benchStreams,
  deltas: benchDeltas,
  uploads: benchUploads,
  'tool-calls': benchToolCalls,
  sockets: benchSockets,
  search: benchSearch,
  dashboard: benchDashboard,
  'first-frame': benchFirstFrame,
  fairness: benchFairness,
  written: benchBytesWritten,
  'front-hooks': benchFrontHooks,
  'front-first-frame': benchFrontFirstFrame,
  'front-command': benchFrontCommand,
  'front-start': benchFrontStart,
  'cell-turns': benchCellTurns,
  'container-turns': benchContainerTurns,
  'cell-network': benchCellNetwork,
  'idle-folders': benchIdleFolders,
  'image-size': benchImageSize,
  'cold-run': benchColdRun,
}

const isNumber = (word: string): boolean => /^[\d.]+$/.test(word)
const words = process.argv.slice(2)
const wanted = words.filter((word) => !isNumber(word))
const [minutes = '30'] = words.filter(isNumber)
/** Runs only if named, because it takes long; a number sets its minutes. */
const long: Benches = { soak: () => benchSoak(Number(minutes)) }

await runBenches({ ...BENCHES, ...(wanted.includes('soak') ? long : {}) }, wanted)
