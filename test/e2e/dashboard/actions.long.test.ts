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
  const form = await findForm(page, { action, ...fields })
  await page.evaluate(() => {
    for (const each of document.querySelectorAll('details')) each.open = true
  })
  for (const [field, value] of Object.entries(fields)) await fill(form, field, value)
  await click(form.locator('button'))
  // A question, or a list of what will be removed.
  const sure = page.locator('form:has(input[name=confirmed], input[name=sure]) button')
  if (await sure.isVisible()) await click(sure)
  const faults = await page.locator('.notice.fault').allTextContents()
  assert.deepEqual(faults, [], `${name}: refused`)
  const isTold = (await page.locator('.notice.ok').count()) > 0
  const isElsewhere = new URL(page.url()).pathname !== new URL(dash.base + path).pathname
  assert.ok(row.status === 200 || isTold || isElsewhere, `${name}: the page says what was done`)
}

/** Waits for the page that follows. */
async function click(button: Locator): Promise<void> {
  await button.click()
  await button.page().waitForLoadState('domcontentloaded')
}

/** The form with this action whose other hidden fields are those of `fields`. */
async function findForm(page: Page, fields: Readonly<Record<string, string>>): Promise<Locator> {
  const at = await page.evaluate(
    (wanted) =>
      [...document.forms].findIndex((form) => {
        const isHidden = (name: string): boolean => form.querySelector(`input[type=hidden][name="${name}"]`) !== null
        const data = new FormData(form)
        return (
          data.get('action') === wanted.action &&
          Object.entries(wanted).every(([name, value]) => !isHidden(name) || name === 'ids' || data.get(name) === value)
        )
      }),
    fields,
  )
  assert.ok(at >= 0, `${page.url()} has no form ${JSON.stringify(fields)}`)
  return page.locator('form').nth(at)
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
  test('work by clicks for an operator and for the administrator of a folder', needs('browser'), async (t) => {
    const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    writeFileSync(dash.host.layout?.env ?? '', '')
    const faults: string[] = []
    for (const as of [OPERATOR, TEAM_ADMIN]) {
      const page = await dash.open(t, as === OPERATOR ? dash.operator : dash.admin, '/dash/')
      for (const [name, row] of OFFERED) {
        const { admin = 303 } = row
        if (as === TEAM_ADMIN && admin >= 400) continue
        await takeAction(page, dash, { name, row, as }).catch((error: unknown) => faults.push(`${as}: ${error}`))
      }
    }
    assert.deepEqual(faults, [])
  })
})
