// Fuzzes every operation of every daemon on a served instance, with input generated from its OpenAPI document alone.
// Input that matches the document is never 400 (else the document lacks a rule), other input is 400, and nothing is 5xx.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import fc from 'fast-check'
import type { DaemonName } from '../src/daemons/settings.ts'
import type { OpenApi } from '../src/faces/openapi.ts'
import { type Formats, fits, type JsonSchema, valuesOf } from './support/json-schema.ts'
import { type ServedHost, serveHost } from './support/served-host.ts'

const DAEMONS: readonly DaemonName[] = ['proxyd', 'routd', 'onbod', 'authd', 'runed']
const RUNS = 25
const KNOWN = [
  'main',
  'team',
  'team/a',
  'web:team',
  'hook:team/ci',
  '/pub/team/',
  'github:op',
  'ci',
  'API_KEY',
  '/app/',
]
const FUTURE = { min: new Date('2100-01-01'), max: new Date('9998-12-31'), noInvalidDate: true }

const glob = fc.constantFrom('*', '**', 'team', 'team/*', 'team/**', '[a-c]?', 'a\\*b', '*/x', 't*m')
const folder = fc.constantFrom('main', 'team', 'team/a', 'nowhere', 'a/b/c/d/e/f/g/h', 'a.b_c-d')

/** Values for formats whose rule JSON Schema cannot express. */
const FORMATS: Formats = {
  'date-time': fc.date(FUTURE).map((date) => date.toISOString()),
  'folder-glob': glob,
  'route-match': fc
    .array(fc.tuple(fc.constantFrom('platform', 'room', 'chat_jid', 'sender', 'verb'), glob), { maxLength: 3 })
    .map((pairs) => pairs.map(([key, value]) => `${key}=${value}`).join(' ')),
  'route-target': fc.oneof(
    folder,
    folder.map((name) => `folder:${name}#observe`),
    fc.constantFrom('daemon:discord', 'builtin:drop', 'builtin:echo', 'team/{sender}', 'team#topic-1'),
  ),
  schedule: fc.oneof(
    fc.constantFrom('*/5 * * * *', '0 9 * * MON-FRI', '0,30 2 1 JAN *'),
    fc.integer({ min: 60_000, max: 86_400_000 }).map(String),
    fc.date(FUTURE).map((date) => date.toISOString()),
  ),
  uri: fc.webUrl(),
}

interface Operation {
  readonly id: string
  readonly url: string
  readonly method: string
  readonly path: string
  readonly parameters: readonly { name: string; in: 'path' | 'query'; required: boolean; schema: JsonSchema }[]
  readonly body: JsonSchema | undefined
}

interface Input {
  readonly path: Record<string, unknown>
  readonly query: Record<string, unknown>
  readonly body: Record<string, unknown> | undefined
}

interface Instance {
  readonly operations: readonly Operation[]
  send(operation: Operation, input: Input): Promise<{ status: number; detail: string }>
}

async function instance(t: TestContext): Promise<Instance> {
  const at = await serveHost(t, { daemons: DAEMONS })
  await at.groups('main', 'team', 'team/a')
  await at.operator('github:op')
  const bearer = await at.bearer({ sub: 'github:op' })
  const operations = (await Promise.all(DAEMONS.map((daemon) => operationsOf(at, daemon)))).flat()
  return { operations, send: (operation, input) => send(operation, input, bearer) }
}

async function operationsOf(at: ServedHost, daemon: DaemonName): Promise<Operation[]> {
  const url = at.url(daemon)
  const answer = await fetch(`${url}/openapi.json`)
  const { paths } = (await answer.json()) as OpenApi
  return Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, described]) => {
      const { operationId, parameters = [], requestBody } = described as Record<string, never>
      const body = (requestBody as { content?: Record<string, { schema: JsonSchema }> } | undefined)?.content
      const id = `${daemon} ${operationId}`
      return { id, url, method: method.toUpperCase(), path, parameters, body: body?.['application/json']?.schema }
    }),
  )
}

async function send(
  { url, method, path, body: declared }: Operation,
  { path: keys, query, body }: Input,
  bearer: string,
) {
  const filled = path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(keys[name])))
  const search = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]))
  const answer = await fetch(`${url}${filled}?${search}`, {
    method,
    headers: { Authorization: `Bearer ${bearer}`, ...(declared ? { 'Content-Type': 'application/json' } : {}) },
    ...(declared ? { body: JSON.stringify(body ?? {}) } : {}),
  })
  const text = await answer.text()
  return { status: answer.status, detail: text.slice(0, 500) }
}

