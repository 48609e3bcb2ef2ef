// The REST API of each daemon: its OpenAPI document and its mounted routes.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Hono } from 'hono'
import { z } from 'zod'
import { API_DESCRIPTIONS } from '../src/daemons/api-descriptions.ts'
import { DAEMON_NAMES, type DaemonName } from '../src/daemons/settings.ts'
import { openapiDocument, openapiText } from '../src/faces/openapi.ts'
import { httpOperations, resourcesServedBy } from '../src/faces/operations.ts'
import { mountRest } from '../src/faces/rest.ts'
import { createErrorHandler, createNotFoundHandler } from '../src/lib/http/http.ts'
import { refuse } from '../src/lib/refusal.ts'
import { resources } from '../src/resources/index.ts'

/** Tools of the specification that are also REST operations. */
const SPECIFIED_TOOLS = new Set([
  ...['issue_chat_link', 'issue_webhook', 'list_route_tokens', 'revoke_route_token'],
  ...['add_route', 'delete_route', 'list_routes', 'list_acl', 'invite_create'],
  ...['list_web_routes', 'del_web_route', 'refresh_groups', 'list_tasks', 'cancel_task'],
])

/** See docs/decisions.md#routd-resources. */
const LISTED: Record<DaemonName, readonly string[]> = {
  routd: [
    'DELETE /v1/route_tokens/{jid}',
    'DELETE /v1/routes/{id}',
    'DELETE /v1/secrets/{pk}',
    'DELETE /v1/tasks/{id}',
    'DELETE /v1/web_routes/{path_prefix}',
    'GET /v1/acl',
    'GET /v1/audit',
    'GET /v1/groups',
    'GET /v1/installed_packages',
    'GET /v1/route_tokens',
    'GET /v1/routes',
    'GET /v1/tasks',
    'GET /v1/web_routes',
    'PATCH /v1/routes/{id}',
    'PATCH /v1/tasks/{id}',
    'PATCH /v1/web_routes/{path_prefix}',
    'POST /v1/route_tokens/chat',
    'POST /v1/route_tokens/hook',
    'POST /v1/routes',
    'POST /v1/secrets',
    'POST /v1/web_routes',
  ],
  proxyd: [
    'DELETE /v1/proxyd_routes/{path}',
    'DELETE /v1/web_hosts/{hostname}',
    'GET /v1/proxyd_routes',
    'GET /v1/web_hosts',
    'PATCH /v1/proxyd_routes/{path}',
    'POST /v1/proxyd_routes',
  ],
  onbod: [
    'DELETE /v1/invites/{token_id}',
    'DELETE /v1/onboarding_gates/{spec}',
    'GET /v1/invites',
    'GET /v1/onboarding',
    'GET /v1/onboarding_gates',
    'PATCH /v1/onboarding/{jid}',
    'PATCH /v1/onboarding_gates/{spec}',
    'POST /v1/invites',
    'POST /v1/onboarding_gates',
  ],
  authd: ['DELETE /v1/sessions/{family_id}', 'GET /v1/audit', 'GET /v1/sessions', 'GET /v1/signing_keys'],
  runed: ['GET /v1/audit'],
  gated: [],
  webd: [],
  dashd: [],
  timed: [],
}

function appOf(daemon: DaemonName): Hono {
  const app = new Hono()
  app.onError(createErrorHandler((_, error) => assert.fail(`internal error: ${error}`)))
  app.notFound(createNotFoundHandler(app))
  mountRest(app, resourcesServedBy(daemon, resources), () => refuse('unauthenticated', 'no caller is known'))
  return app
}

const documentOf = (daemon: DaemonName) =>
  openapiDocument(daemon, resourcesServedBy(daemon, resources), API_DESCRIPTIONS[daemon])

