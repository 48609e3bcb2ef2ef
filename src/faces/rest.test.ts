import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import type { Hono } from 'hono'
import { EXAMPLE_RESOURCES, exampleHost, thingsResource } from '../../test/support/example-resources.ts'
import { type Answer, ask, restApp } from '../../test/support/rest.ts'
import { audit } from '../registry/audit.ts'

const ME = 'github:1'

interface Rest {
  app: Hono
  ask(request: string, body?: unknown): Promise<Answer>
  actions(): Promise<string[]>
}

async function rest(t: TestContext): Promise<Rest> {
  const { host } = await exampleHost(t)
  const app = restApp(host, EXAMPLE_RESOURCES)
  return {
    app,
    ask: (request, body) => ask(app, request, { as: ME, ...(body === undefined ? {} : { body }) }),
    actions: async () => (await host.engine.read((tx) => audit.list(tx))).map(({ action }) => action),
  }
}

suite('routes', () => {
  test('create, list, update and delete with the declared statuses', async (t) => {
    const { ask, actions } = await rest(t)
    const made = await ask('POST /v1/things', { name: 'a', size: 3, open: true, host: 'Chat.Example.' })
    assert.equal(made.status, 201)
    assert.deepEqual(made.body, {
      name: 'a',
      size: 3,
      open: true,
      host: 'chat.example',
      added_at: '2026-01-01T00:00:00.000Z',
    })
    assert.equal((await ask('POST /v1/things', { name: 'a' })).status, 409)
    const listed = await ask('GET /v1/things')
    assert.equal(listed.status, 200)
    assert.deepEqual(listed.body, { things: [made.body] })
    assert.deepEqual((await ask('PATCH /v1/things/a', { size: 4 })).body, { name: 'a', size: 4 })
    const gone = await ask('DELETE /v1/things/a')
    assert.equal(gone.status, 204)
    assert.equal(gone.body, undefined)
    assert.equal((await ask('DELETE /v1/things/a')).status, 404)
    assert.deepEqual(await actions(), ['things.create', 'things.update', 'things.delete'])
  })

  test('mounts no route for a verb without http', async (t) => {
    const { app } = await rest(t)
    const paths = app.routes.map(({ method, path }) => `${method} ${path}`)
    assert.deepEqual(paths, [
      'GET /v1/things',
      'POST /v1/things',
      'PATCH /v1/things/:name',
      'GET /v1/things/:name/size',
      'DELETE /v1/things/:name',
      'POST /v1/things/fail',
      'GET /v1/couples/:pk',
    ])
  })

  test('removes write-only members from the reply', async (t) => {
    const { ask } = await rest(t)
    const made = await ask('POST /v1/things', { name: 'a', code: 'open sesame' })
    const listed = await ask('GET /v1/things')
    for (const { body } of [made, listed]) assert.doesNotMatch(JSON.stringify(body), /sesame|code|hash/)
  })

  test('sends no-store with every response', async (t) => {
    const { app } = await rest(t)
    for (const request of ['GET /v1/things', 'DELETE /v1/things/none', 'GET /v1/none', 'PUT /v1/things']) {
      assert.equal((await ask(app, request, { as: ME })).headers.get('cache-control'), 'no-store', request)
    }
  })

  test('answers HEAD like GET, without a body', async (t) => {
    const { app } = await rest(t)
    const answer = await app.request('/v1/things', { method: 'HEAD', headers: { Authorization: `Bearer ${ME}` } })
    assert.equal(answer.status, 200)
    assert.equal(await answer.text(), '')
  })

  test('answers other methods with 405 and Allow', async (t) => {
    const { ask } = await rest(t)
    const answer = await ask('PUT /v1/things/a')
    assert.equal(answer.status, 405)
    assert.equal(answer.headers.get('allow'), 'PATCH, DELETE')
  })

  test('answers an unexpected error with 500 and no detail', async (t) => {
    const { ask } = await rest(t)
    t.mock.method(console, 'error', () => {})
    const { status, body } = await ask('POST /v1/things/fail', {})
    assert.equal(status, 500)
    assert.doesNotMatch(JSON.stringify(body), /select|disk|\/var/)
  })
})

