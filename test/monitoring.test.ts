// The guide, the dashboard and the alert rules against the metrics that an instance serves.
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { before, suite, test } from 'node:test'
import { parse as parseYaml } from 'yaml'
import { METRICS_SERVICE } from '../src/core/access/bearers.ts'
import { DAEMON_NAMES } from '../src/daemons/settings.ts'
import { type MetricsText, readMetrics } from './support/metrics.ts'
import { serveHost } from './support/served-host.ts'

const read = (path: string): string => readFileSync(join(import.meta.dirname, '..', path), 'utf8')

interface Dashboard {
  readonly panels: readonly { readonly title: string; readonly type: string; readonly targets?: { expr: string }[] }[]
}

interface AlertRules {
  readonly groups: readonly {
    readonly rules: readonly {
      readonly alert: string
      readonly expr: string
      readonly labels: { readonly severity: string }
      readonly annotations: Readonly<Record<string, string>>
    }[]
  }[]
}

const dashboard: Dashboard = JSON.parse(read('docs/grafana-dashboard.json'))
const rules = (parseYaml(read('docs/alerts.yml')) as AlertRules).groups.flatMap((group) => group.rules)
const guide = read('docs/monitoring.md')

/** Added by Prometheus. */
const SCRAPE_LABELS = ['job', 'instance']

interface ServedMetrics extends MetricsText {
  /** Values of each label, by name of the series. */
  readonly labels: ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<string>>>
}

let served: ServedMetrics

before(async (t) => {
  const settings = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9' }
  const here = await serveHost(t as Parameters<typeof serveHost>[0], { settings })
  const mark = here.host.layout?.lastBackup ?? assert.fail()
  mkdirSync(dirname(mark), { recursive: true })
  writeFileSync(mark, '2026-01-01T00:00:00.000Z\n')
  // A request to each daemon, so that all series of requests exist.
  for (const name of DAEMON_NAMES) await fetch(`${here.url(name)}/health`)
  await fetch(`${here.url('webd')}/nothing`)
  const response = await here.ask('/metrics', await here.bearer({ sub: METRICS_SERVICE, kind: 'service' }))
  const metrics = readMetrics(await response.text())
  const labels = new Map<string, Map<string, Set<string>>>()
  for (const series of metrics.samples.keys()) {
    const [name = '', text = ''] = series.split('{')
    const known = labels.get(name) ?? new Map<string, Set<string>>()
    labels.set(name, known)
    for (const [, label = '', value = ''] of text.matchAll(/([a-z_]+)="([^"]*)"/g))
      known.set(label, (known.get(label) ?? new Set<string>()).add(value))
  }
  // Appears with the first error.
  labels.get('http_requests_total')?.get('status')?.add('5xx')
  served = { ...metrics, labels }
  await here.close()
})

/** Metrics of an expression with their label matchers, and the labels that it groups by. */
function selectorsOf(expr: string) {
  const selectors = [...expr.matchAll(/\b((?:svc|http|process|nodejs)_[a-z_]+|up)(?:\{([^}]*)\})?/g)]
  return selectors.map(([, name = '', text = '']) => ({
    name,
    matchers: [...text.matchAll(/([a-z_]+)(=~|!=|=)"([^"]*)"/g)].map(([, label = '', , value = '']) => ({
      label,
      value,
    })),
  }))
}

/** What an expression names that is not served. */
function faultsOf(expr: string): string[] {
  const selectors = selectorsOf(expr).filter(({ name }) => name !== 'up')
  const faults = selectors.flatMap(({ name, matchers }) => {
    const labels = served.labels.get(name)
    if (!labels) return [`no metric ${name}`]
    return matchers.flatMap(({ label, value }) => {
      if (SCRAPE_LABELS.includes(label)) return []
      const values = labels.get(label)
      if (!values) return [`${name} has no label ${label}`]
      return value.split('|').flatMap((each) => (values.has(each) ? [] : [`${name} has no ${label} ${each}`]))
    })
  })
  const groupings = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, names = '']) => names.split(/,\s*/))
  const known = new Set(selectors.flatMap(({ name }) => [...(served.labels.get(name)?.keys() ?? [])]))
  return [...faults, ...groupings.flatMap((label) => (known.has(label) ? [] : [`it groups by ${label}`]))]
}

