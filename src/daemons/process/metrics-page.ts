// `/metrics` of a process: requests of its daemons, what its host counts, and the process itself. Each of its listeners
// serves the same page.
import { MetricRegistry } from '../../lib/log/metric-registry.ts'
import { openProcessMetrics } from '../../lib/log/metrics.ts'
import { joinMetrics } from '../../lib/log/metrics-join.ts'

/** Tells the front door that two URLs lead to the same process. */
export const PROCESS_HEADER = 'X-Svc-Process'

export interface MetricsPage {
  /** Random, for PROCESS_HEADER. */
  readonly processId: string
  add(part: { text(): string }): void
  text(): Promise<string>
  close(): void
}

export function openMetricsPage(registry: MetricRegistry = new MetricRegistry()): MetricsPage {
  const processMetrics = openProcessMetrics()
  const parts: { text(): string }[] = []
  return {
    processId: crypto.randomUUID(),
    add: (part) => void parts.push(part),
    text: async () => {
      const texts = [...parts.map((part) => part.text()), await registry.text(), processMetrics.text()]
      return joinMetrics(texts.map((text) => ({ text })))
    },
    close: () => processMetrics.close(),
  }
}
