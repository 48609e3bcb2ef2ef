import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { type Dashboard, serveDashboard, TEAM_ADMIN } from '../../../test/support/dashboard.ts'
import { mustReadForm } from '../../../test/support/dashboard-forms.ts'
import { type SignedInBrowser, signIn } from '../../../test/support/sign-in.ts'
import { groups } from '../../core/groups/groups.ts'
import { recordInbound } from '../../core/messages/inbound.ts'
import { writeContextOf } from '../../core/turns/rounds.ts'
import { openLog } from '../../lib/log/log.ts'
import { Refusal } from '../../lib/refusal.ts'
import { groupsResource } from '../../resources/groups.ts'
import { resources } from '../../resources/index.ts'
import { defineTable } from '../../web/dash/table.ts'
import { html } from '../../web/html.ts'
import { defineDaemon, openDaemon } from '../daemon.ts'
import { openPeers } from '../http/peers.ts'
import { storeHealthCheck } from '../process/store-health.ts'
import { LiveUpdates } from './live-updates.ts'
import { type DashPage, definePage } from './page.ts'
import { mountPages } from './page-requests.ts'

const groupsPage = definePage({
  path: '/dash/test',
  title: 'Groups',
  nav: 'work',
  actions: {
    cap: { verb: groupsResource.verbs.set_budget, done: 'Cap set.' },
    remove: {
      verb: groupsResource.verbs.remove,
      done: 'Group removed.',
      confirm: ({ folder }) => `Remove ${folder}?`,
      to: () => '/dash/elsewhere',
    },
    set: { verb: groupsResource.verbs.set, done: 'Changed.' },
    fail: { run: () => Promise.reject(new Error('a secret detail')) },
    reveal: { run: async () => ({ title: 'Token', main: html`<code>a secret token</code>` }) },
  },
  show: async (view) => {
    const { groups, next } = await view.call(groupsResource.verbs.list, {
      limit: view.query.limit === undefined ? 2 : view.limit,
      ...(view.query.after === undefined ? {} : { after: view.query.after }),
    })
    return {
      title: 'Groups',
      top: view.form({
        action: 'cap',
        submit: 'Set',
        fields: [
          { name: 'folder', label: 'Folder', isRequired: true },
          { name: 'daily', label: 'Cents', kind: 'number', isRequired: true },
        ],
      }),
      main: view.list({
        id: 'caps',
        caption: 'Caps',
        rows: groups,
        columns: [{ label: 'Folder', cell: ({ folder }) => html`<a href="/dash/">${folder}</a>` }],
        rowId: ({ folder }) => folder,
        empty: { text: 'There are no caps.' },
      }),
      table: defineTable({
        id: 'groups',
        caption: 'Groups',
        rows: groups,
        columns: [
          { label: 'Folder', cell: ({ folder }) => folder },
          { label: 'Display name', cell: ({ name }) => html`<b>${name}</b>`, value: ({ name }) => name },
          { label: 'Cap', cell: ({ cost_cap_cents_per_day: cap }) => cap, isNumber: true },
        ],
        rowId: ({ folder }) => folder,
        rowActions: ({ folder }) => view.button({ action: 'remove', text: 'Remove', fixed: { folder } }),
        empty: { text: 'There are no groups.' },
        next,
      }),
      isLive: true,
    }
  },
})

const operatorsPage = definePage({
  path: '/dash/operators',
  title: 'For operators',
  nav: 'system',
  isShown: ({ isOperator }) => isOperator,
  show: async () => ({ title: 'For operators' }),
})

const slowPage = (work: () => Promise<void>) =>
  definePage({
    path: '/dash/slow',
    title: 'Slow',
    isShown: ({ isOperator }) => isOperator,
    progress: 'Counting…',
    show: async () => {
      await work()
      return { title: 'Slow', main: html`<b>counted</b>` }
    },
  })

interface TestPages extends Omit<Dashboard, 'ask' | 'logged'> {
  logged(): string[]
  ask(as: SignedInBrowser | undefined, path: string, init?: RequestInit): Promise<Response>
  submit(
    as: SignedInBrowser,
    fields: Record<string, string>,
    headers?: Record<string, string>,
    query?: string,
  ): Promise<Response>
}

