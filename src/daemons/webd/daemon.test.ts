import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { testHost } from '../../../test/support/host.ts'
import { type ServedHost, serveHost } from '../../../test/support/served-host.ts'
import { audit } from '../../registry/audit.ts'

const PATH = '/v1/proxyd_routes'

interface Doors {
  readonly front: ServedHost
  readonly webd: ServedHost
}

async function inOneProcess(t: TestContext): Promise<Doors> {
  const both = await serveHost(t, { daemons: ['proxyd', 'webd'] })
  return { front: both, webd: both }
}

async function inTwoProcesses(t: TestContext): Promise<Doors> {
  const on = await testHost(t)
  const front = await serveHost(t, { on, daemons: ['proxyd'], settings: { TRUSTED_PROXIES: '127.0.0.1' } })
  const settings = { PROXYD_URL: front.url() }
  return { front, webd: await serveHost(t, { on, daemons: ['webd'], settings }) }
}

for (const [where, open] of Object.entries({ 'in one process': inOneProcess, 'in two processes': inTwoProcesses })) {
  test(`webd forwards proxyd_routes requests to proxyd, ${where}`, async (t) => {
    const { front, webd } = await open(t)
    await webd.groups('main')
    await webd.grant('github:1', '*', '**')
    const bearer = await webd.bearer({ sub: 'github:1' })
    const ask = async (method: string, path: string, body?: object) => {
      const headers = { Authorization: `Bearer ${bearer}`, 'Content-Type': 'application/json' }
      const init = { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) }
      const answer = await fetch(webd.url('webd') + path, init)
      return { status: answer.status, body: JSON.parse((await answer.text()) || '{}') }
    }
    const route = { path: '/slack/', backend: 'http://127.0.0.1:9', auth: 'public' }
    assert.deepEqual(await ask('POST', PATH, route), { status: 201, body: route })
    const key = `${PATH}/${encodeURIComponent('/slack/')}`
    const changed = await ask('PATCH', key, { auth: 'user' })
    assert.deepEqual([changed.status, changed.body.auth], [200, 'user'])
    assert.deepEqual((await ask('GET', `${PATH}?limit=1`)).body, { proxyd_routes: [{ ...route, auth: 'user' }] })
    assert.deepEqual((await ask('GET', PATH)).body, await (await front.ask(PATH, bearer)).json())
    assert.equal((await ask('DELETE', key)).status, 204)
    assert.equal((await ask('PUT', PATH, route)).status, 405)
    assert.equal((await fetch(webd.url('webd') + PATH)).status, 401)
    assert.equal((await ask('GET', `${PATH}x`)).status, 404)
    const { paths } = (await ask('GET', '/openapi.json')).body
    assert.deepEqual(paths, {}, 'it mounts no resource')
    const rows = await webd.host.engine.read((tx) => audit.list(tx))
    assert.deepEqual(
      rows.filter(({ resource }) => resource === 'proxyd_routes').map(({ source_ip }) => source_ip),
      ['127.0.0.1', '127.0.0.1', '127.0.0.1'],
    )
  })
}

test('without proxyd, proxyd_routes requests at webd are 503', async (t) => {
  const webd = await serveHost(t, { daemons: ['webd'] })
  assert.equal((await fetch(webd.url('webd') + PATH)).status, 503)
})
