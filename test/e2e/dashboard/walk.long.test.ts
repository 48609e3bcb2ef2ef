// From the printed sign-in link to a working team, in a browser alone: someone connects a model, creates a folder, hands out
// a chat link and a webhook, allows a denied host, sets a budget, invites a colleague to that folder alone, finds out why
// a message failed, and retries it.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { suite, type TestContext, test } from 'node:test'
import type { Locator, Page } from 'playwright-core'
import { visitor } from '../../support/browser.ts'
import { chatEndpoint, replyError, replyModels, replyText, replyWhole } from '../../support/chat-endpoint.ts'
import { freePort } from '../../support/free-port.ts'
import { needs } from '../../support/needs.ts'
import { CLIENT, serveRealProvider } from '../../support/openid-servers.ts'
import { tempDir } from '../../support/temp.ts'

const SVC = join(dirname(dirname(dirname(import.meta.dirname))), 'bin/svc.js')

/** Starts the program as `npm start` does and returns the printed sign-in link. */
async function start(t: TestContext, port: number, env: Readonly<Record<string, string>>): Promise<string> {
  const child = spawn(SVC, ['start', '--port', String(port)], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, SVC_DATA_DIR: tempDir(t), ...env },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  t.after(async () => {
    child.kill('SIGTERM')
    if (child.exitCode === null) await once(child, 'exit')
  })
  for await (const line of createInterface({ input: child.stdout })) {
    const link = /^ {2}(http:\S+\/auth\/link\/\S+)$/.exec(line)?.[1]
    if (link !== undefined) {
      child.stdout.resume()
      return link
    }
  }
  return assert.fail('no sign-in link')
}

const button = (page: Page, name: string): Locator => page.getByRole('button', { name, exact: true })
const linkTo = (page: Page, name: string): Locator => page.getByRole('link', { name, exact: true })

/** Fills the form with this button and sends it. Labels select the fields. */
async function submit(page: Page, name: string, fields: Readonly<Record<string, string>>): Promise<void> {
  const form = page.locator('form', { has: button(page, name) })
  for (const [label, value] of Object.entries(fields)) {
    const field = form.getByLabel(new RegExp(`^${label}( \\(optional\\))?$`))
    if ((await field.evaluate((element) => element.tagName)) === 'SELECT') await field.selectOption(value)
    else await field.fill(value)
  }
  await form.getByRole('button', { name, exact: true }).click()
}

const done = (page: Page, text: RegExp): Promise<void> => page.locator('.notice.ok').filter({ hasText: text }).waitFor()

/** The value that the page shows once, such as a new link. */
const shownOnce = async (page: Page, pattern: RegExp): Promise<string> =>
  pattern.exec(await page.locator('main').innerText())?.[0] ?? assert.fail(await page.locator('main').innerText())

async function say(page: Page, words: string): Promise<void> {
  await page.getByRole('textbox').fill(words)
  await page.keyboard.press('Enter')
}

