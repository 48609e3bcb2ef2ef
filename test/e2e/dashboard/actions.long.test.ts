// Every action of the dashboard as a person takes it in a browser: the form on its page, typed, sent and confirmed by clicks.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { suite, test } from 'node:test'
import type { Locator, Page } from 'playwright-core'
import { ACTION_ROWS, type ActionRow } from '../../support/action-rows.ts'
import { type Dashboard, OPERATOR, serveDashboard, TEAM_ADMIN } from '../../support/dashboard.ts'
import { needs } from '../../support/needs.ts'

/** `name` is of a page or folder view, and its action. */
async function takeAction(
  page: Page,
  dash: Dashboard,
  { name, row, as }: { readonly name: string; readonly row: ActionRow; readonly as: string },
): Promise<void> {
  const action = name.slice(name.lastIndexOf(' ') + 1)
  const { path, fields } = await row.make(dash, { as, folder: 'team', mark: randomUUID().slice(0, 8) })
  await page.goto(dash.base + path, { waitUntil: 'domcontentloaded' })
  const form = findForm(page, action, fields)
  assert.ok((await form.count()) > 0, `${name}: ${path} has the form`)
  await page.evaluate('for (const each of document.querySelectorAll("details")) each.open = true')
  for (const [field, value] of Object.entries(fields)) await fill(form, field, value)
  await click(form.locator('button'))
  // A question, or a list of what will be removed.
  const sure = page.locator('form:has(input[name=confirmed], input[name=sure]) button')
  if (await sure.isVisible()) await click(sure)
  const faults = await page.locator('.notice.fault').allTextContents()
  // A form without a file.
  if (row.status === 400) return assert.equal(faults.length, 1, `${name}: refused with a sentence`)
  assert.deepEqual(faults, [], `${name}: refused`)
  const isTold = (await page.locator('.notice.ok').count()) > 0
  const isElsewhere = new URL(page.url()).pathname !== new URL(dash.base + path).pathname
  assert.ok(row.status === 200 || isTold || isElsewhere, `${name}: the page says what was done`)
}

/** Waits for the page that follows. */
async function click(button: Locator): Promise<void> {
  const page = button.page()
  await page.evaluate('document.documentElement.dataset.isLeft = "yes"')
  await button.click()
  await page.locator('html:not([data-is-left])').waitFor({ state: 'attached' })
  await page.waitForLoadState('domcontentloaded')
}

/** The form with this action whose other hidden fields are those of `fields`. */
function findForm(page: Page, action: string, fields: Readonly<Record<string, string>>): Locator {
  const conditions = Object.entries(fields)
    // The list may have other messages, too.
    .filter(([name]) => name !== 'ids')
    .map(([name, value]) => {
      const hidden = `input[type=hidden][name="${name}"]`
      return `:is(:has(${hidden}[value=${JSON.stringify(value.slice(0, 100))}]), :not(:has(${hidden})))`
    })
  return page.locator(`form:has(input[name=action][value="${action}"])${conditions.join('')}`).first()
}

async function fill(form: Locator, name: string, value: string): Promise<void> {
  const control = form.locator(`[name="${name}"]:not([type=hidden])`)
  if ((await control.count()) === 0) return
  const kind = await control.first().evaluate((element) => element.getAttribute('type') ?? element.localName)
  if (kind === 'select') await control.selectOption(value)
  else if (kind === 'checkbox') await control.setChecked(value === 'true' || value === 'yes')
  else await control.fill(value)
}

const OFFERED = Object.entries(ACTION_ROWS).filter(([, { isOffered = true }]) => isOffered)

suite('actions of the dashboard in a browser', () => {
  test('work by clicks for an administrator of a folder, or else for an operator', needs('browser'), async (t) => {
    const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    writeFileSync(dash.host.layout?.env ?? '', '')
    const pages = {
      [OPERATOR]: await dash.open(t, dash.operator, '/dash/'),
      [TEAM_ADMIN]: await dash.open(t, dash.admin, '/dash/'),
    }
    const faults: string[] = []
    for (const [name, row] of OFFERED) {
      const as = (row.admin ?? 303) < 400 ? TEAM_ADMIN : OPERATOR
      await takeAction(pages[as], dash, { name, row, as }).catch((error: unknown) => faults.push(`${as}: ${error}`))
    }
    assert.deepEqual(faults, [])
  })
})
