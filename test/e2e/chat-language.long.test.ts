// The languages of the chat page and of the widget, in a real browser.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { suite, type TestContext, test } from 'node:test'
import type { BrowserContextOptions, Locator, Page } from 'playwright-core'
import { routeTokensResource } from '../../src/resources/route-tokens.ts'
import { visitor } from '../support/browser.ts'
import { agent } from '../support/host.ts'
import { needs } from '../support/needs.ts'
import { serveHost } from '../support/served-host.ts'

const { issue_chat, revoke } = routeTokensResource.verbs
const PHONE = {
  viewport: { width: 320, height: 640 },
  isMobile: true,
  hasTouch: true,
  reducedMotion: 'reduce',
} as const

async function openLink(t: TestContext, options: BrowserContextOptions) {
  const [at, who] = [await serveHost(t), await visitor(t, options)]
  await at.groups('main')
  const { token, jid } = await at.as(agent('main')).call(issue_chat, { jid_suffix: 'v' })
  const url = `${at.url()}/chat/${token}/`
  return { at, who, url, revoke: () => at.as(agent('main')).call(revoke, { jid }) }
}

/** Opens a page of another site with the widget. */
async function openSite(t: TestContext, html: string, script = '', options: BrowserContextOptions = {}) {
  const link = await openLink(t, { locale: 'en-US', ...options })
  const head = `<title>A site</title><script src="${link.url}widget.js" async ${script}></script>`
  const body = `<!doctype html><html ${html}><head>${head}</head><body></body></html>`
  const site = createServer((_, response) => void response.setHeader('Content-Type', 'text/html').end(body))
  site.listen(0, '127.0.0.1')
  await once(site, 'listening')
  t.after(() => {
    site.closeAllConnections()
    site.close()
  })
  const page = await link.who.open(`http://localhost:${(site.address() as AddressInfo).port}/`)
  await page.locator('.launcher').waitFor()
  return { ...link, page }
}

async function openPanel(page: Page): Promise<Locator> {
  await page.locator('.launcher').click()
  await page.locator('.composer textarea:focus').waitFor()
  return page.locator('.panel')
}

async function say(page: Page, text: string): Promise<void> {
  await page.locator('.composer textarea').fill(text)
  await page.locator('.composer textarea').press('Enter')
}

const placeholderOf = (page: Page): Promise<string | null> =>
  page.locator('.composer textarea').getAttribute('placeholder')

/** What is cut off, broken into lines or wider than its place. Only names and titles may end in an ellipsis. */
function findCut(page: Page): Promise<string[]> {
  return page.evaluate(`(() => {
    const root = document.querySelector('svc-chat')?.shadowRoot ?? document
    const width = document.documentElement.clientWidth
    const seen = [...root.querySelectorAll('button, p, span, h1, h2, label, textarea, summary')].filter((node) =>
      node.getClientRects().length > 0 && !node.closest('.hidden, .keys, [inert]') && getComputedStyle(node).visibility === 'visible')
    const isCut = (node) => {
      const { left, right, height } = node.getBoundingClientRect()
      if (node.matches('.quiet') && height > 40) return true
      return node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).display !== 'inline' || left < -1 || right > width + 1
    }
    const isWide = [document.documentElement, document.body, ...root.querySelectorAll('.log')].some((node) => node.scrollWidth > node.clientWidth + 1)
    return [...seen.filter((node) => isCut(node) && !node.matches('.topic, h1, .title *')).map((node) => node.outerHTML.slice(0, 120)), ...(isWide ? ['scrolls sideways'] : [])]
  })()`)
}