suite('someone who never used the command line', needs('browser', 'bubblewrap', 'curl'), () => {
  test('runs a team from the sign-in link of npm start', async (t) => {
    const endpoint = await chatEndpoint(t)
    endpoint.answer(replyModels(['small'], replyWhole('hello')))
    const port = await freePort()
    const base = `http://localhost:${port}`
    const claims = { grace: { name: 'Grace', email: 'grace@example.com', email_verified: true } }
    const issuer = await serveRealProvider(t, `${base}/auth/provider/acme/callback`, claims)
    const oidc = { OIDC_ACME_ISSUER: issuer, OIDC_ACME_ID: CLIENT.id, OIDC_ACME_SECRET: CLIENT.secret }
    const { open } = await visitor(t)
    const page = await open(await start(t, port, oidc))
    await button(page, 'Sign in').click()
    await page.waitForURL(`${base}/dash/`)

    // A model.
    await linkTo(page, 'Connect a model').click()
    await linkTo(page, 'Another address').click()
    const model = { 'Base URL': endpoint.url, Key: 'sk-never-shown', Model: 'small', Price: 'free' }
    await submit(page, 'Test and save', model)
    await done(page, /answered in .*hello.* Saved/)
    assert.doesNotMatch(await page.content(), /sk-never-shown/)

    // A folder.
    await linkTo(page, 'Folders').click()
    await submit(page, 'Create folder', { Folder: 'shop', Name: 'Shop' })
    await done(page, /^Folder shop created\.$/)

    // A chat link, which a visitor uses.
    await linkTo(page, 'Links').click()
    await submit(page, 'Create chat link', { Context: 'Customers of the shop.' })
    await linkTo(page, 'Done').waitFor()
    const chat = await shownOnce(page, /http:\S+\/chat\/\S+/)
    await page.getByRole('img', { name: 'QR code of the link' }).waitFor()
    const customer = await (await visitor(t)).open(chat)
    endpoint.answer(replyText('We open at nine.'))
    await say(customer, 'When do you open?')
    await customer.getByText('We open at nine.').waitFor()
    assert.match(JSON.stringify(endpoint.asked.at(-1)?.body.messages), /Customers of the shop\./)

    // A webhook with a context.
    await linkTo(page, 'Done').click()
    await submit(page, 'Create webhook', { Source: 'till', Context: 'Sales. Say the total.' })
    await linkTo(page, 'Done').waitFor()
    const hook = await shownOnce(page, /http:\S+\/hook\/[A-Za-z0-9_-]+/)
    endpoint.answer(replyText('The total is 12.'))
    assert.equal((await fetch(hook, { method: 'POST', body: '{"sold":12}' })).status, 204)
    await linkTo(page, 'Done').click()
    await page
      .getByRole('row', { name: /hook:shop\/till/ })
      .getByRole('link')
      .first()
      .click()
    const delivery = page.getByRole('table', { name: /^Messages through hook:shop\/till/ })
    await delivery.getByText('answered').waitFor()
    assert.match(JSON.stringify(endpoint.asked.at(-1)?.body.messages), /Say the total\./)

    // An agent that is a program, and the host that it was denied.
    await linkTo(page, 'Child folders').click()
    await submit(page, 'Create folder', { Folder: 'stock' })
    await done(page, /^Folder shop\/stock created\.$/)
    await linkTo(page, 'Agent').click()
    await linkTo(page, 'Your own program').click()
    await page.getByLabel('Save without a test call').check()
    await submit(page, 'Test and save', { 'Shell command': 'curl -sS https://stock.example.com/ || echo no stock' })
    await done(page, /^Saved/)
    await linkTo(page, 'Chat').click()
    await button(page, 'Open the chat').click()
    await page.waitForURL(`${base}/chat/**`)
    await say(page, 'How many are left?')
    await page.getByText('no stock').waitFor()
    await page.goto(`${base}/dash/`)
    await button(page, 'Allow stock.example.com for shop/stock').click()
    await done(page, /^The host is allowed\.$/)
    await page.goto(`${base}/dash/folders/shop/stock?view=network`)
    await page.getByRole('row', { name: /stock\.example\.com.*local:operator/ }).waitFor()

    // A budget.
    await page.goto(`${base}/dash/folders/shop`)
    await linkTo(page, 'Budget').click()
    await submit(page, 'Set cap', { 'Dollars per day': '2.50' })
    await done(page, /^The folder may spend \$2\.50 a day\.$/)

    // A colleague, for that folder alone.
    await linkTo(page, 'Invites').click()
    await submit(page, 'Create the link', { 'Folders that they will administer': 'shop' })
    await linkTo(page, 'All invites').waitFor()
    const colleague = await (await visitor(t)).open(await shownOnce(page, /http:\S+\/invite\/\S+/))
    await button(colleague, 'Sign in to accept').click()
    await colleague.getByRole('link', { name: /acme/i }).click()
    await colleague.locator('input[name=login]').fill('grace')
    await colleague.locator('input[name=password]').fill('any')
    await colleague.locator('button[type=submit]').click()
    await colleague.locator('button[type=submit]').click()
    await button(colleague, 'Accept').click()
    await colleague.waitForURL(`${base}/chat/~*/`)
    await colleague.goto(`${base}/dash/folders`)
    await linkTo(colleague, 'shop').waitFor()
    const statuses = await Promise.all(
      ['folders/shop', 'folders/shop/stock', 'folders/main', 'model', 'people'].map(async (path) =>
        (await colleague.request.get(`${base}/dash/${path}`)).status(),
      ),
    )
    assert.deepEqual(statuses, [200, 404, 404, 404, 404])

    // A message fails; the visitor learns only that, and the operator why.
    endpoint.answer(replyError(401, { message: 'The key has expired.' }))
    await say(customer, 'And on Sunday?')
    await page.goto(`${base}/dash/`)
    const failed = page.getByRole('listitem').filter({ hasText: 'And on Sunday?' })
    await failed.getByText('The key has expired.').waitFor()
    await failed.getByRole('link', { name: 'Why', exact: true }).click()
    await page.getByText('The key has expired.').first().waitFor()
    assert.doesNotMatch(await customer.content(), /key has expired/)

    // The cause is removed, and a retry answers.
    endpoint.answer(replyText('On Sunday we are closed.'))
    await page.getByRole('button', { name: /^Retry message/ }).click()
    await done(page, /^The message waits for another attempt\.$/)
    await page.locator('main').getByText('answered').first().waitFor()
    await customer.getByText('On Sunday we are closed.').waitFor()
  })
})
