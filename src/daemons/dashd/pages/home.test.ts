// Home, Turns, Approvals and Costs: what each person sees, and what the buttons do.
import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { openConversationHost } from '../../../../test/support/conversation-host.ts'
import { serveDashboard } from '../../../../test/support/dashboard.ts'
import type { SignedInBrowser } from '../../../../test/support/sign-in.ts'
import { run } from '../../../../test/support/sql.ts'
import { networkRules } from '../../../core/access/allowlist.ts'
import { holdForApproval, pendingActions } from '../../../core/access/approvals.ts'
import { recordDenials } from '../../../core/access/network-denials.ts'
import { postponeTurn, turns } from '../../../core/turns/turns.ts'
import { groupsResource } from '../../../resources/groups.ts'

const SCRIPT = '<script>alert(1)</script>'

/** A failed and a running turn, a held call, a denied host and a nearly spent budget in each of `team` and `other`. */
async function openBusyDashboard(t: TestContext) {
  const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
  const on = await openConversationHost(t, 'sqlite', { ...dash, operator: async () => {} })
  const made: Record<string, { failed: string; running: string; held: string }> = {}
  for (const folder of ['team', 'other']) {
    dash.clock.advance(10)
    const failed = await on.ask(`${SCRIPT} of ${folder}`, { folder })
    const first = (await on.mustClaim()).turn
    await on.submit(folder, {
      turn_id: failed,
      models: [{ model: `model of ${folder}`, input_tokens: 1, output_tokens: 1, cost_cents: 90 }],
    })
    await on.end(first, { outcome: 'failed', reason: `broken <b>${folder}</b>` })
    dash.clock.advance(10)
    const running = await on.ask(`work of ${folder}`, { folder })
    const { turn } = await on.mustClaim()
    await on.say(turn, `reading ${SCRIPT}`, { kind: 'status' })
    await dash.cli.call(groupsResource.verbs.set_budget, { folder, daily: 100 })
    const held = await on.write(async (tx) => {
      const at = '2026-01-01T00:00:00.000Z'
      await recordDenials(tx, [
        { folder, host: `api.${folder}.example`, port: 443, reason: 'blocked-by-allowlist', count: 2, at },
      ])
      return holdForApproval(tx, dash.host, {
        folder,
        tool: 'send',
        args_hash: folder,
        summary: `{"text":"${SCRIPT}"}`,
      })
    })
    made[folder] = { failed, running, held: held.id }
  }
  const { team, other } = made
  assert.ok(team && other)
  return { ...dash, on, team, other }
}

suite('Home of an instance without a model', () => {
  const STEP = 'href="/dash/model">Connect a model<'
  test('shows operators the first steps, and others nothing of them', async (t) => {
    const dash = await serveDashboard(t)
    assert.ok((await read(dash.operator, '/dash/')).includes(STEP))
    assert.ok(!(await read(dash.admin, '/dash/')).includes(STEP))
  })

  test('shows no first steps once a model is set', async (t) => {
    const dash = await serveDashboard(t, { settings: { AGENT_RUNTIME: 'command', AGENT_COMMAND: 'cat' } })
    assert.ok(!(await read(dash.operator, '/dash/')).includes(STEP))
  })
})

async function read(browser: SignedInBrowser, path: string): Promise<string> {
  const response = await browser.get(path)
  const body = await response.text()
  assert.equal(response.status, 200, body)
  assert.ok(!body.includes(SCRIPT), `${path} escapes texts`)
  return body
}

/** Sends the first form of the page with this action and all these values. */
async function press(
  browser: SignedInBrowser,
  path: string,
  action: string,
  values: Record<string, string>,
): Promise<Response> {
  const page = await read(browser, path)
  const forms = [...page.matchAll(/<form[^>]*method="post".*?<\/form>/gs)].map(([form]) => form)
  const fieldsOf = (form: string): Record<string, string> =>
    Object.fromEntries(
      [...form.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)">/g)].map(([, name, value]) => [
        name,
        value,
      ]),
    )
  const wanted = Object.entries({ action, ...values })
  const fields = forms.map(fieldsOf).find((found) => wanted.every(([name, value]) => found[name] === value))
  assert.ok(fields, `${path} has a button ${action} ${JSON.stringify(values)}`)
  return browser.post(path, fields)
}

