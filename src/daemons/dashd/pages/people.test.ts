// The pages about people, as an operator, an administrator of one folder and a stranger.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { type Dashboard, OPERATOR, serveDashboard, TEAM_ADMIN } from '../../../../test/support/dashboard.ts'
import { type SignedInBrowser, signIn } from '../../../../test/support/sign-in.ts'
import { acl, aclMembership } from '../../../core/access/acl.ts'
import { issuedBearers } from '../../../core/access/issued-bearers.ts'
import { accounts } from '../../../core/people/accounts.ts'
import { identityClaims } from '../../../core/people/identities.ts'
import { invites } from '../../../core/people/invites.ts'
import { onboarding } from '../../../core/people/onboarding.ts'
import { onboardingGates } from '../../../core/people/onboarding-gates.ts'
import { listActiveSessions } from '../../../core/people/sessions.ts'
import { secrets } from '../../../core/secrets/secrets.ts'
import { costLog, users } from '../../../core/turns/costs.ts'
import { timestamp } from '../../../lib/clock.ts'

const SCRIPT = '<script>alert(1)</script>'

async function read(browser: SignedInBrowser, path: string): Promise<string> {
  const response = await browser.get(path)
  const text = await response.text()
  assert.equal(response.status, 200, `${path}: ${text}`)
  assert.ok(!text.includes(SCRIPT), path)
  return text
}

/** Sends the form and returns the page that follows. */
async function submit(
  browser: SignedInBrowser,
  path: string,
  action: string,
  fields: Record<string, string> = {},
): Promise<string> {
  const form_key = `${action}-${Math.random()}`
  const response = await browser.post(path, { action, form: action, form_key, ...fields })
  const text = await response.text()
  assert.ok(response.status === 200 || response.status === 303, `${action}: ${response.status} ${text}`)
  return text
}

const rows = <T>(dash: Dashboard, read: Parameters<typeof dash.host.engine.read<T>>[0]): Promise<T> =>
  dash.host.engine.read(read)