async function servePages(
  t: TestContext,
  pages: readonly DashPage[] = [groupsPage, operatorsPage],
): Promise<TestPages> {
  const dash = await serveDashboard(t)
  const { host } = dash
  const live = new LiveUpdates(host)
  const lines: string[] = []
  t.after(() => live.close())
  const { app, close } = await openDaemon(
    defineDaemon({
      name: 'dashd',
      about: 'pages of this test',
      start: (daemon) => mountPages(daemon.app, { daemon, live, pages }),
    }),
    {
      ...{ host, resources, sources: [], log: await openLog({ to: { write: (line) => lines.push(line) } }) },
      peers: openPeers(new Map(), new Map()).peers,
      health: storeHealthCheck(host),
      stopping: new AbortController().signal,
    },
  )
  t.after(() => close())
  const ask: TestPages['ask'] = async (as, path, init = {}) =>
    app.request(dash.base + path, {
      ...init,
      headers: {
        Accept: 'text/html',
        Host: new URL(dash.base).host,
        ...(as ? { Cookie: as.cookie } : {}),
        ...init.headers,
      },
    })
  const submit: TestPages['submit'] = (as, fields, headers = {}, query = '') =>
    ask(as, `/dash/test${query}`, {
      method: 'POST',
      headers: { Origin: dash.base, 'Content-Type': 'application/x-www-form-urlencoded', ...headers },
      body: new URLSearchParams({ csrf: as.csrf, ...fields }).toString(),
    })
  return { ...dash, ask, submit, logged: () => lines }
}

const capOf = async ({ cli }: Pick<Dashboard, 'cli'>, folder: string) =>
  (await cli.call(groupsResource.verbs.budget, { folder })).cap

const setCap = { action: 'cap', form: 'cap', form_key: 'k1', folder: 'team/sub', daily: '70' }

