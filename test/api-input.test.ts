// Invalid input to the REST API is refused with a message and changes nothing. H and S numbers are rows of the catalogue.
import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import type { Hono } from 'hono'
import { routeTokens } from '../src/core/links/route-tokens.ts'
import { routes } from '../src/core/routing/routes.ts'
import { resourcesServedBy } from '../src/faces/operations.ts'
import { resources } from '../src/resources/index.ts'
import { type TestHost, testHost } from './support/host.ts'
import { type Answer, ask, restApp } from './support/rest.ts'

const OPERATOR = 'github:op'
const ADMIN = 'github:admin'

interface Api {
  app: Hono
  host: TestHost['host']
  ask(request: string, body?: unknown, as?: string): Promise<Answer>
  tokens(): Promise<{ jid: string; owner_folder: string }[]>
}

async function api(t: TestContext): Promise<Api> {
  const { host, groups, grant, operator } = await testHost(t)
  await groups('main', 'team', 'team2')
  await grant(ADMIN, 'admin', 'team')
  await operator(OPERATOR)
  const app = restApp(host, resourcesServedBy('routd', resources))
  return {
    app,
    host,
    ask: (request, body, as = OPERATOR) => ask(app, request, { as, ...(body === undefined ? {} : { body }) }),
    tokens: () => host.engine.read((tx) => routeTokens.list(tx)),
  }
}

suite('minting a link', () => {
  const SUFFIXES = [
    '',
    '..',
    'a//b',
    '/a',
    'a/',
    'a/b',
    '%2F',
    'a'.repeat(65),
    'a'.repeat(300),
    '😀',
    'a b',
    'a:b',
    'ä',
    'a\n',
  ]
  test('H43 with an invalid suffix is 400', async (t) => {
    const { ask, tokens } = await api(t)
    for (const jid_suffix of SUFFIXES) {
      const answer = await ask('POST /v1/route_tokens/chat', { jid_suffix })
      assert.equal(answer.status, 400, jid_suffix)
      assert.match(answer.detail, /^jid_suffix must be 1 to 64 letters/)
    }
    assert.deepEqual(await tokens(), [])
  })

  test('H44 of a hook without a label or with an invalid one is 400', async (t) => {
    const { ask, tokens } = await api(t)
    for (const body of [
      {},
      { source_label: '' },
      { source_label: 'a/b' },
      { source_label: null },
      { source_label: 5 },
    ]) {
      const answer = await ask('POST /v1/route_tokens/hook', body)
      assert.equal(answer.status, 400)
      assert.match(answer.detail, /^source_label /)
    }
    assert.deepEqual(await tokens(), [])
  })

  test('H45 for a JID of another folder is 409, and one folder wins fifty concurrent requests', async (t) => {
    const { ask, tokens } = await api(t)
    const body = { target_folder: 'team', jid_suffix: 'x' }
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, n) => ask('POST /v1/route_tokens/chat', body, n % 2 ? OPERATOR : ADMIN)),
    )
    const statuses = Map.groupBy(answers, ({ status }) => status)
    assert.deepEqual([...statuses.keys()].sort(), [201, 409])
    assert.equal(statuses.get(409)?.length, 25)
    assert.equal(new Set((await tokens()).map(({ owner_folder }) => owner_folder)).size, 1)
  })

  test('H46 outside the subtree is 403, also for a folder with the same name prefix, and 404 for a missing folder', async (t) => {
    const { ask } = await api(t)
    const mint = (target_folder: string, as: string) => ask('POST /v1/route_tokens/chat', { target_folder }, as)
    assert.equal((await mint('main', ADMIN)).status, 403)
    assert.equal((await mint('team2', ADMIN)).status, 403)
    assert.equal((await mint('nowhere', OPERATOR)).status, 404)
    assert.equal((await mint('../team', OPERATOR)).status, 400)
  })

  test('H47 with a context that is too long or contains NUL is 400', async (t) => {
    const { ask } = await api(t)
    const mint = (context: string) => ask('POST /v1/route_tokens/chat', { context })
    assert.match((await mint('x'.repeat(16_385))).detail, /^context is longer than 16384 characters$/)
    assert.equal((await mint('x'.repeat(1_048_576))).status, 413)
    assert.match((await mint('a\u0000b')).detail, /^context must not contain a NUL/)
    assert.equal((await mint('😀'.repeat(16_384))).status, 201)
  })

  test('S15 never takes the owner from the request', async (t) => {
    const { app, ask, tokens } = await api(t)
    for (const name of ['owner_folder', 'token_hash', 'created_at', 'isAdmin']) {
      assert.equal((await ask('POST /v1/route_tokens/chat', { [name]: 'team' })).detail, `unknown field "${name}"`)
      assert.equal((await ask(`POST /v1/route_tokens/chat?${name}=team`, {})).detail, `unknown field "${name}"`)
    }
    const headers = { Authorization: `Bearer ${OPERATOR}`, 'X-Folder': 'team', 'Owner-Folder': 'team' }
    assert.equal((await app.request('/v1/route_tokens/chat', { method: 'POST', headers })).status, 201)
    assert.deepEqual(
      (await tokens()).map(({ owner_folder }) => owner_folder),
      ['main'],
    )
  })
})

