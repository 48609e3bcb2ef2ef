// npm run bench:egress: every benchmark of egress-proxy, or those whose name holds an argument. Squid and tinyproxy run in
// the same rounds under the same load; each proxy has one processor, the load the other.
import { type Benches, runBenches } from '../report.ts'
import { benchDownload, benchManyDownloads, benchUpload } from './bulk.ts'
import { benchDecisions } from './decide.ts'
import { benchIdle } from './idle.ts'
import { benchPlainHttp } from './plain.ts'
import { benchRegister, benchStart } from './start.ts'
import { benchConnectLatency, benchTunnels } from './tunnels.ts'

const BENCHES: Benches = {
  download: benchDownload,
  'many-downloads': benchManyDownloads,
  upload: benchUpload,
  tunnels: benchTunnels,
  'connect-latency': benchConnectLatency,
  'plain-http': benchPlainHttp,
  idle: benchIdle,
  decide: benchDecisions,
  start: benchStart,
  register: benchRegister,
}

await runBenches(BENCHES, process.argv.slice(2))
