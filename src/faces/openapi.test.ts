import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { EXAMPLE_RESOURCES, pairsResource, thingsResource } from '../../test/support/example-resources.ts'
import { defineResource } from '../registry/resource.ts'
import { type OpenApi, openapiDocument, openapiText } from './openapi.ts'
import { httpOperations, resourcesServedBy } from './operations.ts'

/** The schema of a line of text. */
const LINE = { maxLength: 64, minLength: 1, pattern: '^[^\\u0000-\\u001f\\u007f]+$' }

const document = openapiDocument('testd', EXAMPLE_RESOURCES)

function operation(method: string, path: string): Record<string, unknown> {
  return document.paths[path]?.[method] ?? assert.fail(`no ${method} ${path}`)
}

/** The JSON schema of a request body or a response. */
function schemaOf(parent: unknown): unknown {
  const { content } = parent as { content: Record<string, { schema: unknown }> }
  return content['application/json']?.schema
}

const responseOf = (described: Record<string, unknown>, status: number): unknown =>
  (described.responses as Record<string, unknown>)[status]

suite('operations', () => {
  test('includes each verb that has http', () => {
    const listed = httpOperations(thingsResource).map(
      ({ id, method, path, inputLocation }) => `${id}: ${method} ${path}, ${inputLocation}`,
    )
    assert.deepEqual(listed, [
      'list_things: GET /v1/things, query',
      'create_things: POST /v1/things, body',
      'update_things: PATCH /v1/things/{name}, body',
      'measure_things: GET /v1/things/{name}/size, query',
      'delete_things: DELETE /v1/things/{name}, query',
      'fail_things: POST /v1/things/fail, body',
    ])
  })

  test('{pk} contains the whole key', () => {
    assert.deepEqual(httpOperations(pairsResource)[0]?.parameters, [{ name: 'pk', members: ['left', 'right'] }])
  })

  test('selects the resources of a daemon', () => {
    assert.deepEqual(resourcesServedBy('routd', EXAMPLE_RESOURCES), EXAMPLE_RESOURCES)
    assert.deepEqual(resourcesServedBy('webd', EXAMPLE_RESOURCES), [])
  })
})

