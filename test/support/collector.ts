// An OpenTelemetry collector for tests: an HTTP server that decodes what it receives.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import { until } from './until.ts'

export interface ReceivedSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly startMs: number
  readonly endMs: number
  readonly attributes: Readonly<Record<string, string | number | boolean>>
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[]
  readonly error?: string
  readonly resource: Readonly<Record<string, string | number | boolean>>
}

/** A status, or `hangs` without a response. */
export type CollectorBehaviour = number | 'hangs' | { readonly status: number; readonly body: string }

export interface Collector {
  readonly url: string
  readonly spans: readonly ReceivedSpan[]
  readonly requests: readonly { readonly path: string; readonly headers: IncomingHttpHeaders; readonly text: string }[]
  /** Of the next requests. */
  behave(behaviour: CollectorBehaviour): void
  /** Waits for spans of these names in one trace, and returns all spans of it. */
  trace(traceId: string, ...names: string[]): Promise<ReceivedSpan[]>
}

export async function openCollector(t: TestContext, port = 0): Promise<Collector> {
  const spans: ReceivedSpan[] = []
  const requests: Collector['requests'][number][] = []
  let behaviour: CollectorBehaviour = 200
  const server = createServer((request, response) => {
    let text = ''
    request.setEncoding('utf8')
    request.on('data', (chunk: string) => {
      text += chunk
    })
    request.on('end', () => {
      requests.push({ path: request.url ?? '', headers: request.headers, text })
      if (behaviour === 'hangs') return
      const { status, body } = typeof behaviour === 'number' ? { status: behaviour, body: '{}' } : behaviour
      if (status === 200) spans.push(...decodeSpans(text))
      response.writeHead(status, { 'Content-Type': 'application/json' }).end(body)
    })
  }).listen(port, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.close()
    server.closeAllConnections()
  })
  const address = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${address.port}`,
    spans,
    requests,
    behave: (next) => {
      behaviour = next
    },
    trace: async (traceId, ...names) => {
      const found = (): ReceivedSpan[] => spans.filter((span) => span.traceId === traceId)
      await until(() => names.every((name) => found().some((span) => span.name === name)))
      return found()
    },
  }
}

interface EncodedAttribute {
  readonly key: string
  readonly value: Readonly<Record<string, unknown>>
}

/** Fails on a body that is not OTLP/JSON. */
export function decodeSpans(text: string): ReceivedSpan[] {
  const { resourceSpans } = JSON.parse(text)
  return resourceSpans.flatMap((group: { resource: { attributes: EncodedAttribute[] }; scopeSpans: unknown }) => {
    const resource = decodeAttributes(group.resource.attributes)
    assert.ok(Array.isArray(group.scopeSpans))
    return group.scopeSpans.flatMap(({ scope, spans }) => {
      assert.equal(scope.name, 'svc')
      return spans.map((span: Record<string, unknown>) => decodeSpan(span, resource))
    })
  })
}

function decodeSpan(span: Record<string, unknown>, resource: ReceivedSpan['resource']): ReceivedSpan {
  const { traceId, spanId, parentSpanId, name, kind, attributes, links = [], status, ...times } = span
  assert.match(String(traceId), /^[0-9a-f]{32}$/)
  assert.match(String(spanId), /^[0-9a-f]{16}$/)
  if (parentSpanId !== undefined) assert.match(String(parentSpanId), /^[0-9a-f]{16}$/)
  const { startTimeUnixNano: start, endTimeUnixNano: end, ...rest } = times
  assert.deepEqual(rest, {})
  for (const time of [start, end]) assert.match(String(time), /^\d{19}$/)
  assert.ok(typeof kind === 'number' && kind >= 1 && kind <= 5)
  assert.ok(typeof status === 'object' && status !== null)
  const { code, message } = status as { code?: number; message?: string }
  assert.ok(code === undefined ? message === undefined : code === 2 && typeof message === 'string')
  return {
    traceId: String(traceId),
    spanId: String(spanId),
    ...(parentSpanId === undefined ? {} : { parentSpanId: String(parentSpanId) }),
    name: String(name),
    kind,
    startMs: Number(BigInt(String(start)) / 1000n) / 1000,
    endMs: Number(BigInt(String(end)) / 1000n) / 1000,
    attributes: decodeAttributes(attributes as EncodedAttribute[]),
    links: links as ReceivedSpan['links'],
    ...(message === undefined ? {} : { error: message }),
    resource,
  }
}

function decodeAttributes(attributes: readonly EncodedAttribute[]): Record<string, string | number | boolean> {
  const entries = attributes.map(({ key, value }) => {
    const [[type, encoded] = ['', undefined], ...more] = Object.entries(value)
    assert.deepEqual(more, [])
    if (type === 'intValue') assert.match(String(encoded), /^-?\d+$/)
    if (type === 'stringValue') assert.equal(typeof encoded, 'string')
    if (type === 'boolValue') assert.equal(typeof encoded, 'boolean')
    if (type === 'doubleValue') assert.equal(typeof encoded, 'number')
    const isKnown = ['stringValue', 'boolValue', 'intValue', 'doubleValue'].includes(type)
    assert.ok(isKnown, type)
    return [key, type === 'intValue' ? Number(encoded) : encoded]
  })
  return Object.fromEntries(entries)
}

/** Fails unless all spans but one have a parent among them. Returns the names of each with those of its ancestors. */
export function pathsOf(spans: readonly ReceivedSpan[]): string[] {
  const byId = new Map(spans.map((span) => [span.spanId, span]))
  assert.equal(byId.size, spans.length, 'a span id is used twice')
  assert.equal(spans.filter(({ parentSpanId }) => parentSpanId === undefined).length, 1, 'there is one root')
  const pathOf = ({ name, parentSpanId }: ReceivedSpan): string => {
    if (parentSpanId === undefined) return name
    const parent = byId.get(parentSpanId) ?? assert.fail(`the parent of ${name} is missing`)
    return `${pathOf(parent)} > ${name}`
  }
  return spans.map(pathOf).sort()
}
