// The OpenAPI document of a daemon, from the operations that `rest.ts` mounts. It describes schemas, not permissions.
import { Problem } from '../lib/http/http.ts'
import { REFUSALS, type RefusalCode } from '../lib/refusal.ts'
import { isObject } from '../lib/text/json.ts'
import type { Resource } from '../registry/resource.ts'
import { describeKey } from '../registry/url-key.ts'
import { type JsonSchema, toJsonSchema, withoutProperties } from './json-schema.ts'
import { httpOperations, type Operation, type PathParameter } from './operations.ts'

type Description = Record<string, unknown>

export interface OpenApi {
  readonly openapi: '3.1.0'
  readonly info: { readonly title: string; readonly version: 'v1'; readonly description?: string }
  readonly servers: readonly { readonly url: string }[]
  readonly security: readonly Record<string, readonly string[]>[]
  readonly paths: Record<string, Record<string, Description>>
  readonly components: {
    readonly schemas: Record<string, JsonSchema>
    readonly responses: Record<string, Description>
    readonly securitySchemes: Record<string, Description>
  }
}

/** `resources` are those that the daemon serves. */
export function openapiDocument(daemon: string, resources: readonly Resource[], description?: string): OpenApi {
  const described = resources.filter((resource) => httpOperations(resource).length > 0)
  const operations = described.flatMap(httpOperations)
  const schemas = Object.fromEntries(described.map(({ title, row }) => [title, toJsonSchema(row, 'output')]))
  const byPath = Map.groupBy(operations, ({ path }) => path)
  return {
    openapi: '3.1.0',
    info: { title: `svc ${daemon} API`, version: 'v1', ...(description === undefined ? {} : { description }) },
    servers: [{ url: '/' }],
    security: [{ bearer: [] }],
    paths: Object.fromEntries(
      [...byPath].map(([path, list]) => [
        path,
        Object.fromEntries(
          list.map((operation) => [operation.method.toLowerCase(), describeOperation(operation, schemas)]),
        ),
      ]),
    ),
    components: {
      schemas,
      responses: refusalResponses(operations),
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
    },
  }
}

/** The same bytes at every call. */
export function openapiText(daemon: string, resources: readonly Resource[], description?: string): string {
  return `${JSON.stringify(openapiDocument(daemon, resources, description), null, 2)}\n`
}

const COMMON_REFUSALS: readonly RefusalCode[] = ['invalid', 'unauthenticated', 'forbidden', 'not_found', 'conflict']
/** Refusals of a request body; `mountRest` reads one for every method except GET. */
const BODY_REFUSALS: readonly RefusalCode[] = ['too_large', 'wrong_type']

function refusalCodes(operations: readonly Operation[]): readonly RefusalCode[] {
  return operations.some(({ method }) => method !== 'GET') ? [...COMMON_REFUSALS, ...BODY_REFUSALS] : COMMON_REFUSALS
}

function refusalResponses(operations: readonly Operation[]): Record<string, Description> {
  const content = { 'application/problem+json': { schema: toJsonSchema(Problem, 'output') } }
  const refusals = refusalCodes(operations).map((code) => [
    REFUSALS[code].http,
    { description: REFUSALS[code].title, content },
  ])
  return Object.fromEntries([...refusals, [500, { description: 'Internal error', content }]])
}

function describeOperation(operation: Operation, schemas: Record<string, JsonSchema>): Description {
  const { id, verb, resource, method, parameters, inputLocation } = operation
  const input = toJsonSchema(verb.input, 'input')
  const inPath = parameters.flatMap(({ members }) => members)
  const remaining = { ...withoutProperties(input, inPath), ...verb.memberRules }
  const described = [
    ...parameters.map((parameter) => pathParameter(parameter, input)),
    ...(inputLocation === 'query' ? queryParameters(remaining) : []),
  ]
  return {
    operationId: id,
    summary: sentenceCase(`${verb.verb} ${resource.name}`),
    ...(verb.when === undefined
      ? {}
      : { description: verb.when, 'x-mcp-when': verb.when, 'x-mcp-tool': verb.toolName }),
    ...(described.length ? { parameters: described } : {}),
    ...(inputLocation === 'body' ? { requestBody: requestBody(remaining, method === 'PATCH') } : {}),
    responses: operationResponses(operation, schemas),
  }
}

function pathParameter({ name, members }: PathParameter, input: JsonSchema): Description {
  const own = isObject(input.properties) && members.length === 1 ? input.properties[name] : undefined
  // A composite key is text. `readOnly` is about rows: an id that the server sets can still be a parameter.
  const { description, readOnly: _, ...schema } = isObject(own) ? own : { type: 'string' }
  const text = [describeKey(members), description].filter(Boolean).join(': ')
  return { name, in: 'path', required: true, description: text, schema }
}

function queryParameters(input: JsonSchema): Description[] {
  const required = Array.isArray(input.required) ? input.required : []
  return Object.entries(isObject(input.properties) ? input.properties : {}).map(([name, part]) => {
    const { description, ...schema } = isObject(part) ? part : {}
    return { name, in: 'query', required: required.includes(name), ...(description ? { description } : {}), schema }
  })
}

function requestBody(input: JsonSchema, isPatch: boolean): Description {
  const schema = isPatch ? { ...input, minProperties: 1 } : input
  return { required: isPatch || input.required !== undefined, content: { 'application/json': { schema } } }
}

function operationResponses(operation: Operation, schemas: Record<string, JsonSchema>): Description {
  const { output, status = 200 } = operation.verb
  const content = output && { 'application/json': { schema: withRefs(toJsonSchema(output, 'output'), schemas) } }
  const success = content
    ? [status, { description: status === 201 ? 'Created' : 'Done', content }]
    : [204, { description: 'Done; no content' }]
  const refused = [...refusalCodes([operation]).map((code) => REFUSALS[code].http), 500]
  return Object.fromEntries([success, ...refused.map((code) => [code, { $ref: `#/components/responses/${code}` }])])
}

/** Replaces schemas that equal the row of a resource by a reference. */
function withRefs(schema: JsonSchema, schemas: Record<string, JsonSchema>): JsonSchema {
  const text = JSON.stringify(schema)
  const title = Object.keys(schemas).find((name) => JSON.stringify(schemas[name]) === text)
  if (title !== undefined) return { $ref: `#/components/schemas/${title}` }
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [key, isObject(value) ? withRefs(value, schemas) : value]),
  )
}

function sentenceCase(name: string): string {
  const words = name.replaceAll('_', ' ')
  return words.charAt(0).toUpperCase() + words.slice(1)
}
