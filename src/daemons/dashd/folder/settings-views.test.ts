// The views tasks, routes, web, grants, secrets and network of a folder, and the pages Tasks and Proxy routes.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { suite, test } from 'node:test'
import { type Dashboard, serveDashboard, TEAM_ADMIN } from '../../../../test/support/dashboard.ts'
import { type SignedInBrowser, signIn } from '../../../../test/support/sign-in.ts'
import { recordDenials } from '../../../core/access/network-denials.ts'
import { audit } from '../../../registry/audit.ts'
import { aclResource } from '../../../resources/acl.ts'
import { groupsResource } from '../../../resources/groups.ts'
import { networkRulesResource } from '../../../resources/network-rules.ts'
import { proxydRoutesResource } from '../../../resources/proxyd-routes.ts'
import { routesResource } from '../../../resources/routes.ts'
import { scheduledTasksResource } from '../../../resources/scheduled-tasks.ts'
import { secretsResource } from '../../../resources/secrets.ts'
import { webRoutesResource } from '../../../resources/web-routes.ts'
import { drawIcon } from '../../../web/chat/icon.ts'

const HOSTILE = `"'><script>alert(1)</script>`
const viewPath = (view: string): string => `/dash/folders/team?view=${view}`

/** Posts a form as the page would, already confirmed. */
async function submit(browser: SignedInBrowser, path: string, fields: Record<string, string>): Promise<number> {
  return (await browser.post(path, { form_key: randomUUID(), confirmed: 'yes', ...fields })).status
}

/** Posts a form with a file as the page would. */
function sendFile(
  { base }: Dashboard,
  browser: SignedInBrowser,
  path: string,
  fields: Readonly<Record<string, string>> & { readonly action: string },
  file = new File([], ''),
): Promise<Response> {
  const body = new FormData()
  const all = { csrf: browser.csrf, form: fields.action, form_key: randomUUID(), ...fields }
  for (const [name, value] of Object.entries(all)) body.set(name, value)
  body.set('file', file)
  const headers = { Accept: 'text/html', Cookie: browser.cookie, Origin: base, 'Sec-Fetch-Site': 'same-origin' }
  return fetch(base + path, { method: 'POST', redirect: 'manual', headers, body })
}

async function bodyOf(browser: SignedInBrowser, path: string): Promise<string> {
  const response = await browser.get(path)
  const body = await response.text()
  assert.equal(response.status, 200, body)
  assert.ok(!body.includes('<script>alert'), `${path} escapes texts`)
  return body
}

async function mustBeHidden({ stranger, admin }: Dashboard, view: string): Promise<void> {
  assert.equal((await stranger.get(viewPath(view))).status, 404)
  assert.equal((await admin.get(viewPath(view).replace('team', 'other'))).status, 404)
}