suite('authentication', () => {
  const BROKEN = ['GET /v1/things?limit=x', 'POST /v1/things', 'DELETE /v1/things/%zz', 'GET /v1/couples/a']
  for (const request of BROKEN) {
    test(`comes before the errors of ${request}`, async (t) => {
      const { app } = await rest(t)
      const answer = await ask(app, request, { body: request.startsWith('GET') ? undefined : '{' })
      assert.equal(answer.status, 401)
      assert.equal(answer.headers.get('www-authenticate'), 'Bearer')
    })
  }

  test('refuses an anonymous request without reading its body', async (t) => {
    const { app } = await rest(t)
    const body = new ReadableStream({ pull: () => assert.fail('the body was read') }, { highWaterMark: 0 })
    const init = { method: 'POST', body, duplex: 'half' } as RequestInit
    assert.equal((await app.request('/v1/things', init)).status, 401)
  })
})

suite('input', () => {
  const REFUSED: Record<string, [request: string, body: unknown, detail: RegExp]> = {
    'a missing member': ['POST /v1/things', {}, /^name is required$/],
    'an unknown member': ['POST /v1/things', { name: 'a', colour: 1 }, /^unknown field "colour"$/],
    'a read-only member': ['POST /v1/things', { name: 'a', added_at: 'now' }, /^unknown field "added_at"$/],
    'a number as text in a body': ['POST /v1/things', { name: 'a', size: '3' }, /^size must be a number$/],
    'a number that is too large': ['POST /v1/things', '{"name":"a","size":1e400}', /^size must be/],
    'a fraction': ['POST /v1/things', { name: 'a', size: 0.5 }, /^size must be a whole number$/],
    null: ['POST /v1/things', { name: 'a', open: null }, /^open must be true or false$/],
    'a list': ['POST /v1/things', [], /must be a JSON object/],
    'a truncated body': ['POST /v1/things', '{"name":', /not JSON/],
    __proto__: ['POST /v1/things', '{"name":"a","__proto__":{"size":1}}', /^unknown field "__proto__"$/],
    'a constructor': ['POST /v1/things', '{"name":"a","constructor":{}}', /^unknown field "constructor"$/],
    '__proto__ in the query': ['GET /v1/things?__proto__=1', undefined, /^unknown field "__proto__"$/],
    'an unknown parameter': ['GET /v1/things?offset=3', undefined, /^unknown field "offset"$/],
    'a parameter twice': ['GET /v1/things?limit=1&limit=1', undefined, /^limit is given twice$/],
    'a limit that is not a number': ['GET /v1/things?limit=many', undefined, /^limit must be a number$/],
    'an invalid cursor': ['GET /v1/things?after=x', undefined, /^after is not a cursor/],
    'a secret in the URL': ['POST /v1/things?code=1', { name: 'a' }, /^code must be in the request body$/],
    'a member in path and body with different values': [
      'PATCH /v1/things/a',
      { name: 'b', size: 1 },
      /^name is given twice, with/,
    ],
    'a member in query and body with different values': [
      'POST /v1/things?size=1',
      { name: 'a', size: 2 },
      /^size is given twice, with/,
    ],
    'an empty change': ['PATCH /v1/things/a', {}, /^nothing to change/],
    'a change with the key only': ['PATCH /v1/things/a', { name: 'a' }, /^nothing to change/],
    'an invalid URL encoding': ['DELETE /v1/things/%ff', undefined, /^name is not properly URL-encoded$/],
    'a limit that is not an integer': ['GET /v1/things?limit=1.5', undefined, /^limit must be a whole number$/],
  }
  for (const [name, [request, body, detail]] of Object.entries(REFUSED)) {
    test(`refuses ${name} with 400 and changes nothing`, async (t) => {
      const { ask, actions } = await rest(t)
      const answer = await ask(request, body)
      assert.equal(answer.status, 400, answer.detail)
      assert.match(answer.detail, detail)
      assert.deepEqual(await actions(), [])
      assert.deepEqual((await ask('GET /v1/things')).body, { things: [] })
      assert.equal('size' in {}, false)
    })
  }

  test('refuses fifty thousand unknown members with a short message', async (t) => {
    const { ask } = await rest(t)
    const many = Object.fromEntries(Array.from({ length: 50_000 }, (_, n) => [`m${n}`, 0]))
    const { status, detail } = await ask('POST /v1/things', many)
    assert.equal(status, 400)
    assert.ok(detail.length < 3_000)
  })

  test('accepts a member that is given twice with equal values', async (t) => {
    const { ask } = await rest(t)
    await ask('POST /v1/things?size=2', { name: 'a', size: 2 })
    assert.deepEqual((await ask('PATCH /v1/things/a', { name: 'a', size: 3 })).body, { name: 'a', size: 3 })
  })

  test('converts query parameters by schema and applies defaults', async (t) => {
    const { ask } = await rest(t)
    assert.deepEqual((await ask('GET /v1/things/a/size?exact=true')).body, { name: 'a', unit: 'cm', exact: true })
    assert.equal((await ask('GET /v1/things/a/size?exact=1')).detail, 'exact must be true or false')
    assert.equal((await ask('GET /v1/things/a/size?unit=mm')).detail, 'unit must be one of cm, in')
  })

  test('clamps the limit, and continues after the last page', async (t) => {
    const { ask } = await rest(t)
    for (const name of ['a', 'b', 'c']) await ask('POST /v1/things', { name })
    const names = (body: unknown): string[] =>
      thingsResource.verbs.list.output?.parse(body).things.map(({ name }) => name) ?? []
    for (const limit of ['0', '-5', '1', '1.0']) {
      assert.deepEqual(names((await ask(`GET /v1/things?limit=${limit}`)).body), ['a'], limit)
    }
    assert.equal(names((await ask('GET /v1/things?limit=1e300')).body).length, 3)
    const first = await ask('GET /v1/things?limit=2')
    const { next } = first.body as { next: string }
    assert.deepEqual(names((await ask(`GET /v1/things?limit=2&after=${next}`)).body), ['c'])
  })

  test('does not read the body of GET', async (t) => {
    const { app } = await rest(t)
    const request = new Request('http://x/v1/things', { headers: { Authorization: `Bearer ${ME}` } })
    Object.defineProperty(request, 'body', { get: () => assert.fail('the body was read') })
    assert.equal((await app.request(request)).status, 200)
  })
})

