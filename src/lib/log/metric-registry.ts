// Counters, histograms and gauges as Prometheus text. A definition is a constant beside the code that counts; its values
// belong to a registry, one per host. Labels come from fixed sets, so no client, agent or folder can create series.
// Not prom-client: it has four packages, 3.4 MB and a hash of labels per count, and this is all that svc needs of it.

type LabelSets = Readonly<Record<string, readonly string[]>>
export type MetricLabels<L extends LabelSets> = { readonly [K in keyof L]: L[K][number] }

interface Metric<T extends string, L extends LabelSets> {
  readonly type: T
  readonly name: string
  readonly help: string
  /** The values of each label. */
  readonly labels: L
}

export type Counter<L extends LabelSets = LabelSets> = Metric<'counter', L>
export type Gauge<L extends LabelSets = LabelSets> = Metric<'gauge', L>
export interface Histogram<L extends LabelSets = LabelSets> extends Metric<'histogram', L> {
  /** Upper bounds of the buckets, ascending. */
  readonly bounds: readonly number[]
}
export type MetricDefinition = Counter | Gauge | Histogram

type NoLabels = Record<never, readonly string[]>

export function defineCounter<const L extends LabelSets = NoLabels>(
  name: string,
  help: string,
  labels?: L,
): Counter<L> {
  return { type: 'counter', name, help, labels: labels ?? ({} as L) }
}

export function defineGauge<const L extends LabelSets = NoLabels>(name: string, help: string, labels?: L): Gauge<L> {
  return { type: 'gauge', name, help, labels: labels ?? ({} as L) }
}

export function defineHistogram<const L extends LabelSets = NoLabels>(
  name: string,
  help: string,
  bounds: readonly number[],
  labels?: L,
): Histogram<L> {
  return { type: 'histogram', name, help, bounds, labels: labels ?? ({} as L) }
}

/** A value that is outside of the set becomes `other`. */
export function knownLabel<const V extends string>(values: readonly V[], value: string): V | 'other' {
  return values.find((known) => known === value) ?? 'other'
}

export interface GaugeReading {
  readonly gauge: Gauge
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export function reading<L extends LabelSets>(gauge: Gauge<L>, labels: MetricLabels<L>, value: number): GaugeReading {
  return { gauge, labels, value }
}

/** Read at each scrape. A source that fails is left out of the text. */
export type GaugeSource = () => readonly GaugeReading[] | Promise<readonly GaugeReading[]>

export class MetricRegistry {
  /** Per definition a row of numbers for each combination of labels: one for a counter, buckets and sum for a histogram. */
  readonly #values = new Map<Counter | Histogram, Float64Array>()
  readonly #sources = new Set<GaugeSource>()

  /** Shows these with 0 before the first count, so that a rate includes it. */
  declare(definitions: readonly (Counter | Histogram)[]): void {
    for (const definition of definitions) this.#valuesOf(definition)
  }

  add<L extends LabelSets>(counter: Counter<L>, labels: MetricLabels<L>, by = 1): void {
    const values = this.#valuesOf(counter)
    const at = indexOf(counter.labels, labels)
    values[at] = (values[at] ?? 0) + by
  }

  observe<L extends LabelSets>(histogram: Histogram<L>, labels: MetricLabels<L>, value: number): void {
    const { bounds } = histogram
    const values = this.#valuesOf(histogram)
    const start = indexOf(histogram.labels, labels) * widthOf(histogram)
    let bucket = 0
    while (bucket < bounds.length && value > (bounds[bucket] ?? 0)) bucket++
    values[start + bucket] = (values[start + bucket] ?? 0) + 1
    const sum = start + bounds.length + 1
    values[sum] = (values[sum] ?? 0) + Math.max(0, value)
  }

  /** Returns a function that removes the source. */
  addSource(source: GaugeSource): () => void {
    this.#sources.add(source)
    return () => void this.#sources.delete(source)
  }