suite('a page of the dashboard', () => {
  test('sends people without a session to the sign-in page, and back afterwards', async (t) => {
    const { ask } = await servePages(t)
    const response = await ask(undefined, '/dash/test?after=x')
    assert.equal(response.status, 303)
    assert.equal(response.headers.get('Location'), '/auth/sign-in?next=%2Fdash%2Ftest%3Fafter%3Dx')
    const part = await ask(undefined, '/dash/test', { headers: { 'HX-Request': 'true' } })
    assert.deepEqual([part.status, part.headers.get('HX-Trigger'), await part.text()], [401, 'svc:ended', ''])
  })

  test('says in a page that a mistyped address leads nowhere', async (t) => {
    const { ask, operator } = await servePages(t)
    const response = await ask(operator, '/dash/nothing')
    const body = await response.text()
    assert.equal(response.status, 404)
    assert.match(body, /<h1>Not found<\/h1>/)
    assert.match(body, /<a href="\/dash\/test">Groups<\/a>/)
    const plain = await ask(operator, '/dash/nothing', { headers: { Accept: 'application/json' } })
    assert.deepEqual([plain.status, plain.headers.get('Content-Type')], [404, 'application/problem+json'])
    for (const path of ['/dash/%', '/dash/%ff', '/dash/test%0A'])
      assert.equal((await ask(operator, path)).status, 404, path)
  })

  test('does not exist for people who may not see it, also as a form', async (t) => {
    const { ask, submit, admin, stranger, operator } = await servePages(t)
    assert.equal((await ask(operator, '/dash/operators')).status, 200)
    assert.equal((await ask(admin, '/dash/operators')).status, 404)
    const page = await ask(admin, '/dash/test')
    const body = await page.text()
    assert.equal(page.status, 200)
    assert.ok(!body.includes('For operators'), 'the navigation shows only what the person may see')
    assert.ok(body.includes('team/sub') && !body.includes('other'))
    assert.equal((await ask(stranger, '/dash/test')).status, 404)
    assert.equal((await submit(stranger, setCap)).status, 404)
  })

  test('that takes long sends its frame first and says what it waits for', async (t) => {
    const work = Promise.withResolvers<void>()
    const slow = slowPage(() => work.promise)
    const { ask, operator, admin } = await servePages(t, [slow])
    assert.equal((await ask(admin, slow.path)).status, 404)
    const response = await ask(operator, slow.path)
    assert.equal(response.status, 200)
    assert.match(response.headers.get('Content-Security-Policy') ?? '', /script-src 'self'/)
    const reader = (response.body ?? assert.fail()).pipeThrough(new TextDecoderStream()).getReader()
    let text = ''
    const readUntil = async (end: string): Promise<void> => {
      while (!text.includes(end)) text += (await reader.read()).value ?? assert.fail(text)
    }
    await readUntil('Counting…</p>')
    assert.match(text, /<h1>Slow<\/h1>\s*<p class="progress" role="status">Counting…<\/p>$/)
    work.resolve()
    await readUntil('</html>')
    assert.match(text, /<b>counted<\/b>/)
    const part = await ask(operator, slow.path, { headers: { 'HX-Request': 'true' } })
    assert.match(await part.text(), /^<div id="live"><b>counted<\/b>/)
  })

  test('that takes long and fails says so at its end', async (t) => {
    const refused = slowPage(() => Promise.reject(new Refusal('conflict', 'nothing can be counted', 'try again')))
    const broken = { ...slowPage(() => Promise.reject(new Error('a detail'))), path: '/dash/broken' }
    const { ask, operator, logged } = await servePages(t, [refused, broken])
    const text = await (await ask(operator, refused.path)).text()
    assert.match(text, /Nothing can be counted\. Try again\.[\s\S]*<\/html>\n$/)
    const fault = await (await ask(operator, broken.path)).text()
    const [, incident = ''] =
      /Something went wrong on the server; its log has the details under (\S+)\./.exec(fault) ?? []
    assert.match(fault, /<\/html>\n$/)
    assert.ok(!fault.includes('a detail'))
    assert.match(logged().join(), new RegExp(`"incident":"${incident}".*a detail`))
  })

  test('carries out a form with the rights of the person and says what was done, once', async (t) => {
    const pages = await servePages(t)
    const response = await pages.submit(pages.admin, setCap)
    assert.deepEqual([response.status, response.headers.get('Location')], [303, '/dash/test'])
    assert.equal(await capOf(pages, 'team/sub'), 70)
    const cookie = `${pages.admin.cookie}; ${response.headers.getSetCookie()[0]?.split(';')[0]}`
    const next = await pages.ask(pages.admin, '/dash/test', { headers: { Cookie: cookie } })
    assert.match(await next.text(), /<div class="notice ok" role="status">Cap set\.<\/div>/)
    assert.match(next.headers.getSetCookie().join(), /Max-Age=0/)
    // Another session cannot read it.
    const other = `${pages.operator.cookie}; ${response.headers.getSetCookie()[0]?.split(';')[0]}`
    assert.ok(
      !(await (await pages.ask(pages.operator, '/dash/test', { headers: { Cookie: other } })).text()).includes(
        'Cap set',
      ),
    )
  })

  test('carries out a form that is sent twice once', async (t) => {
    const pages = await servePages(t)
    await pages.submit(pages.admin, setCap)
    const again = await pages.submit(pages.admin, { ...setCap, daily: '71' })
    assert.equal(again.status, 409)
    assert.match(await again.text(), /This form was sent before, and was carried out once\./)
    assert.equal(await capOf(pages, 'team/sub'), 70)
    await pages.submit(pages.admin, { ...setCap, daily: '72', form_key: 'k2' })
    assert.equal(await capOf(pages, 'team/sub'), 72)
  })

  test('shows a refused form again with the fault and what was typed, and changes nothing', async (t) => {
    const pages = await servePages(t)
    const wrong = await pages.submit(pages.admin, { ...setCap, daily: '-3' })
    const body = await wrong.text()
    assert.equal(wrong.status, 400)
    assert.match(body, /role="alert">Cents must be at least 0\.</)
    assert.match(body, /name="daily"[^>]* value="-3"/)
    // The sentence is at the field, which has the focus.
    assert.match(
      body,
      /<input [^>]*name="daily"[^>]* aria-describedby="form-cap-daily-fault" aria-invalid="true" autofocus/,
    )
    assert.match(body, /<small id="form-cap-daily-fault" class="field-fault">Cents must be at least 0\.<\/small>/)
    assert.equal(await capOf(pages, 'team/sub'), undefined)
    // The key of a refused form is not used up.
    assert.equal((await pages.submit(pages.admin, setCap)).status, 303)
    const forbidden = await pages.submit(pages.admin, { ...setCap, folder: 'other', form_key: 'k3' })
    assert.equal(forbidden.status, 403)
    assert.equal(await capOf(pages, 'other'), undefined)
  })

  test('refuses forms of other sites, without or with a wrong token, and unknown actions', async (t) => {
    const pages = await servePages(t)
    const refused = [
      await pages.submit(pages.admin, setCap, { Origin: 'https://evil.example' }),
      await pages.submit(pages.admin, { ...setCap, csrf: '' }),
      await pages.submit(pages.admin, { ...setCap, csrf: pages.operator.csrf }),
      await pages.submit(pages.admin, { ...setCap, action: 'toString' }),
    ]
    assert.deepEqual(
      refused.map(({ status }) => status),
      [403, 403, 403, 400],
    )
    assert.equal(await capOf(pages, 'team/sub'), undefined)
  })

  test('keeps what was typed in a form that has expired', async (t) => {
    const pages = await servePages(t)
    const expired = await pages.submit(pages.admin, { ...setCap, csrf: pages.operator.csrf })
    const body = await expired.text()
    assert.match(body, /This form has expired\. Nothing was changed; send it again\./)
    assert.match(body, /name="daily"[^>]* value="70"/)
    assert.equal(
      (await pages.submit(pages.admin, mustReadForm(body, ({ id }) => id === 'form-cap', 'cap').fields)).status,
      303,
    )
    assert.equal(await capOf(pages, 'team/sub'), 70)
  })

  test('keeps what was typed while the session ended, without passwords, until the person has signed in', async (t) => {
    const pages = await servePages(t)
    const ended = { ...pages.admin, cookie: '' }
    const typed = { ...setCap, folder: 'team/sub', key: 'a password', secrets: 'key', text: '\n"a"\n<b>' }
    const answer = await pages.submit(ended, typed)
    const body = await answer.text()
    assert.equal(answer.status, 401)
    assert.match(body, /<h1>Your session has ended<\/h1>/)
    assert.match(answer.headers.get('Content-Type') ?? '', /^text\/html/)
    assert.ok(!body.includes('a password'))
    const kept = mustReadForm(body, ({ to }) => to === '/dash/test', 'kept').fields
    const { key: _, ...rest } = { ...typed, csrf: pages.admin.csrf }
    assert.deepEqual(kept, rest)
    const again = await (await pages.submit(await signIn(pages, TEAM_ADMIN), kept)).text()
    assert.match(again, /name="daily"[^>]* value="70"/)
    assert.equal(await capOf(pages, 'team/sub'), undefined)
    assert.equal((await pages.submit(ended, typed, { Origin: 'https://evil.example' })).status, 403)
  })

  test('says in a page that the server failed, and the log has the details', async (t) => {
    const pages = await servePages(t)
    const failed = await pages.submit(pages.admin, { action: 'fail', form: 'fail', form_key: 'f1' })
    const body = await failed.text()
    assert.deepEqual([failed.status, failed.headers.get('Content-Type')], [500, 'text/html; charset=utf-8'])
    assert.match(body, /its log has the details under [0-9a-f-]{36}/)
    assert.ok(!body.includes('a secret detail'))
    assert.match(pages.logged().join(), /a secret detail/)
  })

  test('takes the longest text of a field in any script', async (t) => {
    const pages = await servePages(t)
    const form = { action: 'set', form: 'set', form_key: 'k3', folder: 'team', key: 'name', to: '長'.repeat(100_001) }
    const tooLong = await pages.submit(pages.operator, form)
    assert.equal(tooLong.status, 400)
    assert.match(await tooLong.text(), /is longer than/)
  })

  test('asks before a change that needs a confirmation', async (t) => {
    const pages = await servePages(t)
    const form = { action: 'remove', form: 'remove', form_key: 'r1', folder: 'team/sub' }
    const asked = await pages.submit(pages.admin, form)
    const body = await asked.text()
    assert.equal(asked.status, 200)
    assert.match(body, /<p>Remove team\/sub\?<\/p>/)
    assert.match(body, /name="confirmed" value="yes"/)
    await pages.cli.call(groupsResource.verbs.show, { folder: 'team/sub' })
    const done = await pages.submit(pages.admin, { ...form, confirmed: 'yes' })
    assert.deepEqual([done.status, done.headers.get('Location')], [303, '/dash/elsewhere'])
    await assert.rejects(pages.cli.call(groupsResource.verbs.show, { folder: 'team/sub' }), /there is no group/)
  })

  test('answers with a page where the result must not be stored', async (t) => {
    const pages = await servePages(t)
    const shown = await pages.submit(pages.admin, { action: 'reveal', form: 'reveal', form_key: 's1' })
    assert.equal(shown.status, 200)
    assert.match(await shown.text(), /a secret token/)
    assert.equal(shown.headers.get('Cache-Control'), 'no-store')
    assert.deepEqual(shown.headers.getSetCookie(), [])
  })

  test('reloads its live part only if it has changed', async (t) => {
    const pages = await servePages(t)
    const first = await (await pages.ask(pages.admin, '/dash/test')).text()
    const seen = /data-seen="(\w+)"/.exec(first)?.[1] ?? assert.fail()
    const reload = (hash: string) =>
      pages.ask(pages.admin, '/dash/test', { headers: { 'HX-Request': 'true', 'X-Seen': hash } })
    assert.equal((await reload(seen)).status, 204)
    await pages.cli.call(groupsResource.verbs.set_budget, { folder: 'team', daily: 5 })
    const changed = await reload(seen)
    const body = await changed.text()
    assert.equal(changed.status, 200)
    assert.match(body, /^<div id="live"/)
    assert.ok(!body.includes('<form id="form-cap"'), 'forms with fields are not replaced')
  })

  test('sends its live part compressed, and whole pages not', async (t) => {
    const { operator, cli } = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    for (let n = 0; n < 46; n++) await cli.call(groupsResource.verbs.add, { folder: `g${n}` })
    const [part, page] = [
      await operator.get('/dash/folders', { 'HX-Request': 'true', 'Accept-Encoding': 'gzip' }),
      await operator.get('/dash/folders', { 'Accept-Encoding': 'gzip' }),
    ]
    assert.deepEqual([part.headers.get('Content-Encoding'), page.headers.get('Content-Encoding')], ['gzip', null])
    const size = gzipSync(await part.text()).length
    assert.ok(size < 4000, `${size} bytes for 50 folders`)
    const plain = await operator.get('/dash/folders', { 'HX-Request': 'true', 'Accept-Encoding': 'identity' })
    assert.equal(plain.headers.get('Content-Encoding'), null)
  })

  test('gives the next page by a cursor, and the whole list as CSV and JSON', async (t) => {
    const pages = await servePages(t)
    await pages.cli.call(groupsResource.verbs.set, { folder: 'team', key: 'name', to: '=1+1, "x"' })
    const first = await (await pages.ask(pages.operator, '/dash/test')).text()
    const next = /href="([^"]*after=[^"]*)" rel="next"/.exec(first)?.[1]?.replaceAll('&amp;', '&') ?? assert.fail()
    assert.match(await (await pages.ask(pages.operator, next)).text(), /team\/sub/)
    const csv = await pages.ask(pages.operator, '/dash/test?format=csv')
    assert.equal(csv.headers.get('Content-Disposition'), 'attachment; filename="groups.csv"')
    const lines = (await csv.text()).split('\r\n')
    assert.deepEqual(lines.slice(0, 1), ['folder,display_name,cap'])
    assert.ok(lines.includes(`team,"'=1+1, ""x""",`), lines.join('\n'))
    const json: { folder: string }[] = JSON.parse(
      await (await pages.ask(pages.operator, '/dash/test?format=json')).text(),
    )
    assert.deepEqual(
      json.map(({ folder }) => folder),
      ['main', 'other', 'team', 'team/sub'],
    )
    assert.equal((await pages.ask(pages.operator, '/dash/operators?format=csv')).status, 404)
    const href = /href="([^"]*format=csv[^"]*list=caps)"/.exec(first)?.[1]?.replaceAll('&amp;', '&') ?? assert.fail()
    assert.equal(
      await (await pages.ask(pages.operator, href)).text(),
      'folder\r\nmain\r\nother\r\nteam\r\nteam/sub\r\n',
    )
    assert.equal((await pages.ask(pages.operator, '/dash/test?format=csv&list=none')).status, 404)
  })

  test('remembers how many rows of a page a person chose, and leads back to the first page', async (t) => {
    const { operator, cli } = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    for (let n = 0; n < 60; n++) await cli.call(groupsResource.verbs.add, { folder: `g${n}` })
    const rowsOf = (page: string): number => page.match(/<tr id="folders-/g)?.length ?? 0
    const first = await (await operator.get('/dash/folders')).text()
    assert.equal(rowsOf(first), 50)
    assert.ok(!first.includes('rel="first"'))
    const next = /href="([^"]*after=[^"]*)" rel="next"/.exec(first)?.[1]?.replaceAll('&amp;', '&') ?? assert.fail()
    assert.match(await (await operator.get(next)).text(), /<a href="\/dash\/folders" rel="first">/)
    const chosen = await operator.get('/dash/folders?limit=100')
    const cookie = chosen.headers.get('Set-Cookie')?.split(';')[0] ?? ''
    assert.equal(cookie, 'svc_rows=100')
    assert.equal(
      rowsOf(await (await operator.get('/dash/folders', { Cookie: `${operator.cookie}; ${cookie}` })).text()),
      64,
    )
    assert.equal((await operator.get('/dash/folders?limit=7')).headers.get('Set-Cookie'), null)
  })

  test('shows the same part of a list and the same filter after a form', async (t) => {
    const pages = await servePages(t)
    const { status, headers } = await pages.submit(pages.operator, setCap, {}, '?after=other&search=t')
    assert.deepEqual([status, headers.get('Location')], [303, '/dash/test?after=other&search=t'])
  })

  test('takes a text as it was typed, and JSON only where the verb takes no text', async (t) => {
    const pages = await servePages(t)
    const change = { action: 'set', form: 'set', form_key: 'k2', folder: 'team' }
    const named = await pages.submit(pages.operator, { ...change, key: 'name', to: '["a"]' })
    assert.equal(named.status, 303, await named.text())
    const { name } = await pages.cli.call(groupsResource.verbs.show, { folder: 'team' })
    assert.equal(name, '["a"]')
  })

  test('escapes texts of other people', async (t) => {
    const pages = await servePages(t)
    await pages.cli.call(groupsResource.verbs.set, { folder: 'team', key: 'name', to: '<img src=x onerror=alert(1)>' })
    const body = await (await pages.ask(pages.admin, '/dash/test')).text()
    assert.ok(body.includes('&lt;img src=x onerror=alert(1)&gt;') && !body.includes('<img'))
  })
})

suite('the dashboard', () => {
  test('hides a folder from people who do not administer it, like one that does not exist', async (t) => {
    const dash = await serveDashboard(t)
    const hidden = await dash.admin.get('/dash/folders/other')
    const missing = await dash.admin.get('/dash/folders/missing')
    assert.deepEqual([hidden.status, missing.status], [404, 404])
    assert.equal(await hidden.text(), await missing.text())
    assert.equal((await dash.stranger.get('/dash/folders/team')).status, 404)
  })

  test('loads nothing from elsewhere, allows no inline script or style, and at most 60 KB of them', async (t) => {
    const dash = await serveDashboard(t)
    const page = await dash.operator.get('/dash/search?q=a')
    const policy = page.headers.get('Content-Security-Policy') ?? ''
    assert.match(policy, /default-src 'none'/)
    assert.ok(!policy.includes('unsafe'))
    const body = await page.text()
    assert.ok(!/<script(?! src="\/dash\/assets)|<style| style=| on[a-z]+=/.test(body))
    const paths = [...body.matchAll(/(?:href|src)="(\/dash\/assets\/[^"]+)"/g)].map(([, path = '']) => path)
    assert.equal(paths.length, 2)
    let bytes = 0
    for (const path of paths) {
      const asset = await fetch(dash.base + path, { headers: { 'Accept-Encoding': 'br' } })
      assert.equal(asset.status, 200)
      assert.match(asset.headers.get('Cache-Control') ?? '', /immutable/)
      bytes += Number(asset.headers.get('Content-Length'))
    }
    assert.ok(bytes > 5000 && bytes <= 60_000, `${bytes} bytes`)
    assert.equal((await fetch(`${dash.base}/dash/assets/0000000000000000/other.js`)).status, 404)
  })

  test('gives a page of another version its style and script, which browsers do not keep', async (t) => {
    const dash = await serveDashboard(t)
    for (const name of ['dash.css', 'dash.js']) {
      const old = await fetch(`${dash.base}/dash/assets/0000000000000000/${name}`)
      assert.deepEqual([old.status, old.headers.get('Cache-Control')], [200, 'no-store'])
    }
  })

  test('finds any of thousands of folders by a part of its folder or name, for those who administer it', async (t) => {
    const dash = await serveDashboard(t)
    const count = 3000
    await dash.host.engine.transaction(async (tx) => {
      const added = { product: 'assistant', open: true, added_at: '2026-01-01T00:00:00.000Z' }
      for (let n = 0; n < count; n++) await groups.insert(tx, { folder: `f${n}`, name: `Number ${n}`, ...added })
      await groups.insert(tx, { folder: 'team/ze', name: 'Zürich Office', ...added })
    })
    const find = async (as: SignedInBrowser, words: string): Promise<string[]> => {
      const path = `/dash/search?q=${encodeURIComponent(words)}`
      const body = await (await as.get(path, { 'HX-Request': 'true' })).text()
      return [...body.matchAll(/href="\/dash\/folders\/([^"]+)"/g)].map(([, folder = '']) => folder)
    }
    assert.deepEqual(await find(dash.operator, `F${count - 1}`), [`f${count - 1}`])
    assert.deepEqual(await find(dash.operator, `number ${count - 1}`), [`f${count - 1}`])
    for (const words of ['ZÜRICH', 'office']) assert.deepEqual(await find(dash.operator, words), ['team/ze'])
    assert.deepEqual(await find(dash.admin, 'office'), ['team/ze'])
    assert.deepEqual(await find(dash.admin, 'number'), [])
    assert.equal((await find(dash.operator, 'number')).length, 12)
    assert.deepEqual(await find(dash.operator, 'x'.repeat(500)), [])
    const signedOut = await fetch(`${dash.base}/dash/search?q=f`, {
      headers: { 'HX-Request': 'true' },
      redirect: 'manual',
    })
    const { status, headers } = signedOut
    assert.deepEqual([status, headers.get('HX-Trigger'), headers.get('HX-Reswap')], [401, 'svc:ended', 'none'])
  })

  test('finds people and ids for operators, and messages for administrators', async (t) => {
    const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd', 'webd'] })
    const { id } = await dash.host.engine.transaction((tx) =>
      recordInbound(tx, writeContextOf(dash.host), {
        jid: 'web:team',
        sender: 'anon:1',
        content: 'hello',
        reach: 'all',
      }),
    )
    const search = async (as: SignedInBrowser, words: string): Promise<string> =>
      (await as.get(`/dash/search?q=${encodeURIComponent(words)}`)).text()
    const person = 'href="/dash/person?sub=github%3Ateam-admin"'
    assert.ok((await search(dash.operator, 'TEAM-ad')).includes(person))
    assert.ok((await search(dash.operator, id.slice(0, 13))).includes(`href="/dash/messages/${id}"`))
    for (const body of [await search(dash.admin, 'team-ad'), await search(dash.admin, id)]) {
      assert.ok(!body.includes('/dash/person') && !body.includes(`href="/dash/messages/${id}"`))
      assert.ok(body.includes('href="/dash/messages?q='))
    }
    assert.match(await search(dash.stranger, 'team'), /Nothing matches/)
    // Without script, the button leads to the page, which has a form.
    assert.match(
      await search(dash.operator, 'me'),
      /<a id="palette-open"[^>]* href="\/dash\/search"[\s\S]*<form id="search"/,
    )
  })

  test('tells open pages that something was committed, and strangers nothing', async (t) => {
    const dash = await serveDashboard(t)
    assert.equal((await dash.stranger.get('/dash/live')).status, 404)
    const ended = await fetch(`${dash.base}/dash/live`)
    assert.match(await ended.text(), /event: svc:ended/)
    const stop = new AbortController()
    t.after(() => stop.abort())
    const stream = await fetch(`${dash.base}/dash/live?seen=none`, {
      headers: { Cookie: dash.admin.cookie },
      signal: stop.signal,
    })
    const reader = (stream.body ?? assert.fail()).pipeThrough(new TextDecoderStream()).getReader()
    assert.match((await reader.read()).value ?? '', /id: \d+\nevent: svc:changed/)
    await dash.cli.call(groupsResource.verbs.set_budget, { folder: 'team', daily: 9 })
    assert.match((await reader.read()).value ?? '', /event: svc:changed/)
  })
})
