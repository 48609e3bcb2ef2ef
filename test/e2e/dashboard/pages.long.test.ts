// Every page of the dashboard in a real browser: accessible in both themes, on a phone too, without script errors, and for the
// right people.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { suite, type TestContext, test } from 'node:test'
import type { Page } from 'playwright-core'
import { folderViews } from '../../../src/daemons/dashd/folder/index.ts'
import { folderPath } from '../../../src/daemons/dashd/page.ts'
import { pages } from '../../../src/daemons/dashd/pages/index.ts'
import { groupsResource } from '../../../src/resources/groups.ts'
import { type Dashboard, serveDashboard } from '../../support/dashboard.ts'
import { needs } from '../../support/needs.ts'

const PATHS = [
  ...pages.flatMap(({ path, nav }) => (nav === undefined ? [] : [path])),
  ...folderViews.map(({ name }) => folderPath('team', name)),
]
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const HOSTILE = `"><img src=x onerror="document.title='owned'"><script>document.title='owned'</script>`

const WCAG = ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa']
/** Of all rules, only this one depends on the theme. */
const RULES = { light: WCAG, dark: ['color-contrast'] }

/** Rules of WCAG 2.2, levels A and AA, that the page breaks. */
async function findViolations(page: Page, theme: keyof typeof RULES): Promise<string[]> {
  return page.evaluate(`axe.run(document, { runOnly: ${JSON.stringify(RULES[theme])} }).then(({ violations }) =>
    violations.map(({ id, nodes }) => id + ' at ' + nodes[0].html.slice(0, 200)))`)
}

async function openOperatorPage(
  t: TestContext,
  dash: Dashboard,
  options = {},
): Promise<{ page: Page; errors: string[] }> {
  const page = await dash.open(t, dash.operator, '/dash/', options)
  const errors: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.location().url.endsWith('/favicon.ico')) errors.push(message.text())
  })
  return { page, errors }
}

