// Requests to pages of the dashboard at their limits: sizes, pages of lists, downloads, cookies and keys of forms.
import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { groups } from '../src/core/groups/groups.ts'
import { groupsResource } from '../src/resources/groups.ts'
import { scheduledTasksResource } from '../src/resources/scheduled-tasks.ts'
import { serveDashboard } from './support/dashboard.ts'
import { postForm } from './support/dashboard-forms.ts'
import type { SignedInBrowser } from './support/sign-in.ts'

const DAEMONS = ['proxyd', 'authd', 'dashd'] as const

/** Pages and folders that the palette finds. */
async function linksOf(browser: SignedInBrowser, words: string): Promise<string[]> {
  const body = await (await browser.get(`/dash/search?q=${words}`, { 'HX-Request': 'true' })).text()
  return [...body.matchAll(/<a href="([^"?]*)"/g)].map(([, href = '']) => href)
}

suite('requests to the dashboard', () => {
  test('answer the same for what does not exist and for what a person may not see', async (t) => {
    const { admin } = await serveDashboard(t, { daemons: DAEMONS })
    const ofPages = ['/dash/turns/none', '/dash/messages/none', '/dash/settings', '/dash/none', '/dash/resources/none']
    const ofFolders = ['/dash/folders/other', '/dash/folders/none', '/dash/folders/team?view=none']
    const bodies = await Promise.all([...ofPages, ...ofFolders].map(async (path) => (await admin.get(path)).text()))
    assert.equal(new Set(bodies).size, 1)
    assert.match(bodies[0] ?? '', /There is nothing here, or you may not see it\./)
  })

  test('for the headers of the event stream do not open it', async (t) => {
    const { base, operator } = await serveDashboard(t, { daemons: DAEMONS })
    const head = await fetch(`${base}/dash/live`, {
      method: 'HEAD',
      headers: { Cookie: operator.cookie },
      signal: AbortSignal.timeout(10_000),
    })
    assert.deepEqual([head.status, head.headers.get('Content-Type')], [200, 'text/event-stream'])
  })

  test('show 50 rows, or as many as the query says, up to 1000', async (t) => {
    const { operator, host } = await serveDashboard(t, { daemons: DAEMONS })
    await host.engine.transaction(async (tx) => {
      const added = { product: 'assistant', open: true, added_at: '2026-01-01T00:00:00.000Z' }
      for (let n = 0; n < 1100; n++) await groups.insert(tx, { folder: `f${n}`, name: 'x', ...added })
    })
    const rows = async (query: string): Promise<number> =>
      (await (await operator.get(`/dash/folders${query}`)).text()).split('<tr id="folders-').length - 1
    const limits = ['', '?limit=1', '?limit=1000', '?limit=1001', '?limit=0', '?limit=-1', '?limit=1.5', '?limit=x']
    assert.deepEqual(await Promise.all(limits.map(rows)), [50, 1, 1000, 50, 50, 50, 50, 50])
  })

  test('download the whole list from any of its pages', async (t) => {
    const { operator } = await serveDashboard(t, { daemons: DAEMONS })
    const first = await (await operator.get('/dash/folders?limit=1')).text()
    const after = /[?&;]after=([^"&]*)"/.exec(first)?.[1] ?? assert.fail()
    const second = await (await operator.get(`/dash/folders?limit=1&after=${after}`)).text()
    assert.match(second, /href="\/dash\/folders\?limit=1&amp;format=csv">CSV<.*\?limit=1&amp;format=json">JSON</)
    const json = await operator.get(`/dash/folders?limit=1&after=${after}&format=json`)
    assert.deepEqual(
      ['Content-Type', 'Cache-Control', 'Content-Disposition'].map((name) => json.headers.get(name)),
      ['application/json', 'no-store', 'attachment; filename="folders.json"'],
    )
    const listed: { folder: string }[] = JSON.parse(await json.text())
    assert.deepEqual(
      listed.map(({ folder }) => folder),
      ['main', 'other', 'team', 'team/sub'],
    )
    assert.equal(await (await operator.get('/dash/invites?format=json')).text(), '[]\n')
    assert.match(await (await operator.get('/dash/invites?format=csv')).text(), /^invite,folders,[^\n]*\r\n$/)
  })

  test('refuse forms that are too large or of another type', async (t) => {
    const { operator } = await serveDashboard(t, { daemons: DAEMONS })
    const form = { action: 'set_secret', key: 'A', value: 'x'.repeat(8 * 1024 * 1024) }
    assert.equal((await postForm(operator, '/dash/me', form)).status, 413)
    const typed = { ...form, value: 'x' }
    assert.equal((await operator.post('/dash/me', typed, { 'Content-Type': 'text/plain' })).status, 415)
    const twice = await operator.post('/dash/me?limit=1&limit=2', typed)
    assert.equal(twice.status, 400)
  })

  test('take line breaks of a browser as those of a text', async (t) => {
    const { operator, cli } = await serveDashboard(t, { daemons: DAEMONS })
    const { schedule, show } = scheduledTasksResource.verbs
    const { taskId: id } = await cli.call(schedule, { targetJid: 'team', prompt: 'x', cron: '0 9 * * *' })
    const form = { action: 'update', id, prompt: 'a\r\nb' }
    assert.equal((await postForm(operator, '/dash/resources/scheduled_tasks', form)).status, 303)
    assert.equal((await cli.call(show, { id })).task.prompt, 'a\nb')
  })

  test('take an empty field as not given, and stop updating a page with a refused form', async (t) => {
    const { operator, cli } = await serveDashboard(t, { daemons: DAEMONS })
    const form = { action: 'create', folder: 'team/new', name: '', product: '' }
    assert.equal((await postForm(operator, '/dash/folders', form)).status, 303)
    assert.equal((await cli.call(groupsResource.verbs.show, { folder: 'team/new' })).name, 'new')
    const refused = await postForm(operator, '/dash/folders', form)
    const body = await refused.text()
    assert.equal(refused.status, 409)
    assert.match(body, /role="alert"/)
    assert.doesNotMatch(body, /hx-sse/)
  })

  test('show what was typed in the refused form, and not in others of the same action', async (t) => {
    const { operator } = await serveDashboard(t, { daemons: DAEMONS })
    const form = { action: 'set', form: 'set-max_children', key: 'max_children', to: 'many' }
    const refused = await postForm(operator, '/dash/folders/team?view=overview', form)
    assert.equal(refused.status, 400)
    const values = [...(await refused.text()).matchAll(/id="form-(set-[\w]+)-to" name="to"[^>]* value="many"/g)]
    assert.deepEqual(
      values.map(([, id]) => id),
      ['set-max_children'],
    )
  })

  test('remember a theme, and a notice only for the dashboard', async (t) => {
    const { operator } = await serveDashboard(t, { daemons: DAEMONS })
    const page = async (theme: string): Promise<string> =>
      (await operator.get('/dash/me', { Cookie: `${operator.cookie}; svc_theme=${theme}` })).text()
    for (const theme of ['light', 'dark'])
      assert.match(await page(theme), new RegExp(`<html[^>]* data-theme="${theme}"`))
    assert.doesNotMatch(await page('blue'), /data-theme/)
    const done = await postForm(operator, '/dash/folders', { action: 'create', folder: 'fresh' })
    assert.match(done.headers.getSetCookie().join(), /^svc_notice_[^;]*; .*Path=\/dash(;|$)/)
    assert.match(done.headers.getSetCookie().join(), /Max-Age=60/)
    assert.match(done.headers.getSetCookie().join(), /HttpOnly/)
  })

  test('of two people may have the same key', async (t) => {
    const { operator, admin } = await serveDashboard(t, { daemons: DAEMONS })
    const form = { action: 'create', form_key: 'k' }
    assert.equal((await postForm(operator, '/dash/folders', { ...form, folder: 'team/a' })).status, 303)
    assert.equal((await postForm(admin, '/dash/folders', { ...form, folder: 'team/b' })).status, 303)
    assert.equal((await postForm(admin, '/dash/folders', { ...form, folder: 'team/c' })).status, 409)
  })

  test('find pages of the navigation by a part of their titles, and only those of the person', async (t) => {
    const { operator, admin, stranger } = await serveDashboard(t, { daemons: DAEMONS })
    assert.deepEqual(await linksOf(stranger, ''), ['/dash/me'])
    assert.deepEqual(await linksOf(operator, 'UDI'), ['/dash/audit'])
    assert.deepEqual(await linksOf(operator, 'search'), [])
    assert.deepEqual(await linksOf(operator, 'packages'), ['/dash/packages'])
    assert.deepEqual(await linksOf(admin, 'packages'), [])
    assert.deepEqual(await linksOf(stranger, 'team'), [])
    assert.equal((await linksOf(operator, '')).length, 12)
  })
})