suite('Home, Turns, Approvals and Costs', () => {
  test('name turns that the host cannot run, with the reason', async (t) => {
    const dash = await openBusyDashboard(t)
    const now = dash.clock.now()
    await dash.on.write(async (tx) => {
      for (const { id } of [{ id: dash.team.running }, { id: dash.other.running }]) {
        const turn = (await turns.find(tx, { id })) ?? assert.fail('it runs')
        assert.ok(await postponeTurn(tx, turn, now, `no <b>cell</b> for ${turn.folder}`))
      }
    })
    const [all, own] = [await read(dash.operator, '/dash/'), await read(dash.admin, '/dash/')]
    assert.ok(all.includes('no &lt;b&gt;cell&lt;/b&gt; for other') && !own.includes('for other'))
    assert.ok(own.includes('cannot run') && own.includes('no &lt;b&gt;cell&lt;/b&gt; for team'))
    assert.match(await read(dash.admin, `/dash/turns/${dash.team.running}`), /no &lt;b&gt;cell.*Next try/s)
  })

  test('show an operator everything, an administrator only their folders, and a stranger nothing', async (t) => {
    const dash = await openBusyDashboard(t)
    const { team, other } = dash
    const paths = ['/dash/', '/dash/turns', '/dash/approvals', '/dash/costs', '/dash/costs?by=model']
    const ofFolder = (folder: string) => ({
      '/dash/': [`of ${folder}`, `work of ${folder}`, `api.${folder}.example`, `broken &lt;b&gt;${folder}`],
      '/dash/turns': [`work of ${folder}`, `broken &lt;b&gt;${folder}`],
      '/dash/approvals': [folder === 'team' ? team.held : other.held],
      '/dash/costs': [`/dash/folders/${folder}`, '$0.90 of $1.00'],
      '/dash/costs?by=model': [`model of ${folder}`],
    })
    for (const path of paths) {
      const [all, own] = [await read(dash.operator, path), await read(dash.admin, path)]
      for (const text of ofFolder('team')[path as '/dash/'])
        assert.ok(all.includes(text) && own.includes(text), `${path}: ${text}`)
      for (const text of ofFolder('other')[path as '/dash/']) {
        assert.ok(all.includes(text), `${path}: ${text}`)
        if (!text.startsWith('$')) assert.ok(!own.includes(text), `${path} hides ${text}`)
      }
      const strange = await dash.stranger.get(path)
      assert.equal(strange.status, 404)
      assert.ok(!/team|other/.test(await strange.text()))
    }
    assert.match(await read(dash.operator, `/dash/turns/${other.failed}`), /broken &lt;b&gt;other/)
    assert.equal((await dash.admin.get(`/dash/turns/${other.failed}`)).status, 404)
    assert.equal((await dash.stranger.get(`/dash/turns/${team.failed}`)).status, 404)
    assert.equal((await dash.operator.get('/dash/turns/none')).status, 404)
    // What a running turn has cost so far.
    await dash.on.submit('team', {
      turn_id: team.running,
      models: [{ model: 'big', input_tokens: 1, output_tokens: 1, cost_cents: 7 }],
    })
    assert.match(await read(dash.admin, '/dash/'), /<time[^>]*>now<\/time>, \$0\.07 so far<\/span>/)
    // Who pays leads operators to the person, whose page others do not have.
    await dash.on.write((tx) => run(tx, `update turns set user_sub = 'github:7' where id = $1`, [team.running]))
    await dash.on.write((tx) => run(tx, `update daily_spend set user_sub = 'github:7' where folder = 'team'`))
    for (const path of [`/dash/turns/${team.running}`, '/dash/costs?by=user_sub']) {
      assert.ok((await read(dash.operator, path)).includes('href="/dash/person?sub=github%3A7"'), path)
      const own = await read(dash.admin, path)
      assert.ok(own.includes('github:7') && !own.includes('/dash/person'), path)
    }
    // Only operators decide on held calls.
    assert.ok((await read(dash.operator, '/dash/approvals')).includes('Approve'))
    assert.ok(!(await read(dash.admin, '/dash/approvals')).includes('value="approve"'))
  })

  test('stop a turn, decide held calls and allow a host, once', async (t) => {
    const dash = await openBusyDashboard(t)
    const { on, team, other } = dash
    const question = await press(dash.admin, '/dash/', 'stop', { id: team.running })
    assert.equal(question.status, 200)
    assert.match(await question.text(), /Stop turn /)
    assert.equal((await on.turn(team.running)).is_stopping, false)
    const stopped = await dash.admin.post('/dash/', { action: 'stop', id: team.running, confirmed: 'yes' })
    assert.equal(stopped.status, 303)
    assert.equal((await on.turn(team.running)).is_stopping, true)
    const refused = await dash.admin.post('/dash/turns', { action: 'stop', id: other.running, confirmed: 'yes' })
    assert.ok([403, 404].includes(refused.status))
    assert.equal((await on.turn(other.running)).is_stopping, false)
    assert.equal((await press(dash.operator, '/dash/', 'approve', { id: team.held })).status, 303)
    assert.equal((await press(dash.operator, '/dash/approvals', 'reject', { id: other.held })).status, 303)
    const statuses = await on.read(async (tx) =>
      (await pendingActions.list(tx)).map(({ folder, status }) => [folder, status]),
    )
    assert.deepEqual(statuses.toSorted(), [
      ['other', 'rejected'],
      ['team', 'approved'],
    ])
    const allowed = await press(dash.admin, '/dash/', 'allow', { folder: 'team', target: 'api.team.example' })
    assert.equal(allowed.status, 303)
    assert.ok(await on.read((tx) => networkRules.find(tx, { folder: 'team', target: 'api.team.example' })))
    assert.ok(!(await read(dash.admin, '/dash/')).includes('api.team.example'))
  })

  test('stop all running turns of a page, and leave those that have ended', async (t) => {
    const dash = await openBusyDashboard(t)
    const { team, other, on } = dash
    const ids = [other.running, team.running].join(' ')
    const asked = await press(dash.operator, '/dash/turns', 'stop_all', { ids })
    assert.match(await asked.text(), /Stop 2 turns\?/)
    await on.end(await on.turn(other.running))
    const confirmed = { action: 'stop_all', ids, confirmed: 'yes', form_key: 'k' }
    assert.equal((await dash.operator.post('/dash/turns', confirmed)).status, 303)
    assert.deepEqual(
      [(await on.turn(team.running)).is_stopping, (await on.turn(other.running)).is_stopping],
      [true, false],
    )
    assert.ok(!(await read(dash.admin, '/dash/turns')).includes('value="stop_all"'))
  })

  test('explain a wrong filter beside the filters, and lead from an old page to the first', async (t) => {
    const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    for (const [path, fault] of [
      ['/dash/turns?state=lost', /State must be one of running, retrying, done/],
      ['/dash/turns?folder=a%20b', /Folder must be names of letters/],
      ['/dash/costs?days=many', /Days must be/],
      ['/dash/costs?folder=a%20b', /Folder must be names of letters/],
      ['/dash/tasks?status=lost', /Status must be one of/],
      ['/dash/access?folder=a%20b', /Folder must be names of letters/],
      ['/dash/access?folder=team&principal=unknown', /Principal must look like/],
    ] as const) {
      const page = await read(dash.operator, path)
      assert.match(page, fault, path)
      assert.match(page, /<form id="[a-z]+-filters?" class="filters"/, path)
    }
    const old = await dash.operator.get('/dash/people?after=x')
    assert.equal(old.status, 400)
    assert.match(await old.text(), /<a class="button" href="\/dash\/people">First page<\/a>/)
  })

  test('export what needs attention, live turns and budgets near their cap', async (t) => {
    const dash = await openBusyDashboard(t)
    const load = async (browser: SignedInBrowser, path: string, list: string) =>
      (await (await browser.get(`${path}?format=json&list=${list}`)).json()) as Record<string, unknown>[]
    assert.ok((await read(dash.admin, '/dash/')).includes('/dash/?format=csv&amp;list=attention'))
    const found = await load(dash.admin, '/dash/', 'attention')
    assert.deepEqual(found.map(({ kind, folder }) => `${kind} ${folder}`).toSorted(), [
      'budget team',
      'denied host team',
      'failed message team',
      'held call team',
    ])
    const failed = found.find(({ kind }) => kind === 'failed message')
    assert.deepEqual([failed?.what, failed?.reason], [`${SCRIPT} of team`, 'broken <b>team</b>'])
    assert.match(String(failed?.time), /^20.*Z$/)
    assert.equal(found.find(({ kind }) => kind === 'denied host')?.what, 'api.team.example 2 times')
    const live = await load(dash.admin, '/dash/', 'live-turns')
    assert.deepEqual(
      live.map(({ turn, folder, text, cost }) => [turn, folder, text, cost]),
      [[dash.team.running, 'team', 'work of team', 0]],
    )
    assert.equal((await load(dash.operator, '/dash/', 'live-turns')).length, 2)
    const budgets = await load(dash.admin, '/dash/costs', 'near-budgets')
    assert.deepEqual(budgets, [{ by: 'folder', name: 'team', spent: 0.9, cap: 1, status: 'WARN' }])
    assert.equal((await dash.stranger.get('/dash/?format=json&list=attention')).status, 404)
  })

  test('filter turns, and export them with their costs', async (t) => {
    const dash = await openBusyDashboard(t)
    const page = await read(dash.operator, '/dash/turns?outcome=failed&folder=other')
    assert.ok(page.includes(dash.other.failed) && !page.includes(dash.team.failed))
    assert.ok(!page.includes(dash.other.running))
    const csv = await (await dash.operator.get('/dash/turns?format=csv')).text()
    assert.equal(csv.trimEnd().split('\r\n').length, 5)
    assert.match(csv, new RegExp(`,0\\.9,.*${dash.team.failed}`))
    assert.equal((await dash.admin.get('/dash/turns?folder=other')).status, 404)
  })

  test('say what to do next while there is nothing to show', async (t) => {
    const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    for (const [path, text] of [
      ['/dash/', 'Nothing needs your attention.'],
      ['/dash/turns', 'svc send test main'],
      ['/dash/approvals', 'No tool call waits for an approval.'],
      ['/dash/costs', 'svc model test'],
    ] as const)
      assert.ok((await read(dash.operator, path)).includes(text), path)
    // What was to be done when the page was opened may be done when its list is downloaded.
    for (const path of ['/dash/?list=attention', '/dash/?list=live-turns', '/dash/costs?list=near-budgets'])
      assert.equal(await (await dash.operator.get(`${path}&format=json`)).text(), '[]\n', path)
  })
})
