// npm run bench:egress: runs all benchmarks of egress-proxy, or those whose name contains an argument. Squid and tinyproxy run
// in the same rounds under the same load. The proxy is pinned to one processor and the load to another.
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
