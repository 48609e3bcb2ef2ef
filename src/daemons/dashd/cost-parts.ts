// Charts of costs that pages share.
import { renderChart } from '../../web/dash/chart.ts'
import { money } from '../../web/dash/parts.ts'
import type { Html } from '../../web/html.ts'

const DAY_MS = 24 * 3_600_000

/** A bar for each day, also for those that cost nothing. */
export function dayCostChart(centsOf: ReadonlyMap<string, number>, since: string, days: number): Html {
  const points = Array.from({ length: days }, (_, at) => {
    const label = new Date(Date.parse(since) + at * DAY_MS).toISOString().slice(0, 10)
    return { label, value: centsOf.get(label) ?? 0 }
  })
  return renderChart({
    id: 'cost-chart',
    title: `Cost by day, ${days} days (UTC)`,
    points,
    format: money,
    isWide: true,
  })
}