suite('the OpenAPI document', () => {
  test('has title, version, server and security scheme', () => {
    const { openapi, info, servers, security, components } = document
    assert.equal(openapi, '3.1.0')
    assert.deepEqual(info, { title: 'svc testd API', version: 'v1' })
    assert.deepEqual(servers, [{ url: '/' }])
    assert.deepEqual(security, [{ bearer: [] }])
    assert.deepEqual(components.securitySchemes, { bearer: { type: 'http', scheme: 'bearer' } })
  })

  test('contains exactly the operations', () => {
    const listed = Object.entries(document.paths).flatMap(([path, item]) =>
      Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`),
    )
    const mounted = EXAMPLE_RESOURCES.flatMap(httpOperations).map(({ method, path }) => `${method} ${path}`)
    assert.deepEqual(listed.sort(), mounted.sort())
  })

  test('has the row schema of each resource, without write-only members', () => {
    assert.deepEqual(document.components.schemas.Things, {
      type: 'object',
      properties: {
        name: { type: 'string', description: 'What it is called' },
        size: { type: 'integer', maximum: 1000, minimum: 0 },
        open: { type: 'boolean' },
        host: { type: 'string', description: 'Host name; its subdomains are covered too' },
        added_at: { type: 'string', format: 'date-time', readOnly: true },
      },
      required: ['name', 'size', 'added_at'],
    })
  })

  test('omits a resource without REST routes', () => {
    const { table: of, title, verbs } = thingsResource
    const silent = defineResource({ of, title, servedBy: 'routd', verbs: () => ({ polish: verbs.polish }) })
    assert.deepEqual(openapiDocument('testd', [silent]).components.schemas, {})
  })

  test('references the row schema where the response is a row', () => {
    const row = { $ref: '#/components/schemas/Things' }
    assert.deepEqual(schemaOf(responseOf(operation('post', '/v1/things'), 201)), row)
    assert.deepEqual(schemaOf(responseOf(operation('get', '/v1/things'), 200)), {
      type: 'object',
      properties: { things: { type: 'array', items: row }, next: { type: 'string' } },
      required: ['things'],
    })
  })

  test('has the schema of other responses', () => {
    assert.deepEqual(schemaOf(responseOf(operation('patch', '/v1/things/{name}'), 200)), {
      type: 'object',
      properties: {
        name: { type: 'string', description: 'What it is called' },
        size: { type: 'integer', maximum: 1000, minimum: 0 },
      },
      required: ['name', 'size'],
    })
    assert.deepEqual(responseOf(operation('delete', '/v1/things/{name}'), 204), {
      description: 'Done; no content',
    })
  })

  test('has the request schema: closed, with defaults, without path parameters', () => {
    assert.deepEqual(operation('post', '/v1/things').requestBody, {
      required: true,
      content: {
        'application/json': {
          schema: {
            type: 'object',
            properties: {
              name: { type: 'string', description: 'What it is called', ...LINE },
              size: { type: 'integer', default: 1, maximum: 1000, minimum: 0 },
              open: { type: 'boolean' },
              host: { type: 'string', description: 'Host name; its subdomains are covered too' },
              code: { type: 'string', writeOnly: true },
            },
            required: ['name'],
            additionalProperties: false,
          },
        },
      },
    })
    assert.deepEqual(schemaOf(operation('patch', '/v1/things/{name}').requestBody), {
      type: 'object',
      properties: { size: { type: 'integer', maximum: 1000, minimum: 0 }, open: { type: 'boolean' } },
      additionalProperties: false,
      minProperties: 1,
    })
  })

  test('does not require a body without required members', () => {
    assert.equal((operation('post', '/v1/things/fail').requestBody as { required: boolean }).required, false)
  })

  test('describes path and query parameters', () => {
    assert.deepEqual(operation('get', '/v1/things/{name}/size').parameters, [
      {
        name: 'name',
        in: 'path',
        required: true,
        description: 'The name, URL-encoded',
        schema: { type: 'string', ...LINE },
      },
      {
        name: 'unit',
        in: 'query',
        required: false,
        schema: { type: 'string', enum: ['cm', 'in'], default: 'cm' },
      },
      { name: 'exact', in: 'query', required: false, schema: { type: 'boolean' } },
    ])
    assert.deepEqual(operation('get', '/v1/things').parameters, [
      {
        name: 'limit',
        in: 'query',
        required: false,
        description: 'Page size; values outside 1 to 1000 are clamped',
        schema: { type: 'integer', default: 100, maximum: 1000, minimum: 1 },
      },
      {
        name: 'after',
        in: 'query',
        required: false,
        description: 'The `next` value of the previous page',
        schema: { type: 'string', format: 'cursor', ...LINE, maxLength: 2000, pattern: '^[A-Za-z0-9_-]+$' },
      },
    ])
  })

  test('describes the encoding of a composite key', () => {
    const { parameters } = operation('get', '/v1/couples/{pk}')
    assert.deepEqual((parameters as unknown[])[0], {
      name: 'pk',
      in: 'path',
      required: true,
      description: 'left, right: each URL-encoded, joined by "/", and the whole URL-encoded once more',
      schema: { type: 'string' },
    })
  })

  test('repeats `when` as description and x-mcp-when, for tools only', () => {
    const { description, 'x-mcp-when': when, 'x-mcp-tool': tool } = operation('patch', '/v1/things/{name}')
    assert.deepEqual([description, when, tool], ['Change a thing.', 'Change a thing.', 'things.update'])
    const silent = operation('post', '/v1/things')
    assert.equal(
      ['description', 'x-mcp-when', 'x-mcp-tool'].some((key) => key in silent),
      false,
    )
  })

  test('has an operation id, a summary and references to the refusals', () => {
    const described = operation('delete', '/v1/things/{name}')
    assert.equal(described.operationId, 'delete_things')
    assert.equal(described.summary, 'Delete things')
    for (const status of [400, 401, 403, 404, 409, 413, 415, 500])
      assert.deepEqual(responseOf(described, status), { $ref: `#/components/responses/${status}` })
  })

  test('is the same bytes at every call', () => {
    assert.equal(openapiText('testd', EXAMPLE_RESOURCES), openapiText('testd', EXAMPLE_RESOURCES))
    assert.equal(openapiText('testd', EXAMPLE_RESOURCES), `${JSON.stringify(document, null, 2)}\n`)
    assert.doesNotMatch(openapiText('testd', EXAMPLE_RESOURCES), /\$schema|\$defs|9007199254740991/)
  })
})

test('has no body refusals for GET', () => {
  const { responses } = operation('get', '/v1/things') as { responses: object }
  assert.deepEqual(Object.keys(responses), ['200', '400', '401', '403', '404', '409', '500'])
})

test('contains the given description', () => {
  assert.equal(openapiDocument('webd', [], 'Answers links.').info.description, 'Answers links.')
})

test('a daemon without resources has a document with the common responses', () => {
  const empty: OpenApi = openapiDocument('webd', [])
  assert.deepEqual(empty.paths, {})
  assert.deepEqual(empty.components.schemas, {})
  assert.deepEqual(Object.keys(empty.components.responses), ['400', '401', '403', '404', '409', '500'])
  for (const response of Object.values(empty.components.responses)) {
    const { content } = response as { content: Record<string, { schema: { required: string[] } }> }
    const required = content['application/problem+json']?.schema.required
    assert.deepEqual(required, ['type', 'title', 'status', 'detail', 'code'])
  }
})