suite('monitoring', () => {
  test('finds what an expression names wrongly', () => {
    assert.deepEqual(faultsOf('sum by (outcome) (rate(svc_turns_total{outcome="failed"}[5m]))'), [])
    assert.deepEqual(faultsOf('svc_none > 0'), ['no metric svc_none'])
    assert.deepEqual(faultsOf('svc_turns_total{result="x"}'), ['svc_turns_total has no label result'])
    assert.deepEqual(faultsOf('svc_turns_total{outcome=~"failed|none"}'), ['svc_turns_total has no outcome none'])
    assert.deepEqual(faultsOf('sum by (folder) (svc_turns_total)'), ['it groups by folder'])
  })

  test('the dashboard shows only what is served, with a target in each panel', () => {
    const panels = dashboard.panels.filter(({ type }) => type !== 'row')
    assert.ok(panels.length > 20)
    for (const { title, targets = [] } of panels) {
      assert.ok(targets.length > 0, title)
      for (const { expr } of targets) {
        assert.ok(selectorsOf(expr).length > 0, expr)
        assert.deepEqual(faultsOf(expr), [], title)
      }
    }
  })

  test('every alert uses what is served, and is explained', () => {
    assert.ok(rules.length > 10)
    for (const { alert, expr, labels, annotations } of rules) {
      assert.match(alert, /^Svc[A-Z][A-Za-z]+$/)
      assert.ok(selectorsOf(expr).length > 0, alert)
      assert.deepEqual(faultsOf(expr), [], alert)
      assert.ok(['critical', 'warning', 'info'].includes(labels.severity), alert)
      assert.ok(annotations.summary, alert)
      // A template names a label that the expression keeps.
      const grouped = /\bby \(([^)]*)\)/.exec(expr)?.[1]?.split(/,\s*/)
      for (const [, label = ''] of Object.values(annotations)
        .join(' ')
        .matchAll(/\$labels\.(\w+)/g))
        assert.ok(
          grouped ? grouped.includes(label) : [...SCRAPE_LABELS, 'daemon'].includes(label),
          `${alert}: ${label}`,
        )
    }
  })

  test('only summaries have quantiles, as Prometheus expects', () => {
    const names = [...served.labels].flatMap(([name, labels]) => (labels.has('quantile') ? [name] : []))
    assert.ok(names.length > 0)
    for (const name of names) assert.equal(served.families.get(name), 'summary', name)
  })

  test('a backup that is missing and one that is old are two alerts, since the metric is absent before the first', () => {
    const exprs = rules.flatMap(({ expr }) => (expr.includes('svc_backup_age_seconds') ? [expr] : []))
    assert.deepEqual(
      exprs.map((expr) => expr.startsWith('absent(')),
      [false, true],
    )
  })

  test('alerts named in the guide exist', () => {
    const known = new Set(rules.map(({ alert }) => alert))
    const named = [...guide.matchAll(/`(Svc\w+)`/g)].map(([, name = '']) => name)
    assert.ok(named.length > 5)
    assert.deepEqual(
      named.filter((name) => !known.has(name)),
      [],
    )
  })

  test('the dashboard or the alerts use every metric of svc', () => {
    const used = [...dashboard.panels.flatMap(({ targets = [] }) => targets), ...rules]
      .map(({ expr }) => expr)
      .join('\n')
    const unused = [...served.families.keys()].filter((name) => !used.includes(name))
    assert.deepEqual(unused, [])
  })

  test('the guide lists every metric with its labels, and no other', () => {
    const rows = guide.split('\n').filter((line) => /^\| `(svc|http|process|nodejs)_/.test(line))
    const listed = rows.flatMap((line) =>
      [...(line.split('|')[1] ?? '').matchAll(/`([a-z_]+)`/g)].map(([, name]) => name),
    )
    assert.deepEqual(listed.toSorted(), [...served.families.keys()].toSorted())
    for (const row of rows) {
      const [, names = '', labels = ''] = row.split('|')
      const written = [...labels.matchAll(/`([a-z_]+)`/g)].map(([, label = '']) => label)
      const found = [...names.matchAll(/`([a-z_]+)`/g)].flatMap(([, name = '']) =>
        ['', '_bucket'].flatMap((suffix) => [...(served.labels.get(name + suffix)?.keys() ?? [])]),
      )
      for (const label of written) assert.ok(found.includes(label), row)
      for (const label of found) assert.ok(['le', 'daemon', ...written].includes(label), `${row} lacks ${label}`)
    }
  })
})