suite('views of a folder', () => {
  test('the overview shows who the agent is, and changes its greeting, its starters and its picture', async (t) => {
    const dash = await serveDashboard(t)
    const path = viewPath('overview')
    const set = (key: string, to: string) => submit(dash.admin, path, { action: 'set', key, to })
    assert.equal(await set('greeting', `Hello ${HOSTILE}\r\nthere`), 303)
    assert.equal(await set('starters', 'What is new?\r\n\r\nPlan my week'), 303)
    assert.equal(await set('colour', '#FFEE00'), 303)
    assert.equal(await set('colour', 'red'), 400)
    const read = async () => dash.cli.call(groupsResource.verbs.identity, { folder: 'team' })
    const { greeting, starters, colour } = await read()
    assert.deepEqual([greeting, starters], [`Hello ${HOSTILE}\nthere`, ['What is new?', 'Plan my week']])
    assert.equal(colour, '#FFEE00')
    const page = await bodyOf(dash.admin, path)
    assert.match(page, /<rect width="34" height="34" fill="#FFEE00"\/>/)
    assert.match(page, /<textarea [^>]*>\n?What is new\?\nPlan my week<\/textarea>/)

    const picture = '/dash/pictures/team'
    assert.equal((await dash.admin.get(picture)).status, 404)
    const upload = (browser: SignedInBrowser, bytes: Uint8Array<ArrayBuffer>) =>
      sendFile(dash, browser, path, { action: 'upload_picture' }, new File([bytes], '../../x.html'))
    const png = drawIcon({ size: 64, isMaskable: false })
    assert.equal((await upload(dash.admin, new Uint8Array(png))).status, 303)
    assert.equal((await read()).picture, 'picture.png')
    assert.ok((await bodyOf(dash.admin, path)).includes(`<img src="${picture}" alt="">`))
    const served = await dash.admin.get(picture)
    assert.deepEqual([served.status, served.headers.get('Content-Type')], [200, 'image/png'])
    assert.deepEqual(Buffer.from(await served.arrayBuffer()), png)
    for (const bytes of [new TextEncoder().encode('<svg xmlns="http://www.w3.org/2000/svg"/>'), new Uint8Array()])
      assert.equal((await upload(dash.admin, bytes)).status, 400)
    const photo = await upload(dash.admin, new Uint8Array(5 * 1024 * 1024))
    assert.equal(photo.status, 400)
    const refused = await photo.text()
    assert.ok(refused.includes('New picture is larger than 256 KiB.'), refused)
    const places = ['form-set-picture', 'form-upload_picture', 'form-set-colour'].map((id) =>
      refused.indexOf(`id="${id}"`),
    )
    assert.deepEqual(
      places.toSorted((a, b) => a - b),
      places,
    )
    assert.ok((await upload(dash.stranger, new Uint8Array(png))).status === 404)
    assert.equal((await dash.stranger.get(picture)).status, 404)
    assert.equal((await fetch(dash.base + picture)).status, 404)
  })

  test('tasks are created, run, paused, changed and deleted', async (t) => {
    const dash = await serveDashboard(t)
    const path = viewPath('tasks')
    await mustBeHidden(dash, 'tasks')
    const { list_of } = scheduledTasksResource.verbs
    const task = { action: 'create', targetJid: 'team', prompt: `{"a": 1} ${HOSTILE}`, cron: '0 9 * * *' }
    assert.equal(await submit(dash.admin, path, task), 303)
    assert.equal(await submit(dash.admin, path, { ...task, targetJid: 'other' }), 403)
    assert.equal(await submit(dash.admin, path, { ...task, cron: 'never' }), 400)
    const read = async () =>
      (await dash.cli.call(list_of, { folder: 'team' })).tasks.find(({ prompt }) => /alert|New/.test(prompt))
    const id = (await read())?.id ?? ''
    assert.ok((await bodyOf(dash.admin, path)).includes(id))
    assert.equal(await submit(dash.admin, path, { action: 'run', id }), 303)
    assert.equal(await submit(dash.admin, path, { action: 'pause', id }), 303)
    assert.equal((await read())?.status, 'paused')
    assert.ok((await read())?.last_run)
    assert.equal(await submit(dash.admin, path, { action: 'resume', id }), 303)
    const changed = { action: 'change', id, prompt: 'New', cron: '0 8 * * *', context_mode: 'isolated' }
    assert.equal(await submit(dash.admin, path, changed), 303)
    const { prompt, cron, context_mode } = (await read()) ?? {}
    assert.deepEqual([prompt, cron, context_mode], ['New', '0 8 * * *', 'isolated'])
    assert.ok((await bodyOf(dash.admin, `/dash/tasks?task=${id}`)).includes('Last runs'))
    assert.equal((await dash.stranger.get('/dash/tasks')).status, 404)
    const foreign = await dash.cli.call(scheduledTasksResource.verbs.schedule, {
      targetJid: 'other',
      prompt: 'Hidden.',
    })
    assert.ok(!(await bodyOf(dash.admin, '/dash/tasks')).includes('Hidden.'))
    assert.ok((await bodyOf(dash.operator, '/dash/tasks')).includes('Hidden.'))
    assert.ok(!(await bodyOf(dash.operator, '/dash/tasks?folder=team')).includes('Hidden.'))
    assert.match(await bodyOf(dash.operator, '/dash/tasks?folder=other&status=paused'), /No task matches/)
    assert.equal((await dash.admin.get(`/dash/tasks?task=${foreign.taskId}`)).status, 404)
    assert.equal(await submit(dash.admin, '/dash/tasks', { action: 'remove', id: foreign.taskId }), 404)
    assert.equal(await submit(dash.admin, path, { action: 'remove', id }), 303)
    assert.equal(await read(), undefined)
  })

  test('routes are added, moved, changed and deleted', async (t) => {
    const dash = await serveDashboard(t)
    const path = viewPath('routes')
    await mustBeHidden(dash, 'routes')
    const read = async () => (await dash.cli.call(routesResource.verbs.of_folder, { folder: 'team' })).routes
    for (const match of ['', 'room=b'])
      assert.equal(await submit(dash.admin, path, { action: 'add', match, target: 'team', seq: '0' }), 303)
    assert.equal(await submit(dash.admin, path, { action: 'add', match: 'room=c', target: 'other' }), 403)
    assert.match(
      await bodyOf(dash.admin, path),
      /has no effect.*route \d+ \(everything to team\), which is tried first/,
    )
    const [all, b] = await read()
    assert.equal(await submit(dash.admin, path, { action: 'move', id: String(b?.id), to: 'up' }), 303)
    assert.deepEqual(
      (await read()).map(({ match }) => match),
      ['room=b', ''],
    )
    const change = { action: 'change', id: String(b?.id), match: '', target: 'team#observe', seq: '7' }
    assert.equal(await submit(dash.admin, path, change), 303)
    assert.deepEqual(
      (await read()).map(({ target, seq }) => `${target} ${seq}`),
      ['team 0', 'team#observe 7'],
    )
    assert.equal(await submit(dash.admin, path, { action: 'remove', id: String(all?.id) }), 303)
    assert.equal((await read()).length, 1)
  })

  test('web routes are added, changed and deleted', async (t) => {
    const dash = await serveDashboard(t)
    const path = viewPath('web')
    await mustBeHidden(dash, 'web')
    const route = { path_prefix: '/pub/team/x', folder: 'team' }
    assert.equal(await submit(dash.admin, path, { action: 'add', ...route, access: 'public' }), 303)
    assert.equal(
      await submit(dash.admin, path, { action: 'add', path_prefix: '/pub/other/x', folder: 'other', access: 'deny' }),
      403,
    )
    assert.ok((await bodyOf(dash.admin, path)).includes('Everyone may see it.'))
    assert.equal(
      await submit(dash.admin, path, { action: 'change', path_prefix: route.path_prefix, access: 'auth' }),
      303,
    )
    const read = async () => (await dash.cli.call(webRoutesResource.verbs.of_folder, { folder: 'team' })).routes
    assert.deepEqual(
      (await read()).map(({ access }) => access),
      ['auth'],
    )
    assert.equal(await submit(dash.admin, path, { action: 'remove', path_prefix: route.path_prefix }), 303)
    assert.deepEqual(await read(), [])
  })

  test('files are published from the machine of the person or as a text, served, and deleted', async (t) => {
    const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    const path = viewPath('web')
    const send = (browser: SignedInBrowser, fields: Readonly<Record<string, string>>, file?: File) =>
      sendFile(dash, browser, path, { action: 'publish', slot: 'pub', ...fields }, file)
    const bytes = Buffer.from([0, 255, 13, 10, 128])
    assert.match(await bodyOf(dash.admin, path), /<form id="form-publish"[^>]* enctype="multipart\/form-data">/)
    assert.equal((await send(dash.admin, {}, new File([bytes], 'data.bin'))).status, 303)
    const served = await fetch(`${dash.base}/pub/team/data.bin`)
    assert.deepEqual(Buffer.from(await served.arrayBuffer()), bytes)
    const text = { text: '<h1>Hello</h1>\r\n', name: 'docs/index.html', slot: 'priv' }
    assert.equal((await send(dash.admin, text)).status, 303)
    assert.equal(await (await dash.admin.get('/priv/team/docs/')).text(), '<h1>Hello</h1>\n')
    assert.equal((await fetch(`${dash.base}/priv/team/docs/`)).status, 401)
    const body = await bodyOf(dash.admin, path)
    assert.match(body, /href="\/pub\/team\/data\.bin"/)
    assert.match(body, /people who may talk to the folder/)
    for (const [fields, fault] of [
      [{}, /Choose a file, or write a text/],
      [{ text: 'x' }, /Name is needed for a text/],
      [{ text: 'kept text', name: '../up' }, /must not have a part that begins with/],
      [{ text: 'x', name: 'a', slot: 'all' }, /must be pub or priv/],
    ] as const) {
      const refused = await send(dash.admin, fields)
      assert.equal(refused.status, 400)
      const shown = await refused.text()
      assert.match(shown, fault)
      if ('name' in fields && fields.text !== 'x') assert.match(shown, />\nkept text<\/textarea>/)
    }
    assert.equal((await send(dash.admin, { text: 'x' }, new File(['y'], 'y'))).status, 400)
    assert.equal((await send(dash.admin, {}, new File([Buffer.alloc(9 * 2 ** 20)], 'large'))).status, 413)
    assert.equal((await send(dash.stranger, { text: 'x', name: 'a' })).status, 404)
    assert.equal((await send({ ...dash.admin, csrf: 'wrong' }, { text: 'x', name: 'a' })).status, 403)
    const out = await send({ ...dash.admin, cookie: '' }, { text: 'x', name: 'a' })
    assert.match(out.headers.get('Location') ?? '', /^\/auth\/sign-in\?next=/)
    const { files = [] } = await dash.cli.call(webRoutesResource.verbs.of_folder, { folder: 'team' })
    assert.deepEqual(
      files.map(({ path: at }) => at),
      ['/pub/team/data.bin', '/priv/team/docs/index.html'],
    )
    const remove = { action: 'unpublish', folder: 'team', slot: 'pub', name: 'data.bin' }
    assert.match(await (await dash.admin.post(path, remove)).text(), /Delete the published file data\.bin\?/)
    assert.equal(await submit(dash.admin, path, { ...remove, confirmed: 'yes' }), 303)
    assert.equal((await fetch(`${dash.base}/pub/team/data.bin`)).status, 404)
  })

  test('grants are given and taken back, with a warning about the last administrator', async (t) => {
    const dash = await serveDashboard(t)
    const path = viewPath('grants')
    await mustBeHidden(dash, 'grants')
    const grant = { principal: 'github:7', scope: 'team', effect: 'allow' }
    assert.ok(
      (await bodyOf(dash.admin, path)).includes(`${TEAM_ADMIN} may do everything in team and all folders below it.`),
    )
    const read = async () => (await dash.cli.call(aclResource.verbs.of_folder, { folder: 'team' })).grants
    assert.equal(await submit(dash.admin, path, { ...grant, right: 'interact', action: 'grant' }), 303)
    assert.ok((await read()).some(({ meaning }) => meaning === 'github:7 may talk to team.'))
    assert.equal(await submit(dash.admin, path, { ...grant, scope: 'other', right: 'admin', action: 'grant' }), 403)
    assert.equal(await submit(dash.admin, path, { ...grant, right: 'interact', action: 'ungrant', sure: 'yes' }), 303)
    assert.ok(!(await read()).some(({ principal }) => principal === 'github:7'))
    const ask = async (fields: Record<string, string>): Promise<string> =>
      (await dash.operator.post(path, { ...fields, effect: 'allow', action: 'ungrant', form_key: randomUUID() })).text()
    const own = { principal: TEAM_ADMIN, right: '*', scope: 'team' }
    await submit(dash.operator, path, { ...own, scope: 'team/**', action: 'ungrant', sure: 'yes' })
    assert.match(await ask(own), /Take back \* on team from [^?]*\?.*This removes the last administrator of team/s)
    const everything = await ask({ principal: 'role:operator', right: '*', scope: '**' })
    assert.match(everything, /This concerns all folders of \*\*, not only team\..*This removes the last operator/s)
    assert.equal((await read()).length > 1, true, 'asks first')
    const listed = await bodyOf(dash.operator, path)
    assert.ok(listed.indexOf(TEAM_ADMIN) < listed.indexOf('role:operator'), 'rows of the folder come first')
  })

  test('grants lead to an own page when people take back their own right', async (t) => {
    const dash = await serveDashboard(t)
    await dash.grant('github:one', 'admin', 'team')
    const fields = { principal: 'github:one', right: 'admin', scope: 'team', sure: 'yes' }
    const answer = await (await signIn(dash, 'github:one')).post(viewPath('grants'), {
      ...{ ...fields, action: 'ungrant', form_key: randomUUID() },
    })
    assert.deepEqual([answer.status, answer.headers.get('Location')], [303, '/dash/me'])
  })

  test('secrets are set and deleted, and their values are nowhere', async (t) => {
    const dash = await serveDashboard(t)
    const path = viewPath('secrets')
    await mustBeHidden(dash, 'secrets')
    const value = '{"key": "top-secret"}'
    assert.equal(await submit(dash.admin, path, { action: 'set', owner: 'team', key: 'API_TOKEN', value }), 303)
    assert.equal(await submit(dash.admin, path, { action: 'set', owner: 'other', key: 'API_TOKEN', value }), 403)
    const refused = await dash.admin.post(path, {
      action: 'set',
      form_key: 'y',
      owner: 'team',
      key: 'not a name',
      value,
    })
    assert.equal(refused.status, 400)
    const body = await bodyOf(dash.admin, path)
    assert.ok(body.includes('API_TOKEN'))
    const rows = await dash.host.engine.read((tx) => audit.list(tx))
    for (const text of [body, await refused.text(), JSON.stringify(rows)]) assert.ok(!text.includes('top-secret'))
    const key = { scope_kind: 'folder', owner: 'team' }
    assert.equal(await submit(dash.admin, path, { action: 'remove', ...key, key: 'API_TOKEN' }), 303)
    assert.deepEqual((await dash.cli.call(secretsResource.verbs.list_of, key)).secrets, [])
  })

  test('a denied host is allowed with one click, and the rule removed', async (t) => {
    const dash = await serveDashboard(t)
    const path = viewPath('network')
    await mustBeHidden(dash, 'network')
    const at = '2026-01-01T00:00:00.000Z'
    const denial = { folder: 'team', port: 443, reason: 'blocked-by-allowlist', count: 3, at }
    await dash.host.engine.transaction((tx) =>
      recordDenials(tx, [
        { ...denial, host: 'api.example.com' },
        { ...denial, host: HOSTILE },
      ]),
    )
    assert.match(await bodyOf(dash.admin, path), /aria-label="Allow api\.example\.com"/)
    assert.equal(await submit(dash.admin, path, { action: 'allow', folder: 'team', target: 'api.example.com' }), 303)
    assert.equal(await submit(dash.admin, path, { action: 'allow', folder: 'other', target: 'api.example.com' }), 403)
    assert.match(await bodyOf(dash.admin, path), /allowed now/)
    const hosts = async () => (await dash.cli.call(networkRulesResource.verbs.resolve, { folder: 'team' })).hosts
    assert.ok((await hosts()).includes('api.example.com'))
    assert.equal(await submit(dash.admin, path, { action: 'remove', folder: 'team', target: 'api.example.com' }), 303)
    assert.ok(!(await hosts()).includes('api.example.com'))
  })
})

