// Small bar charts as SVG, with the values as a list for readers who do not see them. Attributes only: the security policy
// allows no inline style.
import { EMPTY_HTML, type Html, html } from '../html.ts'

export interface ChartPoint {
  readonly label: string
  readonly value: number
}

export interface BarChart {
  readonly id: string
  readonly title: string
  readonly points: readonly ChartPoint[]
  /** How a value is written; default: as it is. */
  readonly format?: (value: number) => string
  /** A line across the chart, such as a daily cap. */
  readonly limit?: number | undefined
  /** As wide as the page, with the first and last label and the largest value below. */
  readonly isWide?: boolean
}

const [WIDTH, HEIGHT, GAP] = [240, 48, 2]

export function renderChart({ id, title, points, format = String, limit, isWide = false }: BarChart): Html {
  const max = Math.max(...points.map(({ value }) => value), limit ?? 0, 1e-9)
  const step = WIDTH / Math.max(points.length, 1)
  const y = (value: number): number => round(HEIGHT - (value / max) * HEIGHT)
  const bars = points.map(({ label, value }, at) => {
    const height = value > 0 ? Math.max(round((value / max) * HEIGHT), 1) : 0
    return html`<rect x="${round(at * step)}" y="${round(HEIGHT - height)}" width="${round(Math.max(step - GAP, 1))}" height="${height}"><title>${label}: ${format(value)}</title></rect>`
  })
  const line = limit === undefined ? [] : [html`<line x1="0" x2="${WIDTH}" y1="${y(limit)}" y2="${y(limit)}"></line>`]
  const total = points.map(({ label, value }) => html`<li>${label}: ${format(value)}</li>`)
  const axis = isWide ? renderAxis(points, format) : EMPTY_HTML
  return html`<figure id="${id}" class="${isWide ? 'chart wide' : 'chart'}"><figcaption>${title}</figcaption><svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true">${bars}${line}</svg>${axis}<ul class="unseen">${total}</ul></figure>`
}

function renderAxis(points: readonly ChartPoint[], format: (value: number) => string): Html {
  const largest = Math.max(0, ...points.map(({ value }) => value))
  return html`<div class="axis" aria-hidden="true"><span>${points[0]?.label ?? ''}</span><span>largest: ${format(largest)}</span><span>${points.at(-1)?.label ?? ''}</span></div>`
}

function round(value: number): number {
  return Math.round(value * 100) / 100
}
