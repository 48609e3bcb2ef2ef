// Charts and warnings about costs that pages share.
import { sentenceOf } from '../../core/turns/turn-failures.ts'
import { renderChart } from '../../web/dash/chart.ts'
import { money, notice, visibleText } from '../../web/dash/parts.ts'
import type { Html } from '../../web/html.ts'
import { findUncountedModels } from '../models/shared-models.ts'
import type { PageView } from './page.ts'

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

/** Says which turns a cap does not limit, because their models have no price; of one folder and those below it, or of all. */
export async function uncountedNotices({ host, daemon }: PageView, folder?: string): Promise<Html[]> {
  const query = { keyring: host.keyring, sources: await daemon.currentSources() }
  const models = await host.engine.read((tx) => findUncountedModels(tx, query, folder))
  return models.map(({ sentence }) => notice('warn', visibleText(sentenceOf(sentence))))
}