test('proxy routes are for operators', async (t) => {
  const dash = await serveDashboard(t)
  const path = '/dash/proxy-routes'
  for (const browser of [dash.admin, dash.stranger]) {
    assert.equal((await browser.get(path)).status, 404)
    assert.equal(await submit(browser, path, { action: 'remove', path: '/app/' }), 404)
  }
  const route = { path: '/app/', backend: 'http://127.0.0.1:9', auth: 'user', preserve_headers: 'X-A, X-B' }
  assert.equal(await submit(dash.operator, path, { action: 'add', ...route, strip_prefix: 'true' }), 303)
  assert.equal(await submit(dash.operator, path, { action: 'add', path: '/both/', auth: 'user' }), 400)
  const body = await bodyOf(dash.operator, path)
  assert.ok(
    body.includes(
      'Is served by http://127.0.0.1:9, without the prefix of the path, with the headers X-A, X-B of the client.',
    ),
  )
  assert.equal(await submit(dash.operator, path, { action: 'change', ...route, auth: 'public' }), 303)
  const read = async () => (await dash.cli.call(proxydRoutesResource.verbs.list, {})).proxyd_routes
  assert.deepEqual(
    (await read()).map(({ auth, strip_prefix }) => [auth, strip_prefix]),
    [['public', false]],
  )
  assert.equal(await submit(dash.operator, path, { action: 'remove', path: '/app/' }), 303)
  assert.deepEqual(await read(), [])
})
