import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { suite, test } from 'node:test'
import { type Dashboard, serveDashboard } from '../../../../test/support/dashboard.ts'
import { groups } from '../../../core/groups/groups.ts'
import { groupDirs } from '../../../core/layout.ts'
import { audit } from '../../../registry/audit.ts'
import { groupsResource } from '../../../resources/groups.ts'

const PATH = '/dash/manifest'
const EVIL = '<script>alert(1)</script>'

async function exported({ operator }: Dashboard): Promise<string> {
  return (await operator.get(`${PATH}/download`)).text()
}

/** Browsers send line breaks as CR LF. */
const asTyped = (manifest: string): string => manifest.replaceAll('\n', '\r\n')

const fingerprintIn = (page: string): string => /name="planned" value="([^"]+)"/.exec(page)?.[1] ?? ''

/** The export with another name of team, and with the group `added`. */
async function editedExport(dash: Dashboard): Promise<string> {
  const text = await exported(dash)
  const row = (folder: string, name: string) =>
    `  - {folder: ${folder}, name: "${name}", product: assistant, open: true}\n`
  const rows = ['main', 'other', 'team/sub'].map((folder) => row(folder, folder)).join('')
  const version = /^config_version: \d+\n/.exec(text)?.[0] ?? ''
  return `${version}groups:\n${rows}${row('team', EVIL)}${row('added', 'Added')}`
}

suite('the page of export and apply', () => {
  test('exports the configuration as a file', async (t) => {
    const dash = await serveDashboard(t)
    const response = await dash.operator.get(`${PATH}/download`)
    assert.equal(response.headers.get('Content-Disposition'), 'attachment; filename="test.yaml"')
    assert.match(await response.text(), /^config_version: \d+\nacl:\n/)
  })

  test('shows the plan as a diff, changes nothing, then applies exactly that plan', async (t) => {
    const dash = await serveDashboard(t)
    const { operator, host } = dash
    const before = await exported(dash)
    const manifest = asTyped(await editedExport(dash))
    const shown = await operator.post(PATH, { action: 'plan', manifest })
    const plan = await shown.text()
    assert.equal(shown.status, 200)
    assert.ok(plan.includes('<del>') && plan.includes('<ins>&lt;script&gt;alert(1)&lt;/script&gt;</ins>'))
    assert.ok(!plan.includes(EVIL), 'values are escaped')
    assert.match(plan, /\d added/)
    assert.equal(await exported(dash), before)
    const planned = fingerprintIn(plan)
    const applied = await operator.post(PATH, { action: 'apply', manifest, force: 'false', planned })
    assert.equal(applied.status, 303)
    const row = await host.engine.read((tx) => groups.find(tx, { folder: 'added' }))
    assert.equal(row?.name, 'Added')
    assert.ok(host.layout && existsSync(groupDirs(host.layout, 'added').home), 'the workspace exists')
    const audited = (await host.engine.read((tx) => audit.list(tx))).filter(({ resource }) => resource === 'config')
    assert.equal(audited.length, 1)
    const twice = await operator.post(PATH, { action: 'apply', manifest, force: 'false', planned })
    assert.equal(twice.status, 409)
  })

  test('makes the workspaces of new groups also behind a thousand others', async (t) => {
    const dash = await serveDashboard(t)
    const { operator, host } = dash
    const known = (await host.engine.read((tx) => groups.find(tx, { folder: 'main' }))) ?? assert.fail()
    const rows = Array.from({ length: 1000 }, (_, at) => ({ ...known, folder: `group-${at}` }))
    await host.engine.transaction(async (tx) => {
      for (const row of rows) await groups.insert(tx, row)
    })
    const manifest = `${await exported(dash)}`.replace(
      /^groups:\n/m,
      'groups:\n  - {folder: zoo, name: Zoo, product: assistant, open: true}\n',
    )
    const plan = await (await operator.post(PATH, { action: 'plan', manifest })).text()
    const fields = { action: 'apply', manifest, force: 'false', planned: fingerprintIn(plan) }
    assert.equal((await operator.post(PATH, fields)).status, 303)
    assert.ok(host.layout && existsSync(groupDirs(host.layout, 'zoo').home))
  })

  test('refuses a plan after a change in between, and a manifest of another version', async (t) => {
    const dash = await serveDashboard(t)
    const { operator, cli } = dash
    const manifest = await editedExport(dash)
    const planned = fingerprintIn(await (await operator.post(PATH, { action: 'plan', manifest })).text())
    await cli.call(groupsResource.verbs.add, { folder: 'between' })
    const late = await operator.post(PATH, { action: 'apply', manifest, planned })
    assert.equal(late.status, 409)
    assert.match(await late.text(), /the configuration has changed since this plan was made/i)
    const other = manifest.replace(/^config_version: \d+/, 'config_version: 77')
    const mismatch = await operator.post(PATH, { action: 'plan', manifest: other })
    assert.equal(mismatch.status, 409)
    assert.match(await mismatch.text(), /the manifest has 77/)
    assert.equal((await operator.post(PATH, { action: 'plan', manifest: other, force: 'true' })).status, 200)
  })

  test('names the lines of errors and keeps what was typed', async (t) => {
    const dash = await serveDashboard(t)
    const response = await dash.operator.post(PATH, { action: 'plan', manifest: 'config_version: 1\nnothing: []\n' })
    const page = await response.text()
    assert.equal(response.status, 400)
    assert.match(page, /line 2: unknown resource/i)
    assert.ok(page.includes('nothing: []</textarea>') || page.includes('nothing: []\n</textarea>'))
  })

  test('accepts a manifest that is larger than other forms', async (t) => {
    const dash = await serveDashboard(t)
    const manifest = `${await editedExport(dash)}${'# a comment\n'.repeat(10_000)}`
    assert.equal((await dash.operator.post(PATH, { action: 'plan', manifest })).status, 200)
  })

  test('does not exist for administrators of a folder and for strangers', async (t) => {
    const dash = await serveDashboard(t)
    const manifest = await editedExport(dash)
    const before = await exported(dash)
    for (const browser of [dash.admin, dash.stranger]) {
      assert.equal((await browser.get(PATH)).status, 404)
      assert.equal((await browser.get(`${PATH}/download`)).status, 404)
      assert.equal((await browser.post(PATH, { action: 'plan', manifest, force: 'true' })).status, 404)
    }
    assert.equal(await exported(dash), before)
  })
})