suite('revoking a link', () => {
  const JID = 'hook:team/ci/main'

  async function mintTwice(t: TestContext): Promise<Api> {
    const opened = await api(t)
    const body = { source_label: 'ci', jid_suffix: 'main', target_folder: 'team' }
    for (let count = 0; count < 2; count++) await opened.ask('POST /v1/route_tokens/hook', body)
    return opened
  }

  test('H48 takes one encoded segment: raw slashes and double encoding are 404', async (t) => {
    const { ask, tokens } = await mintTwice(t)
    assert.equal((await ask(`DELETE /v1/route_tokens/${JID}`)).status, 404)
    assert.equal((await ask(`DELETE /v1/route_tokens/${encodeURIComponent(encodeURIComponent(JID))}`)).status, 404)
    assert.equal((await ask('DELETE /v1/route_tokens/hook:team%252Fci%252Fmain')).status, 404)
    assert.equal((await tokens()).length, 2)
  })

  test('H49 deletes every token of the JID, and a second call is 404', async (t) => {
    const { ask, tokens } = await mintTwice(t)
    const path = `DELETE /v1/route_tokens/${encodeURIComponent(JID)}`
    assert.deepEqual((await ask(path)).body, { deleted: 2 })
    assert.deepEqual(await tokens(), [])
    assert.equal((await ask(path)).status, 404)
  })
})

