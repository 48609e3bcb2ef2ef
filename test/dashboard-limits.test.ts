// What pages of the dashboard show on both sides of a limit.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { issuedBearers } from '../src/core/access/issued-bearers.ts'
import { recordDenials } from '../src/core/access/network-denials.ts'
import { MESSAGES_SHOWN_MAX } from '../src/core/groups/groups.ts'
import { invites } from '../src/core/people/invites.ts'
import { sessions } from '../src/core/people/sessions.ts'
import { costLog } from '../src/core/turns/costs.ts'
import { messageCountText } from '../src/daemons/dashd/folder-table.ts'
import { timestamp } from '../src/lib/clock.ts'
import { groupsResource } from '../src/resources/groups.ts'
import { networkRulesResource } from '../src/resources/network-rules.ts'
import { type Dashboard, OPERATOR, serveDashboard } from './support/dashboard.ts'
import { postForm } from './support/dashboard-forms.ts'

const DAEMONS = ['proxyd', 'authd', 'dashd'] as const

const read = async ({ operator }: Dashboard, path: string): Promise<string> => (await operator.get(path)).text()

suite('pages of the dashboard', () => {
  test('take amounts of dollars with at most two decimals', async (t) => {
    const dash = await serveDashboard(t, { daemons: DAEMONS })
    const set = async (dollars: string): Promise<number | undefined> => {
      const form = { action: 'set_budget', dollars }
      const { status } = await postForm(dash.operator, '/dash/folders/team?view=budget', form)
      return status === 303 ? (await dash.cli.call(groupsResource.verbs.budget, { folder: 'team' })).cap : status
    }
    const amounts = ['0.29', '$3', ' 1.5 ', '2.505', '-1', '1e3', '1234567890', '', '0']
    const caps = []
    for (const amount of amounts) caps.push(await set(amount))
    assert.deepEqual(caps, [29, 300, 150, 400, 400, 400, 400, 400, undefined])
  })

  test('show the state of an invite', async (t) => {
    const dash = await serveDashboard(t, { daemons: DAEMONS })
    const now = dash.host.clock.now()
    const rows = {
      open: { used_count: 1 },
      full: { used_count: 2 },
      ends: { used_count: 0, expires_at: timestamp(now + 1) },
      ended: { used_count: 0, expires_at: timestamp(now) },
      revoked: { used_count: 2, revoked_at: timestamp(now) },
    }
    await dash.host.engine.transaction(async (tx) => {
      for (const [token_id, row] of Object.entries(rows))
        await invites.insert(tx, {
          ...{ token_hash: Buffer.from(token_id), token_id, target_glob: 'team', max_uses: 2 },
          ...{ issued_by_sub: OPERATOR, issued_at: timestamp(now), ...row },
        })
    })
    const listed: { invite: string; state: string }[] = JSON.parse(await read(dash, '/dash/invites?format=json'))
    assert.deepEqual(Object.fromEntries(listed.map(({ invite, state }) => [invite, state])), {
      ...{ open: 'open', full: 'used up', ends: 'open', ended: 'expired', revoked: 'revoked' },
    })
    const body = await read(dash, '/dash/invites')
    assert.ok(body.includes('aria-label="Revoke the invite ended"') && !body.includes('Revoke the invite revoked'))
  })

  test('list only sessions and bearers that are valid', async (t) => {
    const dash = await serveDashboard(t, { daemons: DAEMONS })
    const now = dash.host.clock.now()
    const [started_at, later] = [timestamp(now), timestamp(now + 1)]
    const bearer = {
      sub: OPERATOR,
      kind: 'user',
      created_at: started_at,
      created_by: OPERATOR,
      expires_at: later,
    } as const
    const session = {
      sub: OPERATOR,
      scope: '',
      started_at,
      renewed_at: started_at,
      rotations: 0,
      kind: 'browser',
      method: 'link',
      expires_at: later,
      ends_at: later,
      idle_ms: 1,
      status: 'active',
    } as const
    await dash.host.engine.transaction(async (tx) => {
      await issuedBearers.insert(tx, { ...bearer, id: 'b1', name: 'valid bearer' })
      await issuedBearers.insert(tx, { ...bearer, id: 'b2', name: 'old bearer', expires_at: started_at })
      await issuedBearers.insert(tx, { ...bearer, id: 'b3', name: 'revoked bearer', revoked_at: started_at })
      await sessions.insert(tx, { ...session, family_id: 's1', name: 'valid session' })
      await sessions.insert(tx, { ...session, family_id: 's2', name: 'idle session', expires_at: started_at })
      await sessions.insert(tx, { ...session, family_id: 's3', name: 'old session', ends_at: started_at })
      await sessions.insert(tx, { ...session, family_id: 's4', name: 'ended session', status: 'revoked' })
    })
    for (const path of ['/dash/me', `/dash/person?sub=${OPERATOR}`]) {
      const shown = [...(await read(dash, path)).matchAll(/\b(\w+ (?:bearer|session))<\/td>/g)].map(([, name]) => name)
      assert.deepEqual(shown.toSorted(), ['valid bearer', 'valid session'], path)
    }
  })

  test('offer to allow a denied host until a rule names it or a domain above it', async (t) => {
    const dash = await serveDashboard(t, { daemons: DAEMONS })
    const hosts = ['api.example.com', 'v2.api.example.com', 'notapi.example.com', 'example.com']
    const denial = {
      folder: 'team',
      port: 443,
      reason: 'blocked-by-allowlist',
      count: 1,
      at: '2026-01-01T00:00:00.000Z',
    }
    await dash.host.engine.transaction((tx) =>
      recordDenials(
        tx,
        hosts.map((host) => ({ ...denial, host })),
      ),
    )
    await dash.cli.call(networkRulesResource.verbs.allow, { folder: 'team', target: 'api.example.com' })
    const body = await read(dash, '/dash/folders/team?view=network')
    const offered = [...body.matchAll(/aria-label="Allow ([^"]*)"/g)].map(([, host]) => host)
    assert.deepEqual(offered.toSorted(), ['example.com', 'notapi.example.com'])
    assert.equal(body.split('allowed now').length - 1, 2)
  })

  test('say that a list of costs is cut after a hundred rows', async (t) => {
    const dash = await serveDashboard(t, { daemons: DAEMONS })
    const add = (model: string) =>
      dash.host.engine.transaction((tx) =>
        costLog.insert(tx, {
          ...{ folder: 'team', turn_id: model, model, input_tokens: 0, output_tokens: 0, cost_cents: 1 },
          recorded_at: timestamp(dash.host.clock.now()),
        }),
      )
    for (let n = 0; n < 99; n++) await add(`m${n}`)
    const hint = /The 100 with the highest cost; the download has up to 1000\./
    assert.doesNotMatch(await read(dash, '/dash/costs?by=model'), hint)
    await add('m99')
    assert.match(await read(dash, '/dash/costs?by=model'), hint)
    assert.doesNotMatch(await read(dash, '/dash/costs?by=day'), hint)
    await add('m100')
    const rows = async (query: string): Promise<number> =>
      (await read(dash, `/dash/costs?by=model${query}`)).split('<tr id="spend-').length - 1
    assert.deepEqual([await rows(''), await rows('&limit=101')], [100, 101])
  })

  test('offer to search further back only where few rows of a page match', async (t) => {
    const dash = await serveDashboard(t, { daemons: DAEMONS })
    const body = await read(dash, '/dash/audit?limit=1')
    assert.match(body, /rel="next"/)
    assert.doesNotMatch(body, /Search further back/)
  })

  test('count messages of a day up to a limit', () => {
    assert.equal(messageCountText(MESSAGES_SHOWN_MAX - 1), '999')
    assert.equal(messageCountText(MESSAGES_SHOWN_MAX), '1000+')
  })
})
