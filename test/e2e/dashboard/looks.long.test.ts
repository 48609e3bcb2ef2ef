// The layout of the pages with the most columns, in a real browser with the data of the screenshots.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openDemoBrowser, serveDemo } from '../../screenshots/demo-instance.ts'
import { needs } from '../../support/needs.ts'

const CROWDED = ['/dash/turns', '/dash/messages?direction=all', '/dash/audit', '/dash/resources/groups']

test('names keep their line in wide tables, and the page does not scroll sideways', needs('browser'), async (t) => {
  const demo = await serveDemo(t)
  const page = await openDemoBrowser(t, demo, { viewport: { width: 1280, height: 860 } })
  for (const path of [...CROWDED, '/dash/folders/support?view=links']) {
    await page.goto(demo.base + path)
    assert.equal(await page.evaluate('document.documentElement.scrollWidth'), 1280, path)
    const broken = await page.evaluate<string[]>(
      `[...document.querySelectorAll('td[data-label=Folder], td[data-label=Chat], td[data-label=Link]')].flatMap((cell) => {
        const range = document.createRange()
        range.selectNodeContents(cell)
        const tops = [...range.getClientRects()].map(({ top }) => top)
        return Math.max(...tops) - Math.min(...tops) > 10 ? [cell.textContent] : []
      })`,
    )
    assert.deepEqual(broken, [], path)
  }
  // Every action is in sight.
  const button = await page.getByRole('button', { name: 'Revoke web:support/site' }).boundingBox()
  assert.ok(button && button.x + button.width <= 1280)
})

test('parts of a cell stay side by side on a phone', needs('browser'), async (t) => {
  const demo = await serveDemo(t)
  const page = await openDemoBrowser(t, demo, { viewport: { width: 390, height: 844 } })
  await page.goto(`${demo.base}/dash/tasks`)
  const cell = page.locator('td[data-label="Next runs"]').first()
  assert.match((await cell.textContent()) ?? '', /^in .*, in .*, in /)
  assert.ok(((await cell.boundingBox())?.height ?? 99) < 30)
  for (const path of CROWDED) {
    await page.goto(demo.base + path)
    assert.equal(await page.evaluate('document.documentElement.scrollWidth'), 390, path)
  }
})