suite('updating a route', () => {
  const ROUTE = { id: 1, seq: 0, match: 'room=1', target: 'team' }
  const REFUSED: Record<string, [body: unknown, detail: RegExp]> = {
    'with a wrong type': [{ seq: '1' }, /^seq must be a number$/],
    'with an unknown column': [{ colour: 1 }, /^unknown field "colour"$/],
    'with another key': [{ id: 2, seq: 1 }, /^id is given twice, with different values$/],
    'without a field': [{}, /^nothing to change/],
    'with null': [{ match: null }, /^match must be text$/],
    'with a match that can never apply': [{ match: 'rooms=1' }, /^match has the unknown key "rooms"/],
    'with an array': [[], /^the body must be a JSON object$/],
    'with __proto__': ['{"__proto__":{"seq":9}}', /^unknown field "__proto__"$/],
    'with deep nesting': [
      `{"match":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
      /^the body is nested deeper than 64 levels$/,
    ],
    'with a number beyond the float range': ['{"seq":1e400}', /^seq must be/],
    'with a number of ten thousand digits': [`{"seq":${'9'.repeat(10_000)}}`, /^seq must be/],
  }
  test('H50 with an invalid body is 400 and changes nothing', async (t) => {
    const { host, ask } = await api(t)
    await host.engine.transaction((tx) => routes.insert(tx, ROUTE))
    for (const [name, [body, detail]] of Object.entries(REFUSED)) {
      const answer = await ask('PATCH /v1/routes/1', body)
      assert.equal(answer.status, 400, name)
      assert.match(answer.detail, detail)
    }
    assert.deepEqual(await host.engine.read((tx) => routes.list(tx)), [ROUTE])
  })

  test('with a malformed id is 404', async (t) => {
    const { ask } = await api(t)
    for (const id of ['one', '1.5', '01', '0x1', '1e999', '9007199254740993', '%201', '-'])
      assert.equal((await ask(`PATCH /v1/routes/${id}`, { seq: 1 })).status, 404, id)
  })
})

suite('listing', () => {
  const LISTS = ['groups', 'routes', 'web_routes', 'acl', 'route_tokens', 'installed_packages', 'tasks', 'audit']
  test('H51 clamps a limit to its bounds and accepts only its own cursors', async (t) => {
    const { ask } = await api(t)
    const cursors = ['[]', '[1]', '[null,null]', '["a","b","c","d","e","f"]', '{}', '[{"bytes":1}]', '[[]]']
    for (const name of LISTS) {
      for (const limit of ['999999999', '1e300', '-1', '0'])
        assert.equal((await ask(`GET /v1/${name}?limit=${limit}`)).status, 200, limit)
      for (const query of ['limit=', 'limit=ten', 'limit=1&limit=2', 'page=2', 'after=', 'after=%00', 'after=x'])
        assert.equal((await ask(`GET /v1/${name}?${query}`)).status, 400, query)
      // Some of these are valid cursors of some list; none may cause a 5xx.
      for (const cursor of cursors.map((text) => Buffer.from(text).toString('base64url')))
        assert.match(String((await ask(`GET /v1/${name}?after=${cursor}`)).status), /^(200|400)$/)
    }
  })

  test('page by page returns the same rows as one request', async (t) => {
    const { ask } = await api(t)
    const whole = (await ask('GET /v1/tasks?limit=1000')).body as { scheduled_tasks: { id: string }[] }
    const ids: string[] = []
    for (let after = ''; ; ) {
      const { body } = await ask(`GET /v1/tasks?limit=4${after && `&after=${after}`}`)
      const { scheduled_tasks, next } = body as { scheduled_tasks: { id: string }[]; next?: string }
      ids.push(...scheduled_tasks.map(({ id }) => id))
      if (next === undefined) break
      after = next
    }
    assert.deepEqual(
      ids,
      whole.scheduled_tasks.map(({ id }) => id),
    )
    assert.equal(ids.length, 15)
  })
})

suite('a secret', () => {
  test('is accepted only in the body and is never returned', async (t) => {
    const { ask } = await api(t)
    const row = { scope_kind: 'folder', owner: 'team', key: 'API_KEY' }
    assert.equal((await ask('POST /v1/secrets?value=hush', row)).detail, 'value must be in the request body')
    const made = await ask('POST /v1/secrets', { ...row, value: 'hush' })
    assert.deepEqual(made.body, { ...row, created_at: '2026-01-01T00:00:00.000Z' })
    const { body } = await ask('GET /v1/audit')
    assert.doesNotMatch(JSON.stringify(body), /hush/)
    assert.equal((await ask('GET /v1/secrets')).status, 405)
    const path = encodeURIComponent(['folder', 'team', 'API_KEY'].map(encodeURIComponent).join('/'))
    assert.equal((await ask(`DELETE /v1/secrets/${path}`)).status, 204)
    assert.equal((await ask(`DELETE /v1/secrets/${path}`)).status, 404)
    assert.match((await ask('DELETE /v1/secrets/API_KEY')).detail, /^nothing is at this path: the key has 3 parts/)
  })
})

test('S16 a request cannot change Object.prototype', async (t) => {
  const { ask } = await api(t)
  await ask('POST /v1/routes', '{"target":"team","__proto__":{"isAdmin":true},"constructor":{"prototype":{"x":1}}}')
  assert.equal('isAdmin' in {} || 'x' in {}, false)
})
