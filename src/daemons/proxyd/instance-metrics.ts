// `/metrics` of the front door: the metrics of every process of the instance that it knows. A daemon that does not answer is
// left out, and `svc_daemon_up` says so.
import { METRICS_SERVICE, metricsAudience } from '../../core/access/bearers.ts'
import { defineGauge, metricHead } from '../../lib/log/metric-registry.ts'
import { joinMetrics, type MetricsPart } from '../../lib/log/metrics-join.ts'
import { refuse } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { authenticate, type Credentials } from '../http/credentials.ts'
import type { Peers } from '../http/peers.ts'
import { type MetricsPage, PROCESS_HEADER } from '../process/metrics-page.ts'
import type { RunnerProcess } from '../process/runner-process.ts'
import { DAEMON_NAMES, type DaemonName } from '../settings.ts'
import { authorize } from './request-auth.ts'

const TIMEOUT_MS = 3000
const BYTES_MAX = 4 * 1024 * 1024

export const DAEMON_UP = defineGauge('svc_daemon_up', 'Whether the daemon answers', { daemon: DAEMON_NAMES })

export async function authorizeMetrics(host: InstanceHost, credentials: Credentials): Promise<void> {
  const authentication = await authenticate(host, credentials, { audiences: [metricsAudience(host)] })
  const { caller } = authentication
  if (caller?.kind === 'service') {
    if (caller.sub === METRICS_SERVICE) return
    refuse(
      'forbidden',
      `this path is for operators and ${METRICS_SERVICE}`,
      `svc bearer ${host.instance} ${METRICS_SERVICE}`,
    )
  }
  await authorize(host, authentication, 'operator')
}

interface ScrapedDaemon {
  readonly name: DaemonName
  /** Undefined if it did not answer. */
  readonly page?: { readonly text: string; readonly processId: string | null } | undefined
}

export async function instanceMetrics(
  own: MetricsPage,
  peers: Peers,
  runner: RunnerProcess | undefined,
): Promise<string> {
  const [ownText, runnerText, ...scraped] = await Promise.all([
    own.text(),
    runner?.metrics(),
    ...remotes(peers).map(scrape),
  ])
  // Several daemons may run in one process, which serves the same numbers at each listener.
  const seen = new Set<string | null>([own.processId])
  const parts: MetricsPart[] = [{ text: ownText, label: ['daemon', 'proxyd'] }]
  if (runnerText !== undefined) parts.push({ text: runnerText, label: ['daemon', 'runed'] })
  for (const { name, page } of scraped) {
    if (!page || (page.processId !== null && seen.has(page.processId))) continue
    seen.add(page.processId)
    parts.push({ text: page.text, label: ['daemon', name] })
  }
  const local = DAEMON_NAMES.filter((name) => peers.isLocal(name))
  const up = [...local.map((name) => [name, 1]), ...scraped.map(({ name, page }) => [name, page ? 1 : 0])]
  const upText = [
    ...metricHead(DAEMON_UP),
    ...up.map(([name, value]) => `${DAEMON_UP.name}{daemon="${name}"} ${value}`),
  ]
  return joinMetrics([...parts, { text: upText.join('\n') }])
}

function remotes(peers: Peers): { name: DaemonName; url: URL }[] {
  return DAEMON_NAMES.flatMap((name) => {
    const url = peers.isLocal(name) ? undefined : peers.urls.get(name)
    return url ? [{ name, url }] : []
  })
}

async function scrape({ name, url }: { name: DaemonName; url: URL }): Promise<ScrapedDaemon> {
  try {
    const response = await fetch(new URL('/metrics', url), {
      signal: AbortSignal.timeout(TIMEOUT_MS),
      redirect: 'error',
    })
    const text = await response.text()
    if (response.status === 404) return { name, page: { text: '', processId: null } }
    if (!response.ok || text.length > BYTES_MAX) return { name }
    return { name, page: { text, processId: response.headers.get(PROCESS_HEADER) } }
  } catch {
    return { name }
  }
}