suite('the pages of the dashboard', () => {
  test('are accessible in both themes and on a phone, and load nothing from elsewhere', needs('browser'), async (t) => {
    const dash = await serveDashboard(t)
    for (const folder of ['team', 'other'])
      await dash.cli.call(groupsResource.verbs.set, { folder, key: 'name', to: HOSTILE })
    const { page, errors } = await openOperatorPage(t, dash)
    const elsewhere: string[] = []
    page.on('request', (request) => {
      if (!request.url().startsWith(`${dash.base}/`)) elsewhere.push(request.url())
    })
    const faults: string[] = []
    for (const path of PATHS) {
      const response = await page.goto(dash.base + path, { waitUntil: 'domcontentloaded' })
      if (response?.status() !== 200) faults.push(`${path} is ${response?.status()}`)
      // A script element would be stopped by the security policy.
      await page.evaluate(AXE)
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme })
        for (const violation of await findViolations(page, colorScheme))
          faults.push(`${path} (${colorScheme}): ${violation}`)
      }
      await page.setViewportSize({ width: 390, height: 800 })
      const width = await page.evaluate('document.documentElement.scrollWidth')
      if (Number(width) > 390) faults.push(`${path} is ${width} px wide on a phone`)
      await page.setViewportSize({ width: 1100, height: 760 })
      if ((await page.title()) === 'owned') faults.push(`${path} runs a script of its data`)
    }
    assert.deepEqual(faults, [])
    assert.deepEqual(errors, [])
    assert.deepEqual(elsewhere, [])
  })

  test('do not exist for people without a grant', async (t) => {
    const dash = await serveDashboard(t)
    for (const path of PATHS) {
      const { status } = await dash.stranger.get(path)
      assert.equal(status, path === '/dash/me' ? 200 : 404, path)
    }
  })

  test(
    'update themselves, keep what is being typed, and say when they are no longer live',
    needs('browser'),
    async (t) => {
      const dash = await serveDashboard(t)
      const { page, errors } = await openOperatorPage(t, dash)
      await page.goto(`${dash.base}/dash/folders`)
      await page.locator('#connection', { hasText: /^Live$/ }).waitFor()
      await page.fill('input[type=search][name=search]', 'typed')
      await dash.cli.call(groupsResource.verbs.add, { folder: 'fresh' })
      await page.waitForSelector('#live a[href="/dash/folders/fresh"]')
      assert.equal(await page.inputValue('input[type=search][name=search]'), 'typed')
      assert.deepEqual(errors, [])
      const left = await dash.open(t, dash.admin, folderPath('team', 'links'))
      await left.locator('#connection', { hasText: /^Live$/ }).waitFor()
      await left.fill('#form-chat-context', 'typed')
      await left.context().clearCookies()
      await dash.cli.call(groupsResource.verbs.add, { folder: 'team/later' })
      await left.locator('#connection.lost', { hasText: 'Signed out. Sign in' }).waitFor()
      assert.equal(await left.inputValue('#form-chat-context'), 'typed')
      assert.ok(await left.isVisible('#live .empty'), 'the page stays as it was')
      await dash.close()
      await page.waitForSelector('#connection.lost')
    },
  )

  test('show ages that stay right, or exact times in UTC, as the person chose', needs('browser'), async (t) => {
    const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    const { page } = await openOperatorPage(t, dash)
    await page.clock.install()
    await page.goto(`${dash.base}/dash/me`)
    const started = page.locator('#sessions time').first()
    assert.equal(await started.textContent(), 'now')
    await page.clock.fastForward('05:00')
    assert.equal(await started.textContent(), '5m')
    await page.selectOption('#times', 'utc')
    for (const _ of ['chosen', 'remembered']) {
      assert.match((await started.textContent()) ?? '', /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/)
      await page.reload()
    }
  })

  test('work without script: a form changes something and the page says so', needs('browser'), async (t) => {
    const dash = await serveDashboard(t)
    const page = await dash.open(t, dash.admin, '/dash/folders/team?view=network', {
      javaScriptEnabled: false,
      viewport: { width: 390, height: 844 },
    })
    // With the style sheet.
    await page.waitForLoadState('load')
    // The menu cannot be closed without script, so it must be small.
    const { y = 844 } = (await page.locator('h1').boundingBox()) ?? {}
    assert.ok(y < 422, `the page starts ${y} px below the top of a phone`)
    await page.fill('input[name=target]', 'api.example.com')
    await page.press('input[name=target]', 'Enter')
    await page.waitForSelector('.notice.ok')
    assert.match((await page.textContent('#live')) ?? '', /api\.example\.com/)
  })

  test('put the focus at a wrong field, and send a form that is clicked twice once', needs('browser'), async (t) => {
    const dash = await serveDashboard(t)
    const page = await dash.open(t, dash.admin, folderPath('team', 'links'))
    await page.fill('#form-chat-jid_suffix', 'a b')
    await page.press('#form-chat-jid_suffix', 'Enter')
    await page.locator('#form-chat-jid_suffix-fault').waitFor()
    await page.locator('#form-chat-jid_suffix:focus').waitFor()
    await page.evaluate(AXE)
    assert.deepEqual(await findViolations(page, 'light'), [])
    await page.keyboard.press('Control+a')
    await page.keyboard.type('site')
    await page.keyboard.press('Enter')
    await page.getByRole('img', { name: 'QR code of the link' }).waitFor()
    await page.getByRole('link', { name: 'Done' }).click()
    await page.fill('#form-webhook-source_label', 'shop')
    // Only then has the script of the page run.
    await page.waitForLoadState('domcontentloaded')
    const isPrevented = await page.evaluate(`(() => {
      const prevented = []
      addEventListener('submit', (event) => {
        prevented.push(event.defaultPrevented)
        event.preventDefault()
      })
      const button = document.querySelector('#form-webhook button')
      button.click()
      button.click()
      return prevented
    })()`)
    assert.deepEqual(isPrevented, [false, true])
  })

  test('ask before the text of a file that was not saved is left', needs('browser'), async (t) => {
    const dash = await serveDashboard(t)
    const page = await dash.open(t, dash.admin, `${folderPath('team', 'agent')}&file=PERSONA.md`)
    const asked: string[] = []
    page.on('dialog', (dialog) => {
      asked.push(dialog.type())
      void dialog.dismiss()
    })
    // Without a click of the person, the browser would not ask.
    await page.click('#form-save_file-content')
    await page.fill('#form-save_file-content', 'You are brief.')
    await Promise.all([page.waitForEvent('dialog'), page.click('nav.tabs a', { noWaitAfter: true })])
    assert.equal(await page.inputValue('#form-save_file-content'), 'You are brief.')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.waitForSelector('.notice.ok')
    await page.click('nav.tabs a')
    await page.waitForURL(dash.base + folderPath('team'))
    assert.deepEqual(asked, ['beforeunload'])
  })

  test('publish a file of the person, which the front door serves', needs('browser'), async (t) => {
    const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    const page = await dash.open(t, dash.admin, '/dash/folders/team?view=web')
    const file = { name: 'a b.txt', mimeType: 'text/plain', buffer: Buffer.from([104, 105, 13, 10, 0, 255]) }
    await page.setInputFiles('#form-publish-file', file)
    await page.click('#form-publish button')
    await page.getByText('Published /pub/team/a%20b.txt.').waitFor()
    const served = await fetch(`${dash.base}/pub/team/a%20b.txt`)
    assert.deepEqual(Buffer.from(await served.arrayBuffer()), file.buffer)
  })

  test('are reached by the keyboard alone', needs('browser'), async (t) => {
    const dash = await serveDashboard(t)
    const { page } = await openOperatorPage(t, dash)
    // Only then does the palette search.
    await page.locator('#connection', { hasText: /^Live$/ }).waitFor()
    await page.keyboard.press('Control+k')
    await page.waitForSelector('#palette-results a')
    await page.keyboard.type('team')
    await page.keyboard.press('Escape')
    assert.equal(await page.locator('#palette').isVisible(), false)
    await page.keyboard.press('Control+k')
    await page.keyboard.type('team/s')
    await page.waitForSelector('#palette-results [data-query="team/s"] a[href="/dash/folders/team/sub"]')
    await page.keyboard.press('Enter')
    await page.waitForURL(`${dash.base}/dash/folders/team/sub`)
    assert.equal(await page.textContent('h1'), 'team/sub')
    // Before the results of the typed text are there, Enter does not open one of an earlier text.
    await page.locator('#connection', { hasText: /^Live$/ }).waitFor()
    await page.keyboard.press('Control+k')
    await page.waitForSelector('#palette-results a')
    await page.keyboard.type('other')
    await page.keyboard.press('Enter')
    await page.waitForURL(/\/dash\/(search\?q=other|folders\/other)$/)
  })
})
