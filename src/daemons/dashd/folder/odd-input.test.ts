// Wrong input in the forms of a folder: a sentence at the field, in the words of the form, and nothing is changed.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { suite, test } from 'node:test'
import { type Dashboard, serveDashboard } from '../../../../test/support/dashboard.ts'
import { mustReadForm, readForms } from '../../../../test/support/dashboard-forms.ts'
import { type SignedInBrowser, signIn } from '../../../../test/support/sign-in.ts'
import { run } from '../../../../test/support/sql.ts'
import { aclResource } from '../../../resources/acl.ts'
import { groupsResource } from '../../../resources/groups.ts'
import { routesResource } from '../../../resources/routes.ts'
import { scheduledTasksResource } from '../../../resources/scheduled-tasks.ts'
import { webHostsResource } from '../../../resources/web-hosts.ts'
import { folderPath } from '../page.ts'
import { folderViews } from './index.ts'

/** Administers the folder `team`, but none below it. */
const ADMIN_OF_ONE = 'github:one'

interface OddInput {
  readonly view: string
  readonly form: string
  readonly typed: Readonly<Record<string, string>>
  /** The field with the sentence. */
  readonly field: string
  readonly sentence: string
  /** Default: 400. */
  readonly status?: number
}

const LABEL = 'must be 1 to 64 letters, digits, &quot;_&quot; or &quot;-&quot;.'
const ODD: readonly OddInput[] = [
  ...[
    ['set-name', 'a\u0001b', 'Name must not contain control characters.'],
    ['set-observe_window_messages', 'many', 'Observed messages must be a whole number, 0 or more.'],
    ['set-observe_window_chars', '-1', 'Observed characters must be a whole number, 0 or more.'],
  ].map(([form = '', to = '', sentence = '']) => ({ view: 'overview', form, typed: { to }, field: 'to', sentence })),
  { view: 'links', form: 'chat', typed: { jid_suffix: 'a b' }, field: 'jid_suffix', sentence: `Suffix ${LABEL}` },
  { view: 'links', form: 'webhook', typed: { source_label: 'ü' }, field: 'source_label', sentence: `Source ${LABEL}` },
  {
    ...{ view: 'links', form: 'webhook', typed: { source_label: 'shop', verify: 'github' }, field: 'verify_secret' },
    sentence: 'Secret of the signature must not be empty.',
  },
  {
    ...{ view: 'links', form: 'webhook', typed: { source_label: 'shop', verify: 'hmac' }, field: 'verify_header' },
    sentence: 'Header of the signature must not be empty.',
  },
  {
    ...{ view: 'tasks', form: 'create', typed: { targetJid: 'team', prompt: ' ' }, field: 'prompt' },
    sentence: 'Prompt must not be empty.',
  },
  {
    ...{ view: 'tasks', form: 'create', typed: { prompt: 'Go.', cron: '2001-01-01T00:00:00Z' }, field: 'cron' },
    sentence: 'Schedule is in the past. Choose a later time, or leave the schedule empty.',
  },
  {
    ...{ view: 'tasks', form: 'create', typed: { prompt: 'Go.', cron: 'soon' }, field: 'cron' },
    sentence:
      'Invalid cron &quot;soon&quot;: it must be five cron fields, a whole number of milliseconds, or an RFC 3339 time.',
  },
  { view: 'routes', form: 'add', typed: { seq: 'x' }, field: 'seq', sentence: 'Seq must be a whole number.' },
  { view: 'web', form: 'add', typed: { path_prefix: 'a' }, field: 'path_prefix', sentence: 'Path must start with /.' },
  {
    ...{ view: 'web', form: 'bind', typed: { hostname: 'https://shop.example.com/' }, field: 'hostname' },
    sentence:
      'Host name must be a host name of a-z, 0-9, &quot;.&quot; and &quot;-&quot;, such as team.example.com, optionally with a port.',
  },
  {
    ...{ view: 'web', form: 'bind', typed: { hostname: 'taken.example.com' }, field: 'hostname' },
    ...{ sentence: 'The host name taken.example.com is bound to other already.', status: 409 },
  },
  {
    ...{ view: 'grants', form: 'grant', typed: { principal: 'ada' }, field: 'principal' },
    sentence: 'The principal &quot;ada&quot; is neither ** nor namespace:name, such as github:42 or folder:team.',
  },
  {
    ...{ view: 'links', form: 'chat', typed: { target_folder: 'nowhere' }, field: 'target_folder' },
    ...{ sentence: 'There is no group nowhere.', status: 404 },
  },
  {
    ...{
      view: 'links',
      form: 'webhook',
      field: 'verify_header',
      sentence: 'Header of the signature must be a name such as X-Signature.',
    },
    typed: { source_label: 'shop', verify: 'hmac', verify_header: 'a b', verify_secret: '' },
  },
  {
    ...{ view: 'tasks', form: 'create', typed: { targetJid: 'nowhere', prompt: 'Go.' }, field: 'targetJid' },
    ...{ sentence: 'No group is registered for nowhere.', status: 404 },
  },
  {
    ...{ view: 'routes', form: 'add', typed: { match: 'room=1', target: 'nowhere' }, field: 'target' },
    ...{ sentence: 'There is no group nowhere.', status: 404 },
  },
  {
    ...{ view: 'routes', form: 'add', typed: { match: 'foo=bar' }, field: 'match' },
    sentence: 'Match has the unknown key &quot;foo&quot;. Keys are platform, room, chat_jid, sender, verb.',
  },
  {
    ...{ view: 'secrets', form: 'set', typed: { key: 'token', value: '' }, field: 'key' },
    sentence: 'Name must be capital letters, digits and &quot;_&quot;, starting with a letter, such as API_KEY.',
  },
  {
    ...{ view: 'children', form: 'create_child', typed: { leaf: 'sub' }, field: 'leaf' },
    ...{ sentence: 'There is a group team/sub already.', status: 409 },
  },
  {
    ...{ view: 'budget', form: 'set_budget', typed: { dollars: '1,50' }, field: 'dollars' },
    sentence: 'Dollars per day must be an amount such as 5 or 2.50.',
  },
  {
    ...{ view: 'children', form: 'create_child', typed: { leaf: 'a b' }, field: 'leaf' },
    sentence:
      'Folder must be names of letters, digits, &quot;.&quot;, &quot;_&quot; and &quot;-&quot; joined by &quot;/&quot;, each starting with a letter or digit.',
  },
]