suite('pages about people', () => {
  test('are for operators, and administrators see those of their folders', async (t) => {
    const dash = await serveDashboard(t)
    await dash.host.engine.transaction((tx) => accounts.update(tx, { sub: TEAM_ADMIN }, { name: SCRIPT }))
    const list = await read(dash.operator, '/dash/people')
    for (const text of [OPERATOR, TEAM_ADMIN, '&lt;script&gt;']) assert.ok(list.includes(text), text)
    assert.ok(!(await read(dash.operator, '/dash/people?search=team-a')).includes('github:stranger'))
    const csv = await (await dash.operator.get('/dash/people?format=csv')).text()
    assert.match(csv, /^person,e_mail,.*\r\n(.*\r\n)*github:operator,/)
    for (const path of ['/dash/people', `/dash/person?sub=${TEAM_ADMIN}`, '/dash/admissions']) {
      await read(dash.operator, path)
      for (const browser of [dash.admin, dash.stranger]) {
        const hidden = await browser.get(path)
        assert.equal(hidden.status, 404)
        assert.ok(!(await hidden.text()).includes(OPERATOR))
      }
    }
    const own = await read(dash.admin, '/dash/access?folder=team')
    for (const text of [TEAM_ADMIN, OPERATOR, 'role:operator * on **']) assert.ok(own.includes(text), text)
    const reasons = await read(dash.admin, `/dash/access?folder=team&principal=${TEAM_ADMIN}`)
    assert.match(reasons, /allowed by acl: github:team-admin \* on team/)
    assert.equal((await dash.admin.get('/dash/access?folder=other')).status, 404)
    assert.equal((await dash.admin.get(`/dash/access?folder=other&principal=${OPERATOR}`)).status, 404)
    for (const path of ['/dash/access?folder=team', '/dash/invites'])
      assert.equal((await dash.stranger.get(path)).status, 404)
    const me = await read(dash.stranger, '/dash/me')
    assert.ok(me.includes('github:stranger') && !me.includes(OPERATOR))
    assert.ok(me.includes('Your turns of the last 30 days cost nothing.'))
    await dash.host.engine.transaction((tx) =>
      costLog.insert(tx, {
        ...{ folder: 'team', turn_id: 't', model: 'big', user_sub: 'github:stranger', cost_cents: 123 },
        ...{ input_tokens: 1, output_tokens: 1, recorded_at: timestamp(dash.clock.now()) },
      }),
    )
    assert.match(await read(dash.stranger, '/dash/me'), /<p class="figure">\$1\.23<\/p><figure id="cost-chart"/)
    const forged = await dash.admin.post(`/dash/person?sub=${OPERATOR}`, {
      action: 'end_sessions',
      sub: OPERATOR,
      confirmed: 'yes',
    })
    assert.equal(forged.status, 404)
  })

  test('change rights, sessions, bearers and caps of a person, with a warning for the last operator', async (t) => {
    const dash = await serveDashboard(t)
    const { operator } = dash
    const ada = await signIn(dash, 'local:ada')
    const path = '/dash/person?sub=local%3Aada'
    await submit(operator, path, 'grant', { principal: 'local:ada', right: 'interact', scope: 'team/sub' })
    assert.ok((await read(operator, path)).includes('team/sub'))
    const grant = { principal: 'local:ada', right: 'interact', scope: 'team/sub', effect: 'allow' }
    assert.match(await submit(operator, path, 'revoke', grant), /Take interact on team\/sub from local:ada\?/)
    assert.ok(await rows(dash, (tx) => acl.find(tx, { principal: 'local:ada' })))
    await submit(operator, path, 'revoke', { ...grant, sure: 'yes' })
    assert.equal(await rows(dash, (tx) => acl.find(tx, { principal: 'local:ada' })), undefined)

    const lastOperator = { subject: OPERATOR, role: 'role:operator' }
    assert.match(await submit(operator, `/dash/person?sub=${OPERATOR}`, 'leave', lastOperator), /last operator/)
    await submit(operator, path, 'join', { subject: 'local:ada', role: 'role:operator' })
    const asked = await submit(operator, `/dash/person?sub=${OPERATOR}`, 'leave', lastOperator)
    assert.ok(!asked.includes('last operator'))
    await submit(operator, path, 'leave', { subject: 'local:ada', role: 'role:operator', sure: 'yes' })
    assert.equal(await rows(dash, (tx) => aclMembership.find(tx, { subject: 'local:ada' })), undefined)

    await submit(operator, path, 'budget', { sub: 'local:ada', daily: '250' })
    assert.equal((await rows(dash, (tx) => users.find(tx, { sub: 'local:ada' })))?.cost_cap_cents_per_day, 250)
    assert.ok((await read(operator, path)).includes('of $2.50'))

    assert.match(await submit(ada, '/dash/me', 'create_bearer', { name: 'ci', days: '1' }), /data-copy="ey/)
    const named = await read(operator, path)
    assert.match(named, /aria-label="Revoke the bearer ci"/)
    assert.match(named, /aria-label="End the session [^"]* of \d{4}-/)
    assert.match(await submit(operator, path, 'revoke_bearers', { sub: 'local:ada' }), /Revoke every bearer/)
    await submit(operator, path, 'revoke_bearers', { sub: 'local:ada', confirmed: 'yes' })
    assert.ok((await rows(dash, (tx) => issuedBearers.find(tx, { sub: 'local:ada' })))?.revoked_at)
    assert.ok(!(await read(operator, path)).includes('Revoke all bearers'))
    await submit(operator, path, 'end_sessions', { sub: 'local:ada', confirmed: 'yes' })
    assert.deepEqual(await rows(dash, (tx) => listActiveSessions(tx, 'local:ada', dash.host.clock.now())), [])
    assert.equal((await ada.get('/dash/me')).status, 303)
    assert.match(await submit(operator, path, 'sign_in_link', { sub: 'local:ada' }), /\/auth\/link\/[\w-]{43}/)
  })

  test('link an account to a person, and take it from another only if asked to', async (t) => {
    const dash = await serveDashboard(t)
    const path = `/dash/person?sub=${TEAM_ADMIN}`
    const claims = async (): Promise<string[][]> => {
      const all = Map.groupBy(await rows(dash, (tx) => identityClaims.list(tx)), ({ identity_id }) => identity_id)
      return [...all.values()].map((each) => each.map(({ sub }) => sub).sort()).sort()
    }
    await submit(dash.operator, path, 'link', { sub: 'google:7', to: TEAM_ADMIN })
    await submit(dash.operator, path, 'link', { sub: 'google:8', to: TEAM_ADMIN })
    assert.deepEqual(await claims(), [[TEAM_ADMIN, 'google:7', 'google:8']])
    const taken = await dash.operator.post(path, { action: 'link', form: 'link', sub: 'google:8', to: OPERATOR })
    assert.equal(taken.status, 409)
    await submit(dash.operator, path, 'link', { sub: 'google:8', to: OPERATOR, move: 'true' })
    assert.deepEqual(await claims(), [
      [OPERATOR, 'google:8'],
      [TEAM_ADMIN, 'google:7'],
    ])
    const both = await dash.operator.post(path, {
      action: 'link',
      form: 'link',
      sub: 'google:9',
      to: OPERATOR,
      id: 'x',
    })
    assert.equal(both.status, 400)
  })

  test('invite a colleague to one folder, decide on requests and change gates', async (t) => {
    const dash = await serveDashboard(t)
    const page = await submit(dash.admin, '/dash/invites', 'create', { target_glob: 'team', max_uses: '1', days: '7' })
    const [, link = ''] = /data-copy="([^"]+\/invite\/[\w-]+)"/.exec(page) ?? []
    const [invite] = await rows(dash, (tx) => invites.list(tx))
    assert.ok(invite && link.includes(invite.token_id))
    assert.deepEqual([invite.target_glob, invite.issued_by_sub, invite.max_uses], ['team', TEAM_ADMIN, 1])
    assert.ok(!(await read(dash.admin, '/dash/invites')).includes(link))
    const beyond = await dash.admin.post('/dash/invites', {
      action: 'create',
      form: 'create',
      target_glob: 'other',
      max_uses: '1',
      days: '7',
    })
    assert.equal(beyond.status, 403)
    await submit(dash.admin, '/dash/invites', 'revoke', { token_id: invite.token_id, confirmed: 'yes' })
    assert.match(await read(dash.admin, '/dash/invites'), />revoked</)

    const created = '2026-01-01T00:00:00.000Z'
    await dash.host.engine.transaction(async (tx) => {
      for (const [at, jid] of ['telegram:2', 'telegram:1', 'telegram:3'].entries()) {
        const row = { jid, status: 'queued', created, queued_at: created, attempts: 0, user_sub: 'telegram:u' } as const
        await onboarding.insert(tx, { ...row, position: at + 1, folder: `guests/${jid.slice(-1)}` })
      }
    })
    const queue = await read(dash.operator, '/dash/admissions')
    assert.ok(queue.indexOf('telegram:2') < queue.indexOf('telegram:1'))
    await submit(dash.operator, '/dash/admissions', 'refuse', { jid: 'telegram:1', confirmed: 'yes' })
    await submit(dash.operator, '/dash/admissions', 'approve', { jid: 'telegram:2' })
    assert.match(await read(dash.operator, '/dash/admissions?jid=telegram%3A3'), /Approve telegram:3/)
    await submit(dash.operator, '/dash/admissions?jid=telegram%3A3', 'approve', {
      jid: 'telegram:3',
      folder: 'guests/three',
    })
    const decided = await rows(dash, (tx) => onboarding.list(tx))
    assert.deepEqual(
      decided.map(({ jid, status, folder }) => [jid, status, folder]),
      [
        ['telegram:1', 'refused', undefined],
        ['telegram:2', 'approved', 'guests/2'],
        ['telegram:3', 'approved', 'guests/three'],
      ],
    )
    const gates = '/dash/admissions?view=gates'
    await submit(dash.operator, gates, 'put_gate', { spec: 'guests/*', daily_limit: '5' })
    await submit(dash.operator, gates, 'change_gate', { spec: 'guests/*', enabled: 'false' })
    assert.match(await read(dash.operator, gates), /guests\/\*.*>closed</s)
    await submit(dash.operator, gates, 'remove_gate', { spec: 'guests/*', confirmed: 'yes' })
    assert.deepEqual(await rows(dash, (tx) => onboardingGates.list(tx)), [])
  })

  test('let people manage their own secrets, sessions and bearers', async (t) => {
    const dash = await serveDashboard(t)
    await submit(dash.admin, '/dash/me', 'set_secret', { key: 'API_KEY', value: 'a-secret-value' })
    const page = await read(dash.admin, '/dash/me')
    assert.ok(page.includes('API_KEY') && !page.includes('a-secret-value'))
    assert.equal((await rows(dash, (tx) => secrets.find(tx, { key: 'API_KEY' })))?.owner, TEAM_ADMIN)
    await submit(dash.admin, '/dash/me', 'delete_secret', { key: 'API_KEY', confirmed: 'yes' })
    assert.equal(await rows(dash, (tx) => secrets.find(tx, { key: 'API_KEY' })), undefined)
    const second = await signIn(dash, TEAM_ADMIN)
    await submit(dash.admin, '/dash/me', 'end_others')
    assert.equal((await second.get('/dash/me')).status, 303)
    assert.equal((await dash.admin.get('/dash/me')).status, 200)
  })
})
