// Export and apply in a browser: a file becomes a plan, and the plan is applied once.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { groups } from '../../../src/core/groups/groups.ts'
import { serveDashboard } from '../../support/dashboard.ts'
import { needs } from '../../support/needs.ts'
import { until } from '../../support/until.ts'

test('a manifest from a file is planned as a diff and then applied', needs('browser'), async (t) => {
  const dash = await serveDashboard(t)
  const page = await dash.open(t, dash.operator, '/dash/manifest')
  const exported = await (await dash.operator.get('/dash/manifest/download')).text()
  const manifest = exported.replace('folder: other\n    name: other', 'folder: other\n    name: Renamed')
  assert.notEqual(manifest, exported)
  const file = { name: 'config.yaml', mimeType: 'application/yaml', buffer: Buffer.from(manifest) }
  // The instance of the test has no group main, which a manifest needs.
  const main = 'groups:\n  - {folder: main, name: main, product: assistant, open: true}\n'
  file.buffer = Buffer.from(/folder: main\n/.test(manifest) ? manifest : manifest.replace('groups:\n', main))
  await page.getByLabel('Read it from a file').setInputFiles(file)
  await until(async () => (await page.inputValue('#form-plan-manifest')).includes('Renamed'))
  await page.getByRole('button', { name: 'Show the plan' }).click()
  await page.getByRole('heading', { name: 'Plan' }).waitFor()
  assert.equal(await page.locator('ins', { hasText: 'Renamed' }).count(), 1)
  await page.getByRole('button', { name: /^Apply \d changes?$/ }).click()
  await page.getByText('Manifest applied; config_version is 2.').waitFor()
  const row = await dash.host.engine.read((tx) => groups.find(tx, { folder: 'other' }))
  assert.equal(row?.name, 'Renamed')
})
