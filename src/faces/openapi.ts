// The API description of a daemon, from the same list that REST mounts. It tells shapes, never permissions.
import { Problem } from '../lib/http/http.ts'
import { REFUSALS, type RefusalCode } from '../lib/refusal.ts'
import type { Resource } from '../registry/resource.ts'
import { describeKey } from '../registry/url-key.ts'
import { isSchema, type JsonSchema, toJsonSchema, withoutProperties } from './json-schema.ts'
import { httpOperations, type Operation, type PathParameter } from './operations.ts'

type Named = Record<string, unknown>

export interface OpenApi {
  readonly openapi: '3.1.0'
  readonly info: { readonly title: string; readonly version: 'v1'; readonly description?: string }
  readonly servers: readonly { readonly url: string }[]
  readonly security: readonly Record<string, readonly string[]>[]
  readonly paths: Record<string, Record<string, Named>>
  readonly components: {
    readonly schemas: Record<string, JsonSchema>
    readonly responses: Record<string, Named>
    readonly securitySchemes: Record<string, Named>
  }
}

/** `resources` are those that the daemon serves, as `mountRest` gets them. */
export function openapiDocument(daemon: string, resources: readonly Resource[], description?: string): OpenApi {
  // A resource without a REST face is none of this document's.
  const described = resources.filter((resource) => httpOperations(resource).length > 0)
  const schemas = Object.fromEntries(described.map(({ title, row }) => [title, toJsonSchema(row, 'output')]))
  const byPath = Map.groupBy(described.flatMap(httpOperations), ({ path }) => path)
  const codes = described.flatMap(httpOperations).some(readsBody) ? [...STANDARD, ...OF_BODIES] : STANDARD
  return {
    openapi: '3.1.0',
    info: { title: `svc ${daemon} API`, version: 'v1', ...(description === undefined ? {} : { description }) },
    servers: [{ url: '/' }],
    security: [{ bearer: [] }],
    paths: Object.fromEntries(
      [...byPath].map(([path, here]) => [
        path,
        Object.fromEntries(here.map((operation) => [operation.method.toLowerCase(), describe(operation, schemas)])),
      ]),
    ),
    components: {
      schemas,
      responses: responsesOf(codes),
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
    },
  }
}

/** The same bytes at every call: everything above is in a fixed order. */
export function openapiText(daemon: string, resources: readonly Resource[], description?: string): string {
  return `${JSON.stringify(openapiDocument(daemon, resources, description), null, 2)}\n`
}

const STANDARD: readonly RefusalCode[] = ['invalid', 'unauthenticated', 'forbidden', 'not_found', 'conflict']
/** The refusals of a body that is not read as input. */
const OF_BODIES: readonly RefusalCode[] = ['too_large', 'wrong_type']

/** `mountRest` reads a body for every method but GET. */
function readsBody({ method }: Operation): boolean {
  return method !== 'GET'
}

function responsesOf(codes: readonly RefusalCode[]): Record<string, Named> {
  const content = { 'application/problem+json': { schema: toJsonSchema(Problem, 'output') } }
  const refusals = codes.map((code) => [REFUSALS[code].http, { description: REFUSALS[code].title, content }])
  return Object.fromEntries([...refusals, [500, { description: 'Internal error', content }]])
}

function describe(operation: Operation, schemas: Record<string, JsonSchema>): Named {
  const { id, verb, resource, method, parameters, inputLocation } = operation
  const input = toJsonSchema(verb.input, 'input')
  const carried = parameters.flatMap(({ members }) => members)
  const remaining = { ...withoutProperties(input, carried), ...verb.memberRules }
  const listed = [
    ...parameters.map((parameter) => pathParameter(parameter, input)),
    ...(inputLocation === 'query' ? queryParameters(remaining) : []),
  ]
  return {
    operationId: id,
    summary: sentenceCase(`${verb.verb} ${resource.name}`),
    ...(verb.when === undefined
      ? {}
      : { description: verb.when, 'x-mcp-when': verb.when, 'x-mcp-tool': verb.toolName }),
    ...(listed.length ? { parameters: listed } : {}),
    ...(inputLocation === 'body' ? { requestBody: requestBody(remaining, method === 'PATCH') } : {}),
    responses: responses(operation, schemas),
  }
}

function pathParameter({ name, members }: PathParameter, input: JsonSchema): Named {
  const own = isSchema(input.properties) && members.length === 1 ? input.properties[name] : undefined
  // A composite key is text, whatever its parts are. That the server sets an id is about rows, not about naming one.
  const { description, readOnly: _, ...schema } = isSchema(own) ? own : { type: 'string' }
  const said = [describeKey(members), description].filter(Boolean).join(': ')
  return { name, in: 'path', required: true, description: said, schema }
}

function queryParameters(input: JsonSchema): Named[] {
  const required = Array.isArray(input.required) ? input.required : []
  return Object.entries(isSchema(input.properties) ? input.properties : {}).map(([name, part]) => {
    const { description, ...schema } = isSchema(part) ? part : {}
    return { name, in: 'query', required: required.includes(name), ...(description ? { description } : {}), schema }
  })
}

function requestBody(input: JsonSchema, isPatch: boolean): Named {
  const schema = isPatch ? { ...input, minProperties: 1 } : input
  return { required: isPatch || input.required !== undefined, content: { 'application/json': { schema } } }
}

function responses(operation: Operation, schemas: Record<string, JsonSchema>): Named {
  const { output, status = 200 } = operation.verb
  const content = output && { 'application/json': { schema: withRefs(toJsonSchema(output, 'output'), schemas) } }
  const success = content
    ? [status, { description: status === 201 ? 'Created' : 'Done', content }]
    : [204, { description: 'Done; there is nothing to say' }]
  const codes = readsBody(operation) ? [...STANDARD, ...OF_BODIES] : STANDARD
  const refused = [...codes.map((code) => REFUSALS[code].http), 500]
  return Object.fromEntries([success, ...refused.map((code) => [code, { $ref: `#/components/responses/${code}` }])])
}

/** What is a row of these resources, to the letter, becomes a reference to it. */
function withRefs(schema: JsonSchema, schemas: Record<string, JsonSchema>): JsonSchema {
  const text = JSON.stringify(schema)
  const row = Object.entries(schemas).find(([, known]) => JSON.stringify(known) === text)
  if (row) return { $ref: `#/components/schemas/${row[0]}` }
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [key, isSchema(value) ? withRefs(value, schemas) : value]),
  )
}

function sentenceCase(name: string): string {
  const words = name.replaceAll('_', ' ')
  return words.charAt(0).toUpperCase() + words.slice(1)
}
