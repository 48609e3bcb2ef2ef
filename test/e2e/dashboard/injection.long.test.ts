// Hostile texts on every page of the dashboard in a real browser: no script of them runs, and nothing is loaded for them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { serveHostileDashboard } from '../../support/hostile-dashboard.ts'
import { needs } from '../../support/needs.ts'

/** Elements that only a hostile text can bring. */
const FOREIGN = 'img, iframe, b, [onerror], [onload], [hx-get="/hacked"], a[href^="javascript:" i]'

test('hostile texts run no script and load nothing in a browser', needs('browser'), async (t) => {
  const dash = await serveHostileDashboard(t)
  const page = await dash.open(t, dash.operator, '/dash/')
  await page.context().addInitScript('window.hacked = () => { document.documentElement.dataset.hacked = "yes" }')
  const faults: string[] = []
  // The security policy would stop a script, and say so here.
  page.on('console', (message) => {
    if (message.type() === 'error' && /policy|hacked/i.test(message.text())) faults.push(message.text())
  })
  page.on('dialog', (dialog) => {
    faults.push(`a dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  page.on('request', (request) => {
    const { origin, pathname } = new URL(request.url())
    const isOwn = origin === dash.base && /^\/dash\/(?!x$)/.test(pathname) && !pathname.includes('hacked')
    if (!isOwn && pathname !== '/favicon.ico') faults.push(`a request: ${request.url()}`)
  })
  for (const path of dash.paths) {
    await page.goto(dash.base + path, { waitUntil: 'load' })
    const [isHacked, foreign] = await page.evaluate<[boolean, number]>(
      `[document.documentElement.dataset.hacked !== undefined, document.querySelectorAll(${JSON.stringify(FOREIGN)}).length]`,
    )
    if (isHacked) faults.push(`${path} ran a script`)
    if (foreign > 0) faults.push(`${path} has ${foreign} foreign elements`)
  }
  assert.deepEqual(faults, [])
})
