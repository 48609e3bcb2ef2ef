import assert from 'node:assert/strict'
import { test } from 'node:test'
import { serveHost } from '../../../test/support/served-host.ts'

const PER_SECOND = 2
const BURST = 10 * PER_SECOND

test('REST calls of a person are limited, with the time to wait; other people and services are not', async (t) => {
  const settings = { REST_CALLS_PER_SECOND: String(PER_SECOND) }
  const s = await serveHost(t, { daemons: ['proxyd', 'routd'], settings })
  await s.operator('local:op')
  const bearers = { ada: 'local:ada', ben: 'local:ben', op: 'local:op', timed: 'service:timed' }
  const ask = async (name: keyof typeof bearers, method = 'GET'): Promise<Response> => {
    const sub = bearers[name]
    const kind = sub.startsWith('service:') ? 'service' : 'user'
    return s.ask(method === 'GET' ? '/v1/routes' : '/v1/routes/3', await s.bearer({ sub, kind }), { method })
  }
  const allowed = async (name: keyof typeof bearers, most: number): Promise<number> => {
    for (let count = 0; count < most; count++) if ((await ask(name)).status === 429) return count
    return most
  }
  assert.equal(await allowed('ada', BURST + 1), BURST)
  // Also for calls that change something.
  const refused = await ask('ada', 'DELETE')
  assert.deepEqual([refused.status, refused.headers.get('Retry-After')], [429, '1'])
  assert.match(await refused.text(), /too many calls/)
  assert.equal((await ask('ben')).status, 200)
  assert.equal(await allowed('timed', BURST + 1), BURST + 1)
  assert.equal(await allowed('op', 10 * BURST + 1), 10 * BURST)
  s.clock.advance(500)
  assert.equal((await ask('ada')).status, 200)
  assert.equal((await ask('ada')).status, 429)
})

test('0 means no limit', async (t) => {
  const s = await serveHost(t, { daemons: ['routd'], settings: { REST_CALLS_PER_SECOND: '0' } })
  const bearer = await s.bearer({ sub: 'local:ada' })
  for (let count = 0; count < 30; count++)
    assert.equal(
      (await fetch(`${s.url('routd')}/v1/routes`, { headers: { Authorization: `Bearer ${bearer}` } })).status,
      200,
    )
})
