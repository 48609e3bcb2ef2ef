// Joins Prometheus texts: each family once with its HELP and TYPE, and its samples of all texts.

export interface MetricsPart {
  readonly text: string
  /** Label that its samples get unless they have it, to tell processes apart. */
  readonly label?: readonly [name: string, value: string]
}

interface Family {
  readonly head: string[]
  readonly samples: string[]
}

const HEAD = /^# (?:HELP|TYPE) ([a-zA-Z_:][\w:]*) /
const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/

/** Lines that are neither a head nor a sample are left out: the text of another process may be cut. */
export function joinMetrics(parts: readonly MetricsPart[]): string {
  const families = new Map<string, Family>()
  for (const { text, label } of parts) addPart(families, text, label)
  return [...families.values()]
    .flatMap(({ head, samples }) => (samples.length > 0 ? [...head, ...samples] : []))
    .map((line) => `${line}\n`)
    .join('')
}

function addPart(families: Map<string, Family>, text: string, label: MetricsPart['label']): void {
  // Samples follow the head of their family; those of a histogram have longer names.
  let current: { readonly name: string; readonly family: Family; readonly isKnown: boolean } | undefined
  for (const line of text.split('\n')) {
    const [, named] = HEAD.exec(line) ?? []
    if (named !== undefined) {
      if (current?.name !== named) {
        const known = families.get(named)
        const family = known ?? { head: [], samples: [] }
        families.set(named, family)
        current = { name: named, family, isKnown: known !== undefined }
      }
      if (!current.isKnown) current.family.head.push(line)
      continue
    }
    const [, name = '', labels = '', value] = SAMPLE.exec(line) ?? []
    if (value === undefined || !current || !name.startsWith(current.name)) continue
    current.family.samples.push(`${name}${withLabel(labels, label)} ${value}`)
  }
}

function withLabel(labels: string, label: MetricsPart['label']): string {
  const all = label && !hasLabel(labels, label[0]) ? [`${label[0]}="${label[1]}"`, labels] : [labels]
  const text = all.filter((part) => part !== '').join(',')
  return text === '' ? '' : `{${text}}`
}

/** Values of our labels contain no quotes or commas. */
function hasLabel(labels: string, name: string): boolean {
  return labels.startsWith(`${name}="`) || labels.includes(`,${name}="`)
}