/** Generates no cursors: every request is for the first page. */
function inputsOf({ parameters, body }: Operation): fc.Arbitrary<Input> {
  const of = (place: 'path' | 'query') => {
    const here = parameters.filter((parameter) => parameter.in === place && parameter.schema.format !== 'cursor')
    const properties = Object.fromEntries(here.map(({ name, schema }) => [name, schema]))
    const required = here.filter((parameter) => parameter.required).map(({ name }) => name)
    return valuesOf({ type: 'object', properties, required }, FORMATS, KNOWN) as fc.Arbitrary<Record<string, unknown>>
  }
  const members = body ? valuesOf(body, FORMATS, KNOWN) : fc.constant(undefined)
  return fc.record({
    // URL parsing removes these segments from a path.
    path: of('path').filter((keys) => Object.values(keys).every((key) => !['', '.', '..'].includes(String(key)))),
    query: of('query'),
    body: members as fc.Arbitrary<Input['body']>,
  })
}

test('input that matches the document is never rejected as invalid and never causes a 5xx', async (t) => {
  const { operations, send } = await instance(t)
  assert.ok(operations.length >= 38)
  const reached = new Set<string>()
  for (const operation of operations) {
    await fc.assert(
      fc.asyncProperty(inputsOf(operation), async (input) => {
        const { status, detail } = await send(operation, input)
        if (status < 300) reached.add(operation.id)
        assert.ok([200, 201, 204, 403, 404, 409].includes(status), `${operation.id}: ${status} ${detail}`)
      }),
      { numRuns: RUNS },
    )
  }
  // At least lists and creations must succeed; otherwise everything was refused before its input was checked.
  assert.ok(reached.size >= operations.length / 2, [...reached].join(', '))
})

test('input just outside the declared bounds is 400', async (t) => {
  const { operations, send } = await instance(t)
  for (const operation of operations) {
    const [drawn] = fc.sample(inputsOf(operation), { numRuns: 1, seed: 1 })
    if (!drawn) continue
    // The document declares a composite key as one string; a malformed one is 404, not 400.
    const path = operation.path.includes('{pk}') ? { pk: 'folder/team/API_KEY' } : drawn.path
    for (const [what, input] of outsideOf(operation, { ...drawn, path })) {
      const { status, detail } = await send(operation, input)
      assert.equal(status, 400, `${operation.id}, ${what}: ${detail}`)
    }
  }
})

function outsideOf({ parameters, body }: Operation, sample: Input): [what: string, input: Input][] {
  const inQuery = parameters.filter((parameter) => parameter.in === 'query')
  const query = inQuery.flatMap(({ name, schema }) =>
    badValues(schema, sample.query[name])
      // Query values are strings, and page sizes are clamped instead of rejected.
      .filter((value) => (name === 'limit' ? !Number.isInteger(value) : !fits(schema, String(value))))
      .map((value): [string, Input] => [`${name}=${value}`, { ...sample, query: { ...sample.query, [name]: value } }]),
  )
  const members = Object.entries((body?.properties ?? {}) as Record<string, JsonSchema>).flatMap(([name, schema]) =>
    badValues(schema, sample.body?.[name]).map((value): [string, Input] => [
      `${name}: ${JSON.stringify(value)?.slice(0, 80)}`,
      { ...sample, body: { ...sample.body, [name]: value } },
    ]),
  )
  const unknown: [string, Input] = ['unknown member', { ...sample, query: { ...sample.query, nonsense: '1' } }]
  return [...query, ...members, unknown]
}

function badValues(schema: JsonSchema, valid: unknown): unknown[] {
  const { maxLength, maximum, minimum, exclusiveMinimum, maxItems } = schema
  const text = typeof valid === 'string' && valid !== '' ? valid : 'a'
  const drawn = [
    '',
    '\u0000',
    ...(maxLength === undefined ? [] : [text.padEnd(Number(maxLength) + 1, text.at(-1))]),
    ...(maximum === undefined ? [] : [Number(maximum) + 1]),
    ...(minimum === undefined ? [] : [Number(minimum) - 1]),
    ...(exclusiveMinimum === undefined ? [] : [Number(exclusiveMinimum)]),
    ...(maxItems === undefined ? [] : [Array.from({ length: Number(maxItems) + 1 }, () => text)]),
    1.5,
    schema.type === 'object' ? 'text' : 'neither',
  ]
  return drawn.filter((value) => !fits(schema, value))
}