function listedBy(daemon: DaemonName): string[] {
  return Object.entries(documentOf(daemon).paths).flatMap(([path, item]) =>
    Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`),
  )
}

for (const daemon of DAEMON_NAMES) {
  suite(`the API of ${daemon}`, () => {
    test('is described by a valid OpenAPI 3.1 document', async () => {
      const validator = new Validator()
      const { valid, errors } = await validator.validate(
        JSON.parse(openapiText(daemon, resourcesServedBy(daemon, resources))),
      )
      assert.equal(valid, true, JSON.stringify(errors, null, 1))
      assert.equal(validator.version, '3.1')
    })

    test('lists the decided operations', () => assert.deepEqual(listedBy(daemon).sort(), LISTED[daemon]))

    test('lists exactly the mounted routes', () => {
      const mounted = appOf(daemon).routes.map(({ method, path }) => `${method} ${path.replace(/:(\w+)/g, '{$1}')}`)
      assert.deepEqual(mounted.sort(), listedBy(daemon).sort())
    })

    test('answers on every listed path', async () => {
      const app = appOf(daemon)
      for (const [method = '', path = ''] of listedBy(daemon).map((listed) => listed.split(' '))) {
        const { status } = await app.request(path.replace(/\{\w+\}/g, 'x'), { method })
        assert.equal(status, 401, `${method} ${path}`)
      }
    })

    test('OPTIONS lists exactly the documented methods', async () => {
      const app = appOf(daemon)
      for (const [path, item] of Object.entries(documentOf(daemon).paths)) {
        const answer = await app.request(path.replace(/\{\w+\}/g, 'x'), { method: 'OPTIONS' })
        const described = Object.keys(item).map((method) => method.toUpperCase())
        assert.deepEqual(answer.headers.get('allow')?.split(', ').sort(), described.sort(), path)
      }
    })

    test('says where its other paths are documented', () => {
      const { description = '' } = documentOf(daemon).info
      assert.match(description, /\.$/)
      if (LISTED[daemon].length === 0) assert.match(description, /no paths.*docs\/|documents of the other daemons/)
    })

    test('gives every operation a unique operationId', () => {
      const ids = Object.values(documentOf(daemon).paths).flatMap((item) =>
        Object.values(item).map(({ operationId }) => operationId),
      )
      assert.equal(new Set(ids).size, ids.length)
    })

    test('gives every member a type', () => {
      for (const [name, { properties = {} }] of Object.entries(documentOf(daemon).components.schemas)) {
        const types = Object.entries(properties as Record<string, { type?: string }>)
        for (const [member, { type }] of types)
          assert.match(type ?? '', /^(string|integer|boolean|array|object)$/, `${name}.${member}`)
      }
    })
  })
}

test('routd lists nine resources in sixteen paths', () => {
  const { paths, components } = documentOf('routd')
  assert.equal(Object.keys(paths).length, 16)
  const nine = ['Acl', 'Audit', 'Groups', 'InstalledPackages', 'RouteTokens', 'Routes', 'ScheduledTasks', 'Secrets']
  assert.deepEqual(Object.keys(components.schemas).sort(), [...nine, 'WebRoutes'])
})

test('schemas and operations are named after their resource', () => {
  for (const resource of resources) {
    const words = resource.name.split('_').map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    assert.equal(resource.title, words.join(''))
    for (const { id, verb } of httpOperations(resource)) assert.equal(id, `${verb.verb}_${resource.name}`)
  }
})

test('x-mcp-when equals the description and is present only on operations that are tools', () => {
  for (const daemon of DAEMON_NAMES) {
    const { paths } = documentOf(daemon)
    for (const { method, path, verb } of resourcesServedBy(daemon, resources).flatMap(httpOperations)) {
      const described = paths[path]?.[method.toLowerCase()] ?? {}
      assert.equal(described.description, verb.when)
      assert.equal(described['x-mcp-when'], verb.when)
    }
  }
})

test('x-mcp-tool is the name in the specification, otherwise <resource>.<action>', () => {
  for (const { verb } of resources.flatMap(httpOperations)) {
    const isNamed = SPECIFIED_TOOLS.has(verb.toolName)
    if (verb.when !== undefined && !isNamed) assert.equal(verb.toolName, verb.id)
  }
  const { paths } = documentOf('routd')
  assert.equal(paths['/v1/route_tokens/chat']?.post?.['x-mcp-tool'], 'issue_chat_link')
  assert.equal(paths['/v1/installed_packages']?.get?.['x-mcp-tool'], 'installed_packages.list')
  assert.equal('x-mcp-tool' in (paths['/v1/secrets']?.post ?? {}), false)
})

test('no document lists a write-only field in a response', () => {
  for (const daemon of DAEMON_NAMES) {
    const { paths, components } = documentOf(daemon)
    const answers = Object.values(paths).flatMap((item) => Object.values(item).map(({ responses }) => responses))
    assert.doesNotMatch(JSON.stringify([components, answers]), /writeOnly|token_hash|private_sealed|source_label/)
  }
})

test('no verb declares a write-only field in its output', () => {
  for (const { id, verb } of resources.flatMap(httpOperations)) {
    const output = verb.output && z.toJSONSchema(verb.output, { unrepresentable: 'any' })
    assert.doesNotMatch(JSON.stringify(output ?? {}), /writeOnly/, id)
  }
})

test('the mint has the parameters and the result of the specification', () => {
  const { paths } = documentOf('routd')
  const hook = paths['/v1/route_tokens/hook']?.post as {
    requestBody: { content: Record<string, { schema: { properties: object; required: string[] } }> }
    responses: Record<string, { content: Record<string, { schema: { required: string[] } }> }>
  }
  const { properties, required } = hook.requestBody.content['application/json']?.schema ?? { properties: {} }
  assert.deepEqual(Object.keys(properties).sort(), ['context', 'jid_suffix', 'source_label', 'target_folder', 'tools'])
  assert.deepEqual(required, ['source_label'])
  const answer = hook.responses[201]?.content['application/json']?.schema.required
  assert.deepEqual(answer?.sort(), ['jid', 'token', 'url'])
})
