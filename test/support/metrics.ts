// Reads Prometheus text strictly.
import assert from 'node:assert/strict'

export interface MetricsText {
  /** The type of each family. */
  readonly families: ReadonlyMap<string, string>
  /** By name and labels, as written. */
  readonly samples: ReadonlyMap<string, number>
}

const SAMPLE = /^([a-z_]+)((?:\{[a-z_]+="[^"\\\n]*"(?:,[a-z_]+="[^"\\\n]*")*\})?) (-?\d[\d.e+-]*)$/

/** Fails on a line that is not Prometheus text, a repeated head or series, or a sample outside of its family. */
export function readMetrics(text: string): MetricsText {
  assert.ok(text === '' || text.endsWith('\n'))
  const families = new Map<string, string>()
  const samples = new Map<string, number>()
  let [current, help] = ['', '']
  for (const line of text.split('\n').filter((each) => each !== '')) {
    const [, named] = /^# HELP ([a-z_]+) \S/.exec(line) ?? []
    const [, typed, type = ''] = /^# TYPE ([a-z_]+) (counter|gauge|histogram|summary)$/.exec(line) ?? []
    if (named !== undefined) {
      help = named
      continue
    }
    if (typed !== undefined) {
      assert.equal(typed, help, line)
      assert.equal(families.has(typed), false, `a second head of ${typed}`)
      families.set(typed, type)
      current = typed
      continue
    }
    const [, name = '', labels = '', value] = SAMPLE.exec(line) ?? []
    const suffixes = families.get(current) === 'histogram' ? ['_bucket', '_sum', '_count'] : ['']
    assert.ok(
      suffixes.some((suffix) => name === current + suffix),
      `${line} in the family ${current}`,
    )
    assert.equal(samples.has(name + labels), false, `repeated: ${line}`)
    samples.set(name + labels, Number(value))
  }
  return { families, samples }
}