  /** Current value of a counter, or the number of observations of a histogram. */
  count<L extends LabelSets>(definition: Counter<L> | Histogram<L>, labels: MetricLabels<L>): number {
    const values = this.#valuesOf(definition)
    const width = widthOf(definition)
    const start = indexOf(definition.labels, labels) * width
    return values.slice(start, definition.type === 'counter' ? start + 1 : start + width - 1).reduce((a, b) => a + b, 0)
  }

  async text(): Promise<string> {
    const lines: string[] = []
    for (const [definition, values] of this.#values) {
      lines.push(...metricHead(definition))
      const width = widthOf(definition)
      for (const [at, labels] of combinations(definition.labels).entries())
        lines.push(...seriesLines(definition, labels, values.subarray(at * width, (at + 1) * width)))
    }
    const shown = new Set<Gauge>()
    for (const { gauge, labels, value } of (await this.#readGauges()).sort((a, b) => byName(a.gauge, b.gauge))) {
      if (!shown.has(gauge)) lines.push(...metricHead(gauge))
      shown.add(gauge)
      lines.push(`${gauge.name}${labelText(Object.entries(labels))} ${value}`)
    }
    return lines.map((line) => `${line}\n`).join('')
  }

  async #readGauges(): Promise<GaugeReading[]> {
    const results = await Promise.allSettled([...this.#sources].map(async (source) => source()))
    return results.flatMap((result) => (result.status === 'fulfilled' ? result.value : []))
  }

  #valuesOf(definition: Counter | Histogram): Float64Array {
    const known = this.#values.get(definition)
    if (known) return known
    const values = new Float64Array(combinationCount(definition.labels) * widthOf(definition))
    this.#values.set(definition, values)
    return values
  }
}

export function metricHead({
  name,
  type,
  help,
}: {
  readonly name: string
  /** A summary is one of the process, and has no definition. */
  readonly type: MetricDefinition['type'] | 'summary'
  readonly help: string
}): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`]
}

function byName(a: MetricDefinition, b: MetricDefinition): number {
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0
}

/** Of a histogram: the buckets, one above the last bound, and the sum. */
function widthOf(definition: Counter | Histogram): number {
  return definition.type === 'counter' ? 1 : definition.bounds.length + 2
}

function combinationCount(labels: LabelSets): number {
  return Object.values(labels).reduce((count, values) => count * values.length, 1)
}

/** Position of a combination of label values: the last label varies fastest. */
function indexOf(labels: LabelSets, given: Readonly<Record<string, string>>): number {
  let index = 0
  for (const name in labels) {
    const values = labels[name] ?? []
    const at = values.indexOf(given[name] ?? '')
    if (at < 0) throw new Error(`metric label ${name} has no value ${given[name]}`)
    index = index * values.length + at
  }
  return index
}

type LabelPairs = readonly (readonly [name: string, value: string])[]

function combinations(labels: LabelSets): LabelPairs[] {
  let all: LabelPairs[] = [[]]
  for (const [name, values] of Object.entries(labels))
    all = all.flatMap((pairs) => values.map((value) => [...pairs, [name, value] as const]))
  return all
}

function seriesLines(definition: Counter | Histogram, labels: LabelPairs, values: Float64Array): string[] {
  const { name } = definition
  if (definition.type === 'counter') return [`${name}${labelText(labels)} ${values[0] ?? 0}`]
  let below = 0
  const buckets = [...values.subarray(0, -1)].map((count, at) => {
    below += count
    return `${name}_bucket${labelText([...labels, ['le', String(definition.bounds[at] ?? '+Inf')]])} ${below}`
  })
  return [
    ...buckets,
    `${name}_sum${labelText(labels)} ${values.at(-1) ?? 0}`,
    `${name}_count${labelText(labels)} ${below}`,
  ]
}

function labelText(labels: LabelPairs): string {
  return labels.length === 0 ? '' : `{${labels.map(([name, value]) => `${name}="${value}"`).join(',')}}`
}
