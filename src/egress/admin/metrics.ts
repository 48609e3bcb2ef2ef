// What a scraper reads: the counters as Prometheus text.
import { BOUNDS_S, type Durations, type Snapshot } from '../snapshot.ts'

type Labels = Readonly<Record<string, string>>
type Sample = readonly [labels: Labels, value: number]

/** `entries` is how many sources are registered. */
export function metricsText(snapshot: Snapshot, entries: number): string {
  const { rss } = process.memoryUsage()
  const { user, system } = process.cpuUsage()
  return [
    metric(
      'egress_decisions_total',
      'counter',
      'Requests that were judged',
      snapshot.decisions.map(({ mode, verdict, reason, count }) => [{ mode, decision: verdict, reason }, count]),
    ),
    metric(
      'egress_errors_total',
      'counter',
      'Requests that failed for another reason than a rule',
      snapshot.errors.map(({ code, count }) => [{ type: code }, count]),
    ),
    one('egress_connections_active', 'gauge', 'Connections of clients that are open', snapshot.connections),
    one('egress_tunnels_active', 'gauge', 'Tunnels that are open', snapshot.tunnels),
    metric('egress_bytes_total', 'counter', 'Bytes from clients (up) and to them (down)', [
      [{ dir: 'up' }, snapshot.bytesUp],
      [{ dir: 'down' }, snapshot.bytesDown],
    ]),
    histogram('egress_dial_seconds', 'Time to a connection with an allowed host', snapshot.dial),
    histogram('egress_dns_seconds', 'Time to look up an allowed host', snapshot.dns),
    one('egress_registry_entries', 'gauge', 'Sources that are registered', entries),
    one('egress_denied_hosts', 'gauge', 'Denied hosts that GET /v1/denied lists', snapshot.denied.length),
    one('egress_log_lines_dropped_total', 'counter', 'Lines that the log could not take', snapshot.droppedLines),
    one('process_resident_memory_bytes', 'gauge', 'Memory that the process holds', rss),
    one('process_cpu_seconds_total', 'counter', 'Processor time', (user + system) / 1e6),
  ].join('')
}

function one(name: string, type: 'counter' | 'gauge', help: string, value: number): string {
  return metric(name, type, help, [[{}, value]])
}

function metric(name: string, type: 'counter' | 'gauge', help: string, samples: readonly Sample[]): string {
  return lines(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...samples.map((sample) => line(name, sample)))
}

function histogram(name: string, help: string, { counts, sumS }: Durations): string {
  let below = 0
  const buckets = counts.map((count, place) => {
    below += count
    return line(`${name}_bucket`, [{ le: String(BOUNDS_S[place] ?? '+Inf') }, below])
  })
  const sums = [line(`${name}_sum`, [{}, sumS]), line(`${name}_count`, [{}, below])]
  return lines(`# HELP ${name} ${help}`, `# TYPE ${name} histogram`, ...buckets, ...sums)
}

function line(name: string, [labels, value]: Sample): string {
  const inside = Object.entries(labels).map(([label, text]) => `${label}="${escaped(text)}"`)
  return inside.length === 0 ? `${name} ${value}` : `${name}{${inside.join(',')}} ${value}`
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}

function lines(...all: readonly string[]): string {
  return `${all.join('\n')}\n`
}