suite('a path parameter', () => {
  const NAMES = [
    'a/b',
    'a%2Fb',
    'a b',
    'a+b',
    '%',
    '%41',
    'ü',
    '?x=1#y',
    ':pk',
    '{name}',
    'a.b',
    '*',
    'a;b,c&d=e',
    '😀',
  ]
  for (const name of NAMES) {
    test(`is decoded once: "${name}"`, async (t) => {
      const { ask } = await rest(t)
      const segment = encodeURIComponent(name)
      await ask('POST /v1/things', { name })
      assert.deepEqual((await ask(`PATCH /v1/things/${segment}`, { size: 5 })).body, { name, size: 5 })
      const twice = await ask(`DELETE /v1/things/${encodeURIComponent(segment)}`)
      assert.equal(twice.status, segment === name ? 204 : 404)
      assert.equal((await ask(`DELETE /v1/things/${segment}`)).status, segment === name ? 404 : 204)
    })
  }

  test('ends at a raw slash', async (t) => {
    const { ask } = await rest(t)
    await ask('POST /v1/things', { name: 'a/b' })
    assert.equal((await ask('DELETE /v1/things/a/b')).status, 404)
    assert.equal((await ask('DELETE /v1/things/')).status, 404)
    assert.equal((await ask('DELETE /v1//things/a')).status, 404)
  })

  test('cannot be a dot segment', async (t) => {
    const { ask } = await rest(t)
    for (const step of ['.', '..', '%2e%2e', '../../etc'])
      assert.match(String((await ask(`DELETE /v1/things/${step}`)).status), /40[45]/)
  })

  test('contains the encoded parts of a composite key, encoded once more', async (t) => {
    const { ask } = await rest(t)
    const pk = encodeURIComponent(['a/b', '%&ü'].map(encodeURIComponent).join('/'))
    assert.deepEqual((await ask(`GET /v1/couples/${pk}?note=x`)).body, { left: 'a/b', right: '%&ü', note: 'x' })
    assert.deepEqual((await ask('GET /v1/couples/a%2F')).body, { left: 'a', right: '' })
    assert.equal((await ask('GET /v1/couples/a/b')).status, 404)
    for (const parts of ['a', 'a%2Fb%2Fc']) {
      const answer = await ask(`GET /v1/couples/${parts}`)
      assert.equal(answer.status, 404)
      assert.match(answer.detail, /the key has 2 parts: left, right/)
    }
    assert.match((await ask('GET /v1/couples/a%2F%25zz')).detail, /not properly URL-encoded/)
  })

  test('is found below the prefix of a proxy', async (t) => {
    const { host } = await exampleHost(t)
    const app = restApp(host, EXAMPLE_RESOURCES)
    const front = app.basePath('/').route('/deep/er', restApp(host, EXAMPLE_RESOURCES))
    const answer = await ask(front, 'GET /deep/er/v1/things/a%2Fb/size', { as: ME })
    assert.deepEqual(answer.body, { name: 'a/b', unit: 'cm' })
  })
})