suite('the language of the chat page', needs('browser'), () => {
  test('is German for a browser that prefers it: texts, tools, failures and times', async (t) => {
    const { who, url, revoke } = await openLink(t, { locale: 'de-AT' })
    const page = await who.open(url)
    assert.equal(await page.locator('html').getAttribute('lang'), 'de')
    assert.equal(await placeholderOf(page), 'Nachricht …')
    await page.getByText('Nachrichten und Antworten bleiben in diesem Thema erhalten').waitFor()
    await say(page, '/say eins\n/wait 3s\n/say zwei')
    await page.locator('.doing', { hasText: 'Eine Nachricht wird gesendet …' }).waitFor()
    await page.locator('.message.agent').waitFor()
    const time = page.locator('.message.agent time')
    assert.match((await time.getAttribute('title')) ?? '', /^\d{1,2}\.\d{1,2}\.\d{4}, \d{2}:\d{2}:\d{2}$/)
    assert.match(await time.innerText(), /\d{2}:\d{2}$/)
    await say(page, '/fail the budget is spent')
    await page
      .getByText('Es gibt keine Antwort: der Agent konnte nicht antworten; bitte später erneut versuchen')
      .waitFor()
    await page.getByRole('button', { name: 'Erneut versuchen' }).waitFor()
    await say(page, '/wait 60s')
    await page.getByRole('button', { name: 'Antwort stoppen' }).click()
    await page.getByText('Gestoppt.').waitFor()
    await revoke()
    await page.locator('.notice', { hasText: 'Dieser Link funktioniert nicht mehr.' }).waitFor()
    assert.equal(await placeholderOf(page), 'Dieser Chat ist geschlossen')
    await page.reload()
    await page.getByRole('heading', { name: 'Dieser Link funktioniert nicht' }).waitFor()
    await page.getByText('Diesen Link gibt es nicht, oder er wurde widerrufen.').waitFor()
  })

  test('is that of the URL, whatever the browser prefers', async (t) => {
    const { who, url } = await openLink(t, { locale: 'en-US' })
    const page = await who.open(`${url}?lang=de`)
    assert.equal(await placeholderOf(page), 'Nachricht …')
    await say(page, '/say eins')
    await page.locator('.message.agent time', { hasText: /\d{2}:\d{2}$/ }).waitFor()
    await page.goto(`${url}?lang=xx`)
    assert.equal(await placeholderOf(page), 'Write a message')
    await page.locator('.message.agent time', { hasText: /[AP]M$/ }).waitFor()
  })

  test('is German on a page without script', async (t) => {
    const { who, url } = await openLink(t, { locale: 'de-DE', javaScriptEnabled: false })
    const page = await who.open(url)
    await page.getByLabel('Nachricht', { exact: true }).fill('/silent')
    await page.getByRole('button', { name: 'Senden' }).click()
    await page.getByText('Darauf gibt es keine Antwort.').waitFor()
    await page.getByLabel('Nächste Nachricht').waitFor()
  })

  test('cuts nothing in German on a narrow phone', async (t) => {
    const { who, url } = await openLink(t, { locale: 'de-DE', ...PHONE })
    const page = await who.open(url)
    const { height = 0 } = (await page.locator('.composer textarea').boundingBox()) ?? {}
    assert.ok(height < 45, `an empty input has one line, not ${height} px`)
    assert.deepEqual(await findCut(page), [])
    await page.getByRole('button', { name: 'Themen', exact: true }).tap()
    await page.locator('.with-topics').waitFor()
    assert.deepEqual(await findCut(page), [])
    await page.keyboard.press('Escape')
    await say(page, '/say **fertig**\n/say noch etwas')
    await page.locator('.message.agent').nth(1).waitFor()
    await page.locator('.act', { hasText: 'Neu beantworten' }).first().waitFor()
    assert.deepEqual(await findCut(page), [])
    await page.locator('.act', { hasText: 'Bearbeiten' }).tap()
    assert.deepEqual(await findCut(page), [])
    await page.getByRole('button', { name: 'Abbrechen' }).tap()
    await say(page, '/say eins\n/wait 3s\n/say zwei')
    await page.locator('.doing', { hasText: 'Eine Nachricht wird gesendet …' }).waitFor()
    assert.deepEqual(await findCut(page), [])
    await say(page, '/fail x')
    await page.getByRole('button', { name: 'Erneut versuchen' }).waitFor()
    assert.deepEqual(await findCut(page), [])
  })
})

