// Periodically logs one line with the hosts denied since the previous one, as candidates for the allowlist.
import type { DeniedHost, MetricsSnapshot } from './metrics-snapshot.ts'

const EVERY_MS = 60_000
const HOSTS_MAX = 50

export interface DeniedSummary {
  /** Logs the remaining hosts. */
  close(): Promise<void>
}

export function startDeniedSummary(
  snapshot: () => Promise<MetricsSnapshot>,
  log: (line: string) => void,
): DeniedSummary {
  let since = Date.now()
  const say = async (): Promise<void> => {
    const from = since
    since = Date.now()
    const denied = (await snapshot()).denied.filter(({ lastMs }) => lastMs >= from)
    if (denied.length > 0) log(summaryLine(denied, since))
  }
  const timer = setInterval(() => void say().catch(() => {}), EVERY_MS)
  timer.unref()
  return {
    close: () => {
      clearInterval(timer)
      return say().catch(() => {})
    },
  }
}

export function summaryLine(denied: readonly DeniedHost[], nowMs: number): string {
  const shown = denied.slice(0, HOSTS_MAX).map(({ id, host, port, sni, count }) => ({ id, host, port, sni, count }))
  const more = denied.length - shown.length
  const line = {
    level: 'info',
    time: new Date(nowMs).toISOString(),
    msg: 'denied hosts',
    hosts: shown,
    ...(more > 0 ? { more } : {}),
  }
  return `${JSON.stringify(line)}\n`
}
