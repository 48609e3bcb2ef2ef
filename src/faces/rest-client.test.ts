import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { EXAMPLE_RESOURCES, exampleHost, pairsResource, thingsResource } from '../../test/support/example-resources.ts'
import { isRefusal } from '../../test/support/host.ts'
import { restApp } from '../../test/support/rest.ts'
import { createRestClient, type RestClient, type RestClientOptions } from './rest-client.ts'

const things = thingsResource.verbs
const URL_OF = 'http://routd.test'

/** A remote whose network is the other daemon itself. */
async function open(t: TestContext, more: Partial<RestClientOptions> = {}): Promise<RestClient> {
  const { host } = await exampleHost(t)
  const app = restApp(host, EXAMPLE_RESOURCES)
  return createRestClient({
    url: URL_OF,
    bearer: 'github:1',
    resources: EXAMPLE_RESOURCES,
    fetch: async (input, init) => app.request(new Request(input, init)),
    ...more,
  })
}

/** A remote whose other side answers always this. */
function answering(answer: () => Response | Promise<Response>): RestClient {
  return createRestClient({ url: URL_OF, bearer: 'x', resources: EXAMPLE_RESOURCES, fetch: async () => answer() })
}

suite('the same verbs over HTTP', () => {
  test('with their inputs and answers', async (t) => {
    const { call } = await open(t)
    const { name, size } = await call(things.update, {
      name: (await call(things.create, { name: 'a/b %' })).name,
      size: 7,
    })
    assert.deepEqual([name, size], ['a/b %', 7])
    const { things: rows, next } = await call(things.list, { limit: 1 })
    assert.deepEqual([rows[0]?.size, next], [7, undefined])
    assert.equal(await call(things.delete, { name }), undefined)
    assert.deepEqual(await call(things.measure, { name: 'x', exact: true }), { name: 'x', unit: 'cm', exact: true })
  })

  test('a composite key goes there and back', async (t) => {
    const { call } = await open(t)
    const pair = { left: 'a/b', right: '%2F?#', note: '1&2=3' }
    assert.deepEqual(await call(pairsResource.verbs.look, pair), pair)
  })

  test('what is undefined is not said', async (t) => {
    const { call } = await open(t)
    assert.equal((await call(things.create, { name: 'a', open: undefined })).open, undefined)
  })

  test('a bearer that is a function is asked every time', async (t) => {
    let asked = 0
    const { call } = await open(t, {
      bearer: async () => {
        asked++
        return 'github:1'
      },
    })
    await call(things.list, {})
    await call(things.list, {})
    assert.equal(asked, 2)
  })
})

suite('what the other side refuses', () => {
  test('is refused here, with its code and sentence', async (t) => {
    const { call } = await open(t)
    await assert.rejects(call(things.delete, { name: 'none' }), isRefusal('not_found', 'there is no thing none'))
    await call(things.create, { name: 'a' })
    await assert.rejects(call(things.create, { name: 'a' }), isRefusal('conflict', 'there is a a already'))
    await assert.rejects(call(things.create, { name: '' }), isRefusal('invalid', 'name must not be empty'))
  })

  test('as a stranger too', async (t) => {
    const { call } = await open(t, { bearer: '' })
    await assert.rejects(call(things.list, {}), isRefusal('unauthenticated'))
  })

  test('its bugs are no refusals, and name the incident', async (t) => {
    t.mock.method(console, 'error', () => {})
    const { call } = await open(t)
    await assert.rejects(call(things.fail, {}), /^Error: things.fail: answered 500, incident [0-9a-f-]{36}$/)
  })

  const STRANGE: Record<string, [answer: () => Response | Promise<Response>, code: Parameters<typeof isRefusal>[0]]> = {
    'a page of a front door': [() => new Response('<h1>Bad gateway</h1>', { status: 502 }), 'unavailable'],
    'a 404 that is not ours': [() => new Response('nothing', { status: 404 }), 'not_found'],
    'an answer of another shape': [() => Response.json({ rows: [] }), 'unavailable'],
    'an answer that is no JSON': [() => new Response('ok'), 'unavailable'],
    'no answer': [
      () => Promise.reject(new TypeError('fetch failed', { cause: new Error('ECONNREFUSED') })),
      'unavailable',
    ],
  }
  for (const [sentence, [answer, code]] of Object.entries(STRANGE)) {
    test(`${sentence} is ${code}`, async () => {
      await assert.rejects(answering(answer).call(things.list, {}), isRefusal(code, 'things.list'))
    })
  }
})

suite('what never leaves', () => {
  const SILENT = answering(() => assert.fail('it was sent'))

  for (const name of ['.', '..', '']) {
    test(`"${name}" as a path parameter: it would be another path`, async () => {
      await assert.rejects(SILENT.call(things.delete, { name }), isRefusal('invalid', 'in a path'))
    })
  }

  test('a verb without REST face', async () => {
    await assert.rejects(SILENT.call(things.polish, { name: 'a' }), /has no REST face/)
  })

  test('the bearer does not follow a redirect', async () => {
    let redirect: string | undefined
    const { call } = createRestClient({
      url: URL_OF,
      bearer: 'x',
      resources: EXAMPLE_RESOURCES,
      fetch: async (_, init) => {
        redirect = init?.redirect
        return Response.json({ things: [] })
      },
    })
    await call(things.list, {})
    assert.equal(redirect, 'error')
  })

  test('a call that hangs ends', async () => {
    const { call } = createRestClient({
      url: URL_OF,
      bearer: 'x',
      resources: EXAMPLE_RESOURCES,
      timeoutMs: 5,
      fetch: (_, init) =>
        new Promise((_, reject) => {
          // The timer of a signal alone does not keep the process awake.
          const awake = setInterval(() => {}, 1)
          init?.signal?.addEventListener('abort', () => {
            clearInterval(awake)
            reject(new Error('aborted'))
          })
        }),
    })
    await assert.rejects(call(things.list, {}), isRefusal('unavailable', 'does not answer'))
  })
})