suite('the language of the widget', needs('browser'), () => {
  test('is that of the site, with a chat of its own', async (t) => {
    const { who, url, page } = await openSite(t, 'lang="de-AT"')
    const panel = await openPanel(page)
    assert.equal(await panel.getAttribute('lang'), 'de')
    assert.equal(await placeholderOf(page), 'Nachricht …')
    await page.getByRole('button', { name: 'Schließen' }).waitFor()
    assert.deepEqual(
      who.asked.filter((address) => /chat\.\S*js/.test(address)),
      [`${url}chat.de.js`],
    )
    await say(page, '/say eins')
    await page.locator('.message.agent', { hasText: 'eins' }).waitFor()
    await page.getByRole('button', { name: 'Nachricht kopieren' }).waitFor()
  })

  test('says in it that the chat is loading and was not loaded', async (t) => {
    const { page } = await openSite(t, 'lang="de"')
    let fail = (): void => {}
    await page.route(/chat\.de\.js/, async (route) => {
      await new Promise<void>((resolve) => {
        fail = resolve
      })
      await route.abort()
    })
    await page.locator('.launcher').click()
    await page.getByText('Wird geladen …').waitFor()
    fail()
    await page.getByText('Der Chat konnte nicht geladen werden.').waitFor()
    await page.unroute(/chat\.de\.js/)
    await page.getByRole('button', { name: 'Erneut versuchen' }).click()
    await page.locator('.composer textarea:focus').waitFor()
    assert.equal(await placeholderOf(page), 'Nachricht …')
  })

  test('is that of the script before that of the site', async (t) => {
    const { who, url, page } = await openSite(t, 'lang="de"', 'data-lang="en"', { locale: 'de-DE' })
    const panel = await openPanel(page)
    assert.equal(await panel.getAttribute('lang'), 'en')
    assert.equal(await placeholderOf(page), 'Write a message')
    assert.ok(who.asked.includes(`${url}chat.js`) && !who.asked.includes(`${url}chat.de.js`))
  })

  test('is that of the visitor on a site that names none', async (t) => {
    const { page } = await openSite(t, '', '', { locale: 'de-CH' })
    await openPanel(page)
    assert.equal(await placeholderOf(page), 'Nachricht …')
  })

  test('is English on a site in another language, laid out in the direction of the site', async (t) => {
    const { page } = await openSite(t, 'lang="ar" dir="rtl"', '', { locale: 'de-DE' })
    const panel = await openPanel(page)
    assert.equal(await panel.getAttribute('lang'), 'en')
    assert.equal(await placeholderOf(page), 'Write a message')
    const centreOf = async (part: string): Promise<number> => {
      const { x = 0, width = 0 } = (await page.locator(part).boundingBox()) ?? {}
      return x + width / 2
    }
    assert.ok((await centreOf('.head .toggle')) > (await centreOf('.head .close')), 'the head begins at the right')
    assert.ok((await centreOf('.composer .clip')) > (await centreOf('.composer .send')))
    await page
      .locator('.welcome p:dir(ltr)', { hasText: 'Your messages and the answers stay in this topic.' })
      .waitFor()
    await say(page, '/say Good morning.\n/wait 3s\n/say Bye.')
    await page.locator('.doing:dir(ltr)', { hasText: 'Sending a message …' }).waitFor()
    await page.locator('.message.agent', { hasText: 'Good morning.' }).waitFor()
    await page.locator('.prose p:dir(ltr)').waitFor()
    await page.locator('.panel:dir(rtl)').waitFor()
    assert.deepEqual(await findCut(page), [])
  })

  test('cuts nothing in German on a narrow phone', async (t) => {
    const { page } = await openSite(t, 'lang="de"', '', PHONE)
    await page.locator('.launcher').tap()
    await page.locator('.composer').waitFor()
    assert.deepEqual(await findCut(page), [])
    await page.getByRole('button', { name: 'Themen', exact: true }).tap()
    await page.locator('.with-topics').waitFor()
    assert.deepEqual(await findCut(page), [])
  })
})