/** Enough for every form that it is carried out, if its folder exists. */
const TYPED = {
  ...{ typed: 'team/gone', leaf: 'x', source_label: 'x', prompt: 'x', principal: 'github:3', key: 'X', value: 'x' },
  ...{ target: 'team/gone', path_prefix: '/pub/team/gone/', dollars: '3', child: 'x' },
}

async function countChanges({ host }: Dashboard): Promise<number> {
  const { rows } = await host.engine.read((tx) =>
    run(tx, `select count(*) as n from audit where category = 'mutation'`),
  )
  return Number(rows[0]?.n)
}

async function pageOf(browser: SignedInBrowser, path: string): Promise<string> {
  const response = await browser.get(path)
  assert.equal(response.status, 200, path)
  return response.text()
}

suite('forms of a folder', () => {
  test('say at the field what is wrong, keep what was typed and change nothing', async (t) => {
    const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    await dash.cli.call(webHostsResource.verbs.bind, { hostname: 'taken.example.com', folder: 'other' })
    const before = await countChanges(dash)
    const faults: string[] = []
    for (const { view, form, typed, field, sentence, status = 400 } of ODD) {
      const path = folderPath('team', view)
      const { fields } = mustReadForm(await pageOf(dash.operator, path), ({ id }) => id === `form-${form}`, form)
      const answer = await dash.operator.post(path, { ...fields, ...typed })
      const body = await answer.text()
      const again = mustReadForm(body, ({ id }) => id === `form-${form}`, form)
      const isKept = Object.entries(typed).every(([name, value]) => again.fields[name] === value)
      const isPlaced = body.includes(`<small id="form-${form}-${field}-fault" class="field-fault">${sentence}</small>`)
      if (answer.status !== status || !isPlaced || !isKept)
        faults.push(`${form} ${field}: ${answer.status}, ${isKept}, ${/notice fault.*?<\/div>/s.exec(body)}`)
    }
    assert.deepEqual(faults, [])
    assert.equal(await countChanges(dash), before)
  })

  test('change a route without a number, and keep its place', async (t) => {
    const { cli, admin } = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    const { id } = await cli.call(routesResource.verbs.create, { seq: 4, match: 'room=1', target: 'team' })
    const path = `${folderPath('team', 'routes')}&route=${id}`
    const { fields } = mustReadForm(await pageOf(admin, path), (form) => form.id === 'form-change', 'change')
    const changed = await admin.post(path, { ...fields, match: ' room=2 ', seq: '' })
    assert.equal(changed.status, 303, await changed.text())
    const { routes } = await cli.call(routesResource.verbs.of_folder, { folder: 'team' })
    assert.deepEqual(
      routes.map(({ seq, match }) => [seq, match]),
      [[4, 'room=2']],
    )
  })

  test('are not shown to an administrator of whom a row takes the right, nor are scopes beyond their folder', async (t) => {
    const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    await dash.grant(ADMIN_OF_ONE, 'admin', 'team')
    const one = await signIn(dash, ADMIN_OF_ONE)
    const grants = mustReadForm(
      await pageOf(one, folderPath('team', 'grants')),
      ({ id }) => id === 'form-grant',
      'grant',
    )
    assert.ok(!(await pageOf(one, folderPath('team'))).includes('Set a budget'))
    assert.ok((await pageOf(dash.operator, folderPath('team'))).includes('Set a budget'))
    const offered = await pageOf(one, folderPath('team', 'grants'))
    assert.ok(!offered.includes('value="team/**"'), 'a scope that would be refused')
    const granted = await one.post(folderPath('team', 'grants'), { ...grants.fields, principal: ' github:8 ' })
    assert.equal(granted.status, 303, await granted.text())
    for (const [view, form, typed, sentence] of [
      ['links', 'chat', { target_folder: 'other' }, /target_folder-fault" class="field-fault">Not permitted on other /],
      [
        'grants',
        'grant',
        { principal: 'github:8', right: 'adminn' },
        /Right must be interact, admin or mcp:&lt;tool&gt;/,
      ],
    ] as const) {
      const page = await pageOf(one, folderPath('team', view))
      const { fields } = mustReadForm(page, ({ id }) => id === `form-${form}`, form)
      assert.match(await (await one.post(folderPath('team', view), { ...fields, ...typed })).text(), sentence)
    }
    const forms = [
      ['links', 'chat', 'issue_chat_link'],
      ['links', 'webhook', 'issue_webhook'],
      ['tasks', 'create', 'schedule_task'],
      ['routes', 'add', 'add_route'],
      ['web', 'add', 'web_routes.create'],
      ['secrets', 'set', 'secrets.create'],
      ['grants', 'grant', 'acl.grant'],
    ] as const
    const shown = async () => {
      const pages = await Promise.all(forms.map(([view]) => pageOf(one, folderPath('team', view))))
      return forms.filter(([, form], at) => pages[at]?.includes(`<form id="form-${form}"`)).map(([, form]) => form)
    }
    assert.equal((await shown()).length, forms.length)
    for (const [, , tool] of forms)
      await dash.cli.call(aclResource.verbs.grant, {
        ...{ principal: ADMIN_OF_ONE, action: `mcp:${tool}`, scope: 'team', effect: 'deny' },
      })
    assert.deepEqual(await shown(), [])
  })

  test('give a new child folder to an administrator of the folder above it, but not what an earlier one left', async (t) => {
    const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    await dash.grant(ADMIN_OF_ONE, 'admin', 'team')
    const one = await signIn(dash, ADMIN_OF_ONE)
    const create = async (leaf: string) => {
      const path = folderPath('team', 'children')
      const { fields } = mustReadForm(await pageOf(one, path), ({ id }) => id === 'form-create_child', 'create_child')
      return one.post(path, { ...fields, leaf })
    }
    const created = await create('fresh')
    assert.deepEqual([created.status, created.headers.get('Location')], [303, '/dash/folders/team/fresh'])
    assert.match(await pageOf(one, '/dash/folders/team/fresh'), /<h1>team\/fresh<\/h1>/)
    assert.equal((await one.get('/dash/folders/team/sub')).status, 404)
    await dash.operator.post('/dash/folders', { action: 'create', form_key: randomUUID(), folder: 'team/old' })
    await dash.cli.call(groupsResource.verbs.remove, { folder: 'team/old' })
    const refused = await create('old')
    assert.equal(refused.status, 409)
    assert.match(await refused.text(), /The folder team\/old existed before, and you do not administer it/)
    await assert.rejects(dash.cli.call(groupsResource.verbs.show, { folder: 'team/old' }), /there is no group/)
    const again = { action: 'create', form_key: randomUUID(), folder: 'team/old' }
    assert.equal((await dash.operator.post('/dash/folders', again)).status, 303)
  })

  test('of a folder that was removed meanwhile say so, and change nothing', async (t) => {
    const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    await dash.groups('team/gone')
    const forms = await Promise.all(
      folderViews.map(async ({ name }) => ({ name, body: await pageOf(dash.admin, folderPath('team/gone', name)) })),
    )
    await dash.operator.post(folderPath('team/gone', 'remove'), {
      ...{ action: 'remove', form: 'remove', form_key: randomUUID(), typed: 'team/gone', purge: 'true' },
    })
    const before = await countChanges(dash)
    for (const { name, body } of forms)
      for (const { to, fields } of readForms(body).filter((form) => 'csrf' in form.fields)) {
        const answer = await dash.admin.post(to, { ...fields, ...TYPED, confirmed: 'yes' })
        assert.equal(answer.status, 404, `${name} ${fields.action}`)
        assert.match(
          await answer.text(),
          /Nothing was changed: there is nothing here any more, or you may not see it\./,
        )
      }
    assert.equal(await countChanges(dash), before)
  })

  test('of a task that was deleted meanwhile say so, and show the text that was typed', async (t) => {
    const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    const { schedule, delete: remove } = scheduledTasksResource.verbs
    const { taskId: id } = await dash.cli.call(schedule, { targetJid: 'team', prompt: 'Look.', cron: '0 9 * * *' })
    const path = `${folderPath('team', 'tasks')}&task=${id}`
    const { fields } = mustReadForm(await pageOf(dash.admin, path), (form) => form.id === 'form-change', 'change')
    await dash.cli.call(remove, { id })
    const prompt = 'A long <prompt> that took much time to write.'
    const answer = await dash.admin.post(path, { ...fields, prompt })
    const body = await answer.text()
    assert.equal(answer.status, 404)
    assert.match(body, /Nothing was changed: there is nothing here any more.*A long &lt;prompt&gt; that took/s)
    const pause = { action: 'pause', form: 'pause', form_key: randomUUID(), id }
    const stopped = await dash.admin.post(folderPath('team', 'tasks'), pause)
    assert.match(await stopped.text(), /class="notice fault" role="alert">[^<]*(?:no task|does not exist)/)
  })
})
