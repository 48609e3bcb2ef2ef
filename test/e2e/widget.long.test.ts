// The chat page and the widget of a link in a real browser, with a served instance.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import fc from 'fast-check'
import type { BrowserContextOptions, Locator, Page, Request } from 'playwright-core'
import { routeTokensResource } from '../../src/resources/route-tokens.ts'
import { joinModules } from '../../src/web/chat/script.ts'
import { ENGLISH } from '../../src/web/texts/texts.ts'
import { type Visitor, visitor } from '../support/browser.ts'
import { agent } from '../support/host.ts'
import { openLinkedInstance } from '../support/linked-instance.ts'
import { needs } from '../support/needs.ts'
import { type ServedHost, type ServedHostOptions, serveHost } from '../support/served-host.ts'
import { signIn } from '../support/sign-in.ts'
import { until } from '../support/until.ts'

const { issue_apart, issue_chat, revoke } = routeTokensResource.verbs
const HOUR_MS = 3_600_000
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

interface Link {
  readonly url: string
  readonly token: string
  readonly jid: string
}

async function serveMain(t: TestContext, options: ServedHostOptions = {}): Promise<ServedHost> {
  const at = await serveHost(t, options)
  await at.groups('main')
  return at
}

let links = 0
async function mint(at: ServedHost): Promise<Link> {
  links++
  const { token, jid } = await at.as(agent('main')).call(issue_chat, { jid_suffix: `v${links}` })
  return { url: `${at.url()}/chat/${token}/`, token, jid }
}

async function mintApart(at: ServedHost): Promise<Link> {
  links++
  const { token, jid } = await at.cli.call(issue_apart, { target_folder: 'main', jid_suffix: `v${links}` })
  return { url: `${at.url()}/chat/${token}/`, token, jid }
}

async function say(page: Page, text: string): Promise<void> {
  await page.locator('.composer textarea').fill(text)
  await page.locator('.composer textarea').press('Enter')
}

/** Waits until there are `count` answers and no round is pending. */
async function waitForAnswers(page: Page, count: number): Promise<void> {
  await page
    .locator('.message.agent')
    .nth(count - 1)
    .waitFor()
  await page.locator('.status').waitFor({ state: 'detached' })
}

/** The headings in the column of messages, as a screen reader lists them. */
function headingsOf(page: Page): Promise<string[]> {
  return page
    .locator('.column :is(h1, h2, h3, h4, h5, h6)')
    .evaluateAll((nodes) => nodes.map((node) => `${node.tagName} ${node.textContent}`))
}

const textsOf = (found: Locator): Promise<string[]> => found.allInnerTexts()
const questions = (page: Page): Promise<string[]> => textsOf(page.locator('.message.user .text'))
const answers = (page: Page): Promise<string[]> => textsOf(page.locator('.message.agent .prose'))
const inputOf = (page: Page): Promise<string> => page.locator('.composer textarea').inputValue()

/** The current topic of the visitor, from the storage of the browser. */
function topicOf(page: Page): Promise<string> {
  return page.evaluate(() => {
    const [, stored = '{}'] = Object.entries(sessionStorage).find(([key]) => /^svc-chat:\w+$/.test(key)) ?? []
    return String(JSON.parse(stored).id ?? '')
  })
}

function post(link: Link, content: string, topic: string): Promise<Response> {
  return fetch(link.url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ content, topic }),
  })
}

async function scrollsSideways(page: Page): Promise<boolean> {
  return page.evaluate(() => {
    const wide = (node: Element): boolean => node.scrollWidth > node.clientWidth + 1
    return wide(document.documentElement) || wide(document.body) || [...document.querySelectorAll('.log')].some(wide)
  })
}

interface ChatVisit {
  readonly at: ServedHost
  readonly link: Link
  readonly who: Visitor
  readonly page: Page
}

/** Opens a link of a new instance as a new visitor. */
async function open(
  t: TestContext,
  browser: BrowserContextOptions = {},
  serve: ServedHostOptions = {},
): Promise<ChatVisit> {
  const [at, who] = await Promise.all([serveMain(t, serve), visitor(t, browser)])
  const link = await mint(at)
  return { at, link, who, page: await who.open(link.url) }
}

suite('the chat of a link', needs('browser'), () => {
  test('shows the status of the agent and then its answer', async (t) => {
    const { link, who, page } = await open(t)
    await say(page, '/status thinking hard\n/wait 1s\n/say It is **42**.')
    await page.locator('.status', { hasText: 'thinking hard' }).waitFor()
    await waitForAnswers(page, 1)
    assert.deepEqual(await answers(page), ['It is 42.'])
    assert.equal(await page.locator('.prose strong').innerText(), '42')
    assert.equal(await inputOf(page), '')
    assert.ok(!(await page.content()).includes(link.token), 'the page contains the token')
    assert.deepEqual(
      who.asked.filter((url) => !url.startsWith(link.url) && !url.startsWith('data:')),
      [],
    )
    assert.deepEqual(await who.context.cookies(), [])
  })

  test('reports a failed round and a round without an answer', async (t) => {
    const { page } = await open(t)
    await say(page, '/fail the budget is spent')
    await page.locator('.fault', { hasText: 'There is no answer: the agent could not answer' }).waitFor()
    await say(page, '/silent')
    await page.locator('.note').waitFor()
    assert.equal(await page.locator('.status').count(), 0)
  })

  test('shows a reminder in the topic that asked for it, at once and after a reload', async (t) => {
    const { at, link, who, page } = await open(t)
    await say(page, 'remind me in 2m to drink water')
    await waitForAnswers(page, 1)
    const other = await who.open(link.url)
    await other.getByRole('navigation', { name: 'Topics' }).getByRole('button', { name: 'New topic' }).click()
    at.clock.advance(2 * 60_000)
    await waitForAnswers(page, 2)
    const [promise = '', reminder] = await answers(page)
    assert.match(promise, /^I will remind you in 2m/)
    assert.equal(reminder, '⏰ drink water')
    // The page shows neither the prompt of the task nor a pending round for it.
    assert.deepEqual(await questions(page), ['remind me in 2m to drink water'])
    await page.reload()
    await waitForAnswers(page, 2)
    assert.deepEqual(await answers(page), [promise, reminder])
    assert.deepEqual(await answers(other), [])
  })

  test('shows the same in two tabs, each message once', async (t) => {
    const { link, who, page } = await open(t)
    await say(page, '/say one')
    await waitForAnswers(page, 1)
    const other = await who.open(link.url)
    await waitForAnswers(other, 1)
    await say(other, '/say two')
    await say(page, '/say three')
    for (const tab of [page, other]) {
      await waitForAnswers(tab, 3)
      assert.deepEqual((await answers(tab)).sort(), ['one', 'three', 'two'])
    }
    assert.deepEqual(await questions(page), await questions(other))
  })

  test('does not show the messages of another visitor of the same link', async (t) => {
    const { link, page } = await open(t)
    await say(page, '/say private')
    await waitForAnswers(page, 1)
    const stranger = await (await visitor(t)).open(link.url)
    await say(stranger, '/say mine')
    await waitForAnswers(stranger, 1)
    assert.deepEqual(await answers(stranger), ['mine'])
    assert.deepEqual(await answers(page), ['private'])
  })

  test('keeps visitors apart in one topic, with and without script, after a reload and a stop', async (t) => {
    const at = await serveMain(t)
    const link = await mintApart(at)
    const [one, two] = [await (await visitor(t)).open(link.url), await (await visitor(t)).open(link.url)]
    for (const [page, text] of [
      [one, '/say first'],
      [two, '/say second'],
    ] as const) {
      await say(page, text)
      await waitForAnswers(page, 1)
    }
    const topic = await topicOf(one)
    await two.evaluate((name) => {
      const stored = JSON.stringify({ id: name, title: '' })
      for (const key of Object.keys(sessionStorage)) if (/^svc-chat:\w+$/.test(key)) sessionStorage.setItem(key, stored)
    }, topic)
    await two.reload()
    await say(two, '/say third')
    await two.locator('.prose', { hasText: 'third' }).waitFor()
    assert.ok(!(await two.locator('.log').innerText()).includes('first'))
    await one.reload()
    await waitForAnswers(one, 1)
    assert.deepEqual(await answers(one), ['first'])
    await say(one, '/wait 60s')
    await one.getByRole('button', { name: 'Stop' }).click()
    await one.getByText('Stopped').waitFor()

    const plain = await visitor(t, { javaScriptEnabled: false })
    const page = await plain.open(link.url)
    await page.getByLabel('Your message').fill('/wait 60s')
    await page.getByRole('button', { name: 'Send' }).click()
    await page.getByRole('button', { name: 'Stop' }).click()
    await page.getByText('Stopped').waitFor()
    const { pathname } = new URL(link.url)
    const [cookie, ...more] = await plain.context.cookies()
    assert.deepEqual([cookie?.path, cookie?.httpOnly, cookie?.sameSite, more], [pathname, true, 'Lax', []])
    const stranger = await visitor(t, { javaScriptEnabled: false })
    assert.equal((await (await stranger.open(link.url)).goto(page.url()))?.status(), 404)
    await page.getByLabel('Your next message').fill('/say **yes**')
    await page.getByRole('button', { name: 'Send' }).click()
    await page.locator('.message.agent strong', { hasText: 'yes' }).waitFor()
  })

  test('shows the same after a reload, also during a round', async (t) => {
    const { page } = await open(t)
    await say(page, '/say one')
    await waitForAnswers(page, 1)
    await page.locator('.composer textarea').fill('/status at work\n/wait 3s\n/say two')
    await page.locator('.composer textarea').press('Enter')
    await page.locator('.status', { hasText: 'at work' }).waitFor()
    await page.locator('.composer textarea').fill('a draft')
    await page.reload()
    await page.locator('.status', { hasText: 'at work' }).waitFor()
    assert.equal(await inputOf(page), 'a draft')
    await waitForAnswers(page, 2)
    assert.deepEqual(await answers(page), ['one', 'two'])
    assert.equal((await questions(page)).length, 2)
  })

  test('sends an edited message and answers again in branches, with a switch between the versions', async (t) => {
    const at = await serveMain(t)
    const { url } = await mint(at)
    const { open } = await visitor(t)
    const page = await open(url)
    await say(page, '/say one')
    await waitForAnswers(page, 1)
    await say(page, '/say two')
    await waitForAnswers(page, 2)
    const texts = () => page.locator('.message.user .text').allTextContents()
    const second = page.locator('.message.user').nth(1)
    await second.hover()
    await second.getByRole('button', { name: 'Edit' }).click()
    const editor = page.getByLabel('Edit your message')
    await editor.press('Escape')
    assert.equal(await editor.count(), 0)
    await second.getByRole('button', { name: 'Edit' }).click()
    await editor.fill('/say three')
    assert.deepEqual(await findViolations(page), [])
    await editor.press('Enter')
    const versions = page.getByRole('group', { name: 'Versions of this message' })
    await versions.getByText('2 of 2').waitFor()
    await page.locator('.message.agent').getByText('three').waitFor()
    assert.deepEqual(await texts(), ['/say one', '/say three'])
    await page.locator('.message.agent').nth(1).getByRole('button', { name: 'Answer again' }).click()
    await versions.getByText('3 of 3').waitFor()
    await waitForAnswers(page, 2)
    await page.reload()
    await versions.getByText('3 of 3').waitFor()
    assert.deepEqual(await texts(), ['/say one', '/say three'])
    await versions.getByRole('button', { name: 'Previous version' }).click()
    await versions.getByText('2 of 3').waitFor()
    await versions.getByRole('button', { name: 'Previous version' }).press('Enter')
    await versions.getByText('1 of 3').waitFor()
    assert.deepEqual(await texts(), ['/say one', '/say two'])
    await page.emulateMedia({ colorScheme: 'dark' })
    await second.hover()
    assert.deepEqual(await findViolations(page), [])
    assert.equal(await page.locator('.topic').count(), 1, 'no other list')
    assert.ok(await page.getByLabel('All topics').isHidden())
  })

  test('lets a visitor who is apart search, rename and delete topics of the server', async (t) => {
    const at = await serveMain(t)
    const { url } = await mintApart(at)
    const { open } = await visitor(t)
    const page = await open(url)
    await say(page, '/say one')
    await waitForAnswers(page, 1)
    await page.getByRole('button', { name: 'New topic' }).first().click()
    await say(page, '/say zebra')
    await waitForAnswers(page, 1)
    await page.reload()
    const all = page.getByRole('region', { name: 'All topics' })
    await all.getByText('/say zebra').waitFor()
    assert.equal(await all.locator('.topic').count(), 2)
    await all.getByLabel('Search topics').fill('one')
    await all.getByText('/say zebra').waitFor({ state: 'detached' })
    await all.getByText('/say one').hover()
    await all.getByRole('button', { name: 'Rename “/say one”' }).click()
    await all.getByLabel('Title of the topic').fill('The first one')
    assert.deepEqual(await findViolations(page), [])
    await all.getByLabel('Title of the topic').press('Enter')
    await all.getByRole('button', { name: 'The first one', exact: true }).waitFor()
    await all.getByRole('button', { name: 'Delete “The first one”' }).click()
    await page.emulateMedia({ colorScheme: 'dark' })
    assert.deepEqual(await findViolations(page), [])
    await all.getByRole('button', { name: 'Delete', exact: true }).click()
    await page.getByText('The first one').first().waitFor({ state: 'detached' })
    assert.deepEqual(await page.locator('.nav > ul .topic').allTextContents(), ['/say zebra'])
  })

  test('separates topics, lists them, and reopens them', async (t) => {
    const { link, page } = await open(t)
    await say(page, 'The first topic')
    await waitForAnswers(page, 1)
    const first = await topicOf(page)
    await page.getByRole('navigation', { name: 'Topics' }).getByRole('button', { name: 'New topic' }).click()
    await page.locator('.welcome').waitFor()
    await say(page, 'The second topic')
    await waitForAnswers(page, 1)
    assert.deepEqual(await textsOf(page.locator('.topic')), ['The second topic', 'The first topic'])
    await page.locator('.topic', { hasText: 'first' }).click()
    await waitForAnswers(page, 1)
    assert.deepEqual(await questions(page), ['The first topic'])
    await page.reload()
    await waitForAnswers(page, 1)
    assert.deepEqual(await questions(page), ['The first topic'], 'the tab stays in its topic')
    assert.match(first, /^[0-9a-f]{32}$/)
    const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]))
    assert.ok(!kept.includes(link.token))
    await page.getByRole('button', { name: 'Remove “The second topic” from this list' }).click()
    assert.deepEqual(await textsOf(page.locator('.topic')), ['The first topic'])
    await page.locator('.topic:focus', { hasText: 'The first topic' }).waitFor()
  })
})

suite('the chat on a bad connection', needs('browser'), () => {
  test('shows a message as sending on a slow network and sends it once', async (t) => {
    const { who, link, page } = await open(t)
    await page.locator('.composer').waitFor()
    const cdp = await who.context.newCDPSession(page)
    await cdp.send('Network.emulateNetworkConditions', {
      offline: false,
      latency: 600,
      downloadThroughput: 20_000,
      uploadThroughput: 10_000,
    })
    // The post waits until its state was seen.
    const { promise: isSeen, resolve: see } = Promise.withResolvers<void>()
    await page.route(link.url, async (route) => {
      if (route.request().method() === 'POST') await isSeen
      await route.continue()
    })
    await say(page, '/status slowly\n/say arrived')
    await page.locator('.unsent', { hasText: 'Sending' }).waitFor()
    see()
    await waitForAnswers(page, 1)
    assert.equal(await page.locator('.unsent').count(), 0)
    assert.equal((await questions(page)).length, 1)
    assert.deepEqual(await answers(page), ['arrived'])
  })

  test('does not duplicate a message when the response to a post is lost', async (t) => {
    const { link, page } = await open(t)
    let posts = 0
    await page.route(link.url, async (route) => {
      if (route.request().method() !== 'POST') return route.continue()
      posts++
      if (posts > 2) return route.continue()
      await route.fetch()
      return posts === 1 ? route.abort('connectionreset') : route.fulfill({ status: 502, body: 'a proxy lost it' })
    })
    await say(page, '/say once')
    await waitForAnswers(page, 1)
    await page.waitForFunction(() => !Object.keys(sessionStorage).some((key) => key.endsWith(':unsent')))
    assert.equal(posts, 3)
    assert.equal((await questions(page)).length, 1)
    await page.reload()
    await waitForAnswers(page, 1)
    assert.equal((await questions(page)).length, 1)
  })

  test('shows a message once when the stream delivers it before the post is acknowledged', async (t) => {
    const { link, page } = await open(t)
    const acknowledged = Promise.withResolvers<void>()
    await page.route(link.url, async (route) => {
      const response = await route.fetch()
      await acknowledged.promise
      return route.fulfill({ response })
    })
    await say(page, '/say early')
    await waitForAnswers(page, 1)
    assert.equal((await questions(page)).length, 1)
    acknowledged.resolve()
    await page.waitForFunction(() => !Object.keys(sessionStorage).some((key) => key.endsWith(':unsent')))
    assert.equal((await questions(page)).length, 1)
    assert.equal(await page.locator('.unsent').count(), 0)
  })

  test('reports that it is offline and sends pending messages when it is online again', async (t) => {
    const { who, page } = await open(t)
    await say(page, '/say one')
    await waitForAnswers(page, 1)
    await who.context.setOffline(true)
    await page.locator('.notice', { hasText: 'You are offline' }).waitFor()
    await say(page, '/say two')
    await page.locator('.unsent', { hasText: 'Not sent yet' }).waitFor()
    await who.context.setOffline(false)
    await waitForAnswers(page, 2)
    await page.locator('.notice').waitFor({ state: 'hidden' })
    assert.deepEqual(await answers(page), ['one', 'two'])
  })

  test('shows a countdown when the server is busy and keeps the draft', async (t) => {
    const { link, page } = await open(t)
    let isBusy = true
    await page.route(link.url, (route) => {
      if (route.request().method() !== 'POST' || !isBusy) return route.continue()
      return route.fulfill({ status: 503, headers: { 'Retry-After': '2' }, json: { detail: 'busy' } })
    })
    await say(page, '/say at last')
    await page.locator('.notice', { hasText: /The server is busy.*in [12] s/ }).waitFor()
    assert.equal(await inputOf(page), '/say at last')
    assert.ok(await page.locator('.send').isDisabled())
    isBusy = false
    await page.locator('.notice').waitFor({ state: 'hidden' })
    await page.locator('.send').click()
    await waitForAnswers(page, 1)
    assert.equal((await questions(page)).length, 1)
  })
})

suite('what the chat shows', needs('browser'), () => {
  test('shortens a long message until it is expanded, and breaks long words', async (t) => {
    const { page } = await open(t)
    const long = Array.from({ length: 3_000 }, (_, at) => `word${at}`).join(' ')
    await say(page, `/say ${long}\n/say ${'x'.repeat(2_000)}`)
    await waitForAnswers(page, 2)
    const [first = ''] = await answers(page)
    assert.ok(first.length > 1_000 && first.length < 4_000)
    await page.locator('.message.agent').first().getByRole('button', { name: 'Show all' }).click()
    assert.equal((await answers(page))[0], long)
    assert.ok(!(await scrollsSideways(page)))
    assert.equal(await page.locator('.message.user .more').count(), 1, 'the message of the visitor is shortened too')
  })

  test('keeps the scroll position of a reader and offers a button to the latest message', async (t) => {
    const { page } = await open(t)
    await say(page, '/count 40')
    await waitForAnswers(page, 40)
    await page.locator('.latest').waitFor({ state: 'hidden' })
    await page.locator('.log').evaluate((log) => {
      log.scrollTop = 0
    })
    await page.locator('.latest').waitFor()
    await post(await linkOf(page), '/say late', await topicOf(page))
    await waitForAnswers(page, 41)
    assert.equal(await page.locator('.log').evaluate((log) => log.scrollTop), 0)
    await page.locator('.latest').click()
    await page.locator('.latest').waitFor({ state: 'hidden' })
  })

  test('shows markup in messages as text, runs no script, and fetches nothing', async (t) => {
    const { link, who, page } = await open(t)
    const elsewhere = 'http://127.0.0.1:9'
    const hostile = [
      '<script>window.ran = 1</script>',
      `<img src="${elsewhere}/a.png" onerror="window.ran = 2">`,
      '</script><script>window.ran = 3</script>',
      `![pixel](${elsewhere}/b.png)`,
      '[click](javascript:window.ran=4) [data](data:text/html,<script>window.ran=5</script>)',
      `<iframe src="${elsewhere}/c"></iframe><link rel=stylesheet href="${elsewhere}/d.css">`,
      `<style>@import url(${elsewhere}/e.css)</style><base href="${elsewhere}/">`,
      `[ref](${elsewhere}/f "x\\" onmouseover=window.ran=6")`,
    ]
    await say(page, hostile[1] ?? '')
    await waitForAnswers(page, 1)
    await say(page, hostile.map((line) => `/say ${line}`).join('\n'))
    await waitForAnswers(page, 1 + hostile.length)
    for (const { frame } of [{ frame: page }, { frame: await who.open(link.url) }]) {
      await waitForAnswers(frame, 1 + hostile.length)
      const shown = await frame.evaluate(() => ({
        ran: 'ran' in window,
        strange: document.querySelectorAll(
          '.chat :is(script, img, iframe, link, style, base, object, embed, form form)',
        ).length,
        handlers: [...document.querySelectorAll('.chat *')].flatMap((node) =>
          node.getAttributeNames().filter((name) => name.startsWith('on')),
        ),
        links: [...document.querySelectorAll('.prose a')]
          .map((a) => `${a.getAttribute('href')} ${a.getAttribute('rel')} ${a.getAttribute('target')}`)
          .filter((a) => !/^http:\/\/127\.0\.0\.1:9\/[a-f.pngcs]* noreferrer noopener nofollow _blank$/.test(a)),
      }))
      assert.deepEqual(shown, {
        ran: false,
        strange: 0,
        handlers: [],
        links: [],
      })
      for (const line of [hostile[0] ?? '', hostile[2] ?? '']) assert.ok((await answers(frame)).includes(line))
      assert.equal(await frame.locator('.topic').first().innerText(), (hostile[1] ?? '').slice(0, 48))
    }
    assert.deepEqual(
      who.asked.filter((url) => !url.startsWith(link.url) && !url.startsWith('data:')),
      [],
    )
  })

  test('renders any text as inert nodes', async (t) => {
    const { page } = await open(t)
    const pieces = [
      '<',
      '>',
      '"',
      '*',
      '_',
      '`',
      '```\n',
      '[',
      '](',
      ')',
      '!',
      '|',
      '|-|-|\n',
      '|:-|-:|\n',
      '- ',
      '- [x] ',
      '[^1]',
      '[^1]: ',
      '> ',
      '\n',
      '# ',
      'https://a.b',
      'javascript:window.ran=1',
      '<script>window.ran=1</script>',
      '<img src=x onerror=window.ran=1>',
      '\\',
      '\0',
      '\u202e',
      'a',
    ]
    const texts = fc.sample(
      fc.array(fc.constantFrom(...pieces), { maxLength: 40 }).map((all) => all.join('')),
      500,
    )
    const code = joinModules([
      ...['texts/language', '../lib/text/markdown', 'browser/texts', 'browser/nodes', 'browser/icons', 'browser/copy'],
      ...['browser/highlight', 'browser/prose'],
    ])
    // Evaluated through the debugger, because the content security policy of the page forbids it.
    const faults = await page.evaluate(
      `(() => { const TEXTS = ${JSON.stringify(ENGLISH)}
        ${code}
        const known = /^(P|H[3-6]|DIV|SPAN|BUTTON|PRE|CODE|BLOCKQUOTE|UL|OL|LI|TABLE|THEAD|TBODY|TR|TH|TD|HR|BR|STRONG|EM|S|SUP|INPUT|A|svg|path)$/
        return ${JSON.stringify(texts)}.filter((text) => {
          const root = document.createElement('div')
          document.body.append(root)
          root.append(...renderProse(text))
          const nodes = [...root.querySelectorAll('*')]
          return nodes.some((node) => !known.test(node.tagName) || node.getAttributeNames().some((name) => /^(on|style|src)/.test(name))
            || (node.tagName === 'A' && !/^(https?|mailto):$/.test(node.protocol))) || 'ran' in window
        })
      })()`,
    )
    assert.deepEqual(faults, [])
  })
})

suite('the page around the chat', needs('browser'), () => {
  test('loads the highlighter with the first code, colours it with enough contrast, and keeps the chosen theme', async (t) => {
    const { link, who, page } = await open(t)
    const violations: string[] = []
    page.on(
      'console',
      (line) => /Content Security Policy|TrustedScript/.test(line.text()) && violations.push(line.text()),
    )
    const isLoaded = (): boolean => who.asked.includes(`${link.url}highlight.js`)
    await post(
      link,
      '- [x] done[^1]\n- [ ] not\n\n|a|b|\n|-:|-|\n|1|2|\n\n```nonsense\nif (a)\n```\n\n[^1]: note',
      await topicOf(page),
    )
    await waitForAnswers(page, 1)
    assert.equal(isLoaded(), false)
    const tree = page.locator('.prose')
    assert.deepEqual(
      await tree
        .getByRole('checkbox')
        .evaluateAll((nodes) => nodes.map((node) => `${node.ariaLabel} ${node.matches(':checked')}`)),
      ['Done true', 'Not done false'],
    )
    assert.equal(
      await tree
        .locator('td')
        .first()
        .evaluate((node) => getComputedStyle(node).textAlign),
      'right',
    )
    const code = 'const a: string = `b` // c\nreturn new Map(1)'
    await post(link, `\`\`\`ts\n${code}\n\`\`\``, await topicOf(page))
    await page.locator('.token-keyword', { hasText: 'const' }).waitFor()
    assert.ok(isLoaded())
    assert.equal(await page.locator('.prose pre').last().innerText(), code)
    const background = (): Promise<string> => page.evaluate(() => getComputedStyle(document.body).backgroundColor)
    for (const [theme, colour] of [
      ['light', 'rgb(255, 255, 255)'],
      ['dark', 'rgb(21, 23, 29)'],
    ] as const) {
      await page.getByRole('button', { name: /^Theme:/ }).click()
      assert.equal(await page.getByRole('button', { name: /^Theme:/ }).getAttribute('aria-label'), `Theme: ${theme}`)
      assert.equal(await background(), colour)
      assert.deepEqual(await page.evaluate(findPoorContrasts), [], theme)
    }
    await page.emulateMedia({ colorScheme: 'light' })
    await page.reload()
    assert.equal(await background(), 'rgb(21, 23, 29)')
    assert.equal(await page.locator('meta[name=theme-color]').first().getAttribute('content'), '#15171d')
    await page.getByRole('button', { name: 'Theme: dark' }).click()
    await page.getByRole('button', { name: 'Theme: system' }).waitFor()
    assert.equal(await background(), 'rgb(255, 255, 255)')
    assert.deepEqual(violations, [])
  })

  test('can be installed, opens offline with its draft, and is forgotten when the link is revoked', async (t) => {
    const { at, link, who, page } = await open(t)
    const cdp = await who.context.newCDPSession(page)
    const { url, errors } = await cdp.send('Page.getAppManifest')
    assert.deepEqual([url, errors], [`${link.url}manifest.webmanifest`, []])
    const caches = (): Promise<string[]> => page.evaluate(() => globalThis.caches.keys())
    const scopes = (): Promise<string[]> =>
      page.evaluate(async () => (await navigator.serviceWorker.getRegistrations()).map(({ scope }) => scope))
    await page.evaluate(() => navigator.serviceWorker.ready.then(() => undefined))
    assert.deepEqual(await scopes(), [link.url])
    assert.ok(!(await caches()).join().includes(link.token))
    await page.locator('.composer textarea').fill('a draft')
    await who.context.setOffline(true)
    await page.reload()
    // After a reload the emulation does not say that the browser is offline.
    await page.locator('.notice', { hasText: /You are offline|cannot be reached/ }).waitFor()
    assert.equal(await inputOf(page), 'a draft')
    await who.context.setOffline(false)
    await page.locator('.notice').waitFor({ state: 'hidden' })
    await page.locator('.composer textarea').press('Enter')
    await waitForAnswers(page, 1)
    await who.context.setOffline(true)
    await page.reload()
    await page.locator('.composer').waitFor()
    await at.as(agent('main')).call(revoke, { jid: link.jid })
    await who.context.setOffline(false)
    await page.locator('.notice', { hasText: 'This link no longer works' }).waitFor()
    await page.reload()
    await page.locator('.problem').waitFor()
    await until(async () => (await scopes()).length === 0 && (await caches()).length === 0)
  })

  test('links to the dashboard for people who are signed in, and to the folder for its administrators', async (t) => {
    const { at, link, page } = await open(t)
    await page.locator('.composer').waitFor()
    const dashboard = (of: Page): Locator => of.getByRole('link', { name: 'Dashboard' })
    assert.equal(await dashboard(page).count(), 0)
    await at.grant('local:ada', 'admin', 'main')
    await at.grant('local:bob', 'interact', 'main')
    for (const [sub, path] of [
      ['local:ada', '/dash/folders/main'],
      ['local:bob', '/dash/'],
    ] as const) {
      const { cookie } = await signIn(at, sub)
      const who = await visitor(t)
      const [name = '', value = ''] = cookie.split('=')
      await who.context.addCookies([{ name, value, url: at.url() }])
      const own = await who.open(link.url)
      await own.locator('.composer').waitFor()
      assert.equal(await dashboard(own).getAttribute('href'), path)
      if (sub === 'local:ada') {
        // The copy for times without network is that of a stranger.
        await own.evaluate(() => navigator.serviceWorker.ready.then(() => undefined))
        await own.reload()
        await dashboard(own).waitFor()
        await who.context.setOffline(true)
        await own.reload()
        await own.locator('.composer').waitFor()
        assert.equal(await dashboard(own).count(), 0)
      }
    }
  })
})

suite('accessibility of the chat', needs('browser'), () => {
  test('works without JavaScript', async (t) => {
    const { link, page } = await open(t, { javaScriptEnabled: false })
    await page.getByLabel('Your message').fill('Is anyone <b>there</b>?')
    await page.getByRole('button', { name: 'Send' }).click()
    await page.locator('.message.agent').waitFor()
    assert.match(page.url(), new RegExp(`^${link.url}[0-9a-f-]{36}$`))
    assert.equal(await page.locator('.message.user').innerText(), 'Is anyone <b>there</b>?')
    await page.locator('meta[http-equiv]').waitFor({ state: 'detached' })
    await page.getByLabel('Your next message').fill('/say **yes**')
    await page.getByRole('button', { name: 'Send' }).click()
    await page.locator('.message.agent strong', { hasText: 'yes' }).waitFor()
  })

  test('can be used with the keyboard alone', async (t) => {
    const { page } = await open(t)
    const focused = (): Promise<string> =>
      page.evaluate(
        () => document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.textContent ?? '',
      )
    await page.locator('.composer textarea:focus').waitFor()
    await page.keyboard.type('/say one')
    await page.keyboard.press('Shift+Enter')
    await page.keyboard.type('/say two')
    assert.equal(await inputOf(page), '/say one\n/say two')
    await page.keyboard.press('Enter')
    await waitForAnswers(page, 2)
    const seen: string[] = []
    for (let steps = 0; steps < 12; steps++) {
      await page.keyboard.press('Shift+Tab')
      seen.push(await focused())
      if (seen.at(-1) === 'New topic') break
      const outline = await page.evaluate(() => getComputedStyle(document.activeElement ?? document.body).outlineStyle)
      assert.notEqual(outline, 'none', `${seen.at(-1)} has no visible focus`)
    }
    assert.ok(
      seen.includes('Copy this message') && seen.includes('Messages') && seen.includes('New topic'),
      seen.join(', '),
    )
    await page.keyboard.press('Enter')
    await page.locator('.welcome').waitFor()
    assert.equal(await page.evaluate(() => document.activeElement?.tagName), 'TEXTAREA')
  })

  test('does not send on Enter during IME composition', async (t) => {
    const { page } = await open(t)
    const input = page.locator('.composer textarea')
    await input.fill('にほん')
    await input.evaluate((node) => {
      node.dispatchEvent(
        new KeyboardEvent('keydown', { key: 'Enter', isComposing: true, bubbles: true, cancelable: true }),
      )
    })
    assert.equal(await inputOf(page), 'にほん')
    assert.equal(await page.locator('.message').count(), 0)
  })

  test('copies code and messages as written', async (t) => {
    const { who, page } = await open(t)
    await who.context.grantPermissions(['clipboard-read', 'clipboard-write'])
    await post(await linkOf(page), 'Look:\n```sh\necho \t<hi>\n```', await topicOf(page))
    await waitForAnswers(page, 1)
    const clipboard = (): Promise<string> => page.evaluate(() => navigator.clipboard.readText())
    await page.getByRole('button', { name: 'Copy this message' }).click()
    await page.locator('.foot', { hasText: 'Copied' }).waitFor()
    assert.ok((await clipboard()).includes('> Look:'))
    await page.getByRole('button', { name: 'Copy this code' }).click()
    await page.locator('.code-bar', { hasText: 'Copied' }).waitFor()
    assert.equal(await clipboard(), 'echo \t<hi>')
  })

  test('names every control, marks up the log, and has enough contrast', async (t) => {
    for (const colorScheme of ['light', 'dark'] as const) {
      const { page } = await open(t, { colorScheme })
      await say(page, '/say # A\n/say ## B\n/say Some `code`, a [link](https://example.org)\n/fail at the end')
      await page.locator('.fault').waitFor()
      const nameless = await page.evaluate(() =>
        [...document.querySelectorAll('button, a, textarea, nav, [role]')]
          .filter((node) => {
            const label = node instanceof HTMLTextAreaElement ? node.labels?.[0]?.textContent : node.textContent
            return !(node.getAttribute('aria-label') || label) && node.getAttribute('role') !== 'status'
          })
          .map((node) => node.outerHTML),
      )
      assert.deepEqual(nameless, [])
      const log = page.getByRole('log', { name: 'Messages' })
      assert.equal(await log.getAttribute('aria-live'), 'polite')
      await page.locator('.log[aria-busy]').waitFor({ state: 'detached' })
      assert.deepEqual(await headingsOf(page), ['H1 svc', 'H2 Messages', 'H3 A', 'H4 B'])
      assert.equal(await page.locator('html').getAttribute('lang'), 'en')
      const poor = await page.evaluate(findPoorContrasts)
      assert.deepEqual(poor, [], colorScheme)
      const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor)
      assert.equal(background === 'rgb(255, 255, 255)', colorScheme === 'light')
    }
  })

  test('neither scrolls sideways nor zooms on a phone', async (t) => {
    const phone = { viewport: { width: 360, height: 640 }, isMobile: true, hasTouch: true }
    const { page } = await open(t, phone)
    const wide = `| ${'column | '.repeat(20)}`
    const [topic, link] = [await topicOf(page), await linkOf(page)]
    await post(
      link,
      `\`\`\`\n${'code '.repeat(100)}\n\`\`\`\n\n${wide}\n${'|---'.repeat(20)}|\n${wide}\n\n${'w'.repeat(500)}`,
      topic,
    )
    await waitForAnswers(page, 1)
    assert.ok(!(await scrollsSideways(page)))
    const size = await page.locator('.composer textarea').evaluate((node) => getComputedStyle(node).fontSize)
    assert.ok(Number.parseFloat(size) >= 16)
    const box = await page.locator('.composer').boundingBox()
    assert.ok(box && box.y + box.height <= 640)
    await page.getByRole('button', { name: 'Topics' }).click()
    await page.getByRole('navigation', { name: 'Topics' }).getByRole('button', { name: 'New topic' }).waitFor()
    await page.keyboard.press('Escape')
    await page.getByRole('navigation', { name: 'Topics' }).waitFor({ state: 'hidden' })
    assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('aria-label')), 'Topics')
  })

  test('shows that the agent works, and which side a message is on, in forced colours', async (t) => {
    const { page } = await open(t, { forcedColors: 'active' })
    await say(page, '/wait 60s')
    await page.locator('.dots').waitFor()
    const [dot, back, outline] = await page.evaluate(() => {
      const styleOf = (path: string): CSSStyleDeclaration =>
        getComputedStyle(document.querySelector(path) ?? document.body)
      return [
        styleOf('.dots i').backgroundColor,
        styleOf('body').backgroundColor,
        styleOf('.message.user .text').outlineStyle,
      ]
    })
    assert.notEqual(dot, back)
    assert.equal(outline, 'solid')
  })

  test('aligns right-to-left text and its list markers to the right', async (t) => {
    const { page } = await open(t)
    await post(await linkOf(page), 'مرحبا\n\n- نقطة أولى\n- نقطة ثانية', await topicOf(page))
    await waitForAnswers(page, 1)
    const directions = await page.evaluate(() =>
      ['.message.user .text', '.prose blockquote', '.prose > p'].map((path) => {
        const node = document.querySelector(path)
        return node ? getComputedStyle(node).direction : 'none'
      }),
    )
    assert.deepEqual(directions, ['rtl', 'rtl', 'ltr'])
    const inside = await page.evaluate(() => {
      const [item, prose] = [document.querySelector('.prose li'), document.querySelector('.prose')]
      return (item?.getBoundingClientRect().right ?? 0) < (prose?.getBoundingClientRect().right ?? 0) - 10
    })
    assert.ok(inside, 'there is no room for the list markers')
    await page.locator('.composer textarea').fill('مرحبا')
    assert.equal(await page.locator('.composer textarea').evaluate((node) => getComputedStyle(node).direction), 'rtl')
  })

  test('reports a revoked link at once and keeps the draft', async (t) => {
    const { at, link, page } = await open(t)
    await say(page, '/say one')
    await waitForAnswers(page, 1)
    await page.locator('.composer textarea').fill('a draft')
    await at.as(agent('main')).call(revoke, { jid: link.jid })
    await page.locator('.notice', { hasText: 'This link no longer works' }).waitFor()
    assert.equal(await inputOf(page), 'a draft')
    assert.equal(await page.locator('.composer textarea').isEditable(), false)
    assert.ok(await page.locator('.send').isDisabled())
    assert.deepEqual(await answers(page), ['one'], 'the messages are still visible')
    await page.reload()
    await page.locator('.problem').waitFor()
  })
})

suite('the widget on another site', needs('browser'), () => {
  test('shows the chat as a button with a panel', async (t) => {
    const [at, who] = [await serveMain(t), await visitor(t)]
    const [one, two] = [await mint(at), await mint(at)]
    const site = await serveOtherSite(t, at, [
      `<script src="${one.url}widget.js" async data-label="Ask us" data-colour="#ffcc00"></script>`,
      `<script src="${one.url}widget.js" async data-label="Ask us" data-colour="#ffcc00"></script>`,
      `<script src="${two.url}widget.js" async data-title="Help"></script>`,
    ])
    const page = await who.open(site)
    await page.locator('.launcher').nth(1).waitFor()
    assert.equal(await page.locator('svc-chat').count(), 2, 'the same link twice is one button')
    const boxes = await Promise.all([0, 1].map((at) => page.locator('.launcher').nth(at).boundingBox()))
    assert.ok(Math.abs((boxes[0]?.y ?? 0) - (boxes[1]?.y ?? 0)) > 50, 'the buttons of two links overlap')
    assert.ok(!who.asked.some((url) => url.includes('/events')), 'a closed panel opened a stream')
    const launcher = page.getByRole('button', { name: 'Ask us' })
    assert.equal(await launcher.evaluate((node) => getComputedStyle(node).fontFamily.includes('fantasy')), false)
    assert.equal(await launcher.evaluate((node) => getComputedStyle(node).color), 'rgb(0, 0, 0)')
    await launcher.focus()
    await page.keyboard.press('Enter')
    const panel = page.getByRole('dialog', { name: 'Ask us' })
    await panel.waitFor()
    await page.locator('.composer textarea:focus').waitFor()
    await page.keyboard.type('/say from **elsewhere**')
    await page.keyboard.press('Enter')
    await panel.locator('.prose strong', { hasText: 'elsewhere' }).waitFor()
    assert.equal(await panel.locator('.message.agent').count(), 1)
    for (let steps = 0; steps < 12; steps++) {
      await page.keyboard.press('Tab')
      assert.ok(await panel.evaluate((node) => node.matches(':focus-within')), 'the focus left the open panel')
    }
    // Beside the open list of topics the rest of the panel is inert.
    await panel.getByRole('button', { name: 'Topics' }).click()
    for (const key of [...Array(6).fill('Tab'), ...Array(6).fill('Shift+Tab')]) {
      const focused = (): Promise<string | undefined> =>
        panel.evaluate((node) => (node.getRootNode() as ShadowRoot).activeElement?.outerHTML)
      const before = await focused()
      await page.keyboard.press(key)
      assert.ok(await panel.locator('.nav').evaluate((node) => node.matches(':focus-within')), key)
      assert.notEqual(await focused(), before, key)
    }
    await page.keyboard.press('Escape')
    assert.equal(await panel.isVisible(), true)
    await page.keyboard.press('Escape')
    await panel.waitFor({ state: 'hidden' })
    assert.ok(await launcher.evaluate((node) => node.matches(':focus')), 'the focus did not return to the button')
    await page.reload()
    await page.getByRole('button', { name: 'Ask us' }).click()
    await page.locator('.prose strong', { hasText: 'elsewhere' }).waitFor()
    await page.getByRole('button', { name: 'Chat' }).click()
    await page.getByRole('dialog', { name: 'Chat' }).waitFor()
    await panel.waitFor({ state: 'hidden' })
    assert.deepEqual(await who.context.cookies(), [])
    const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]))
    assert.ok(!kept.includes(one.token))
  })

  test('uses the theme of the site or else that of the visitor', async (t) => {
    const [at, who] = [await serveMain(t), await visitor(t, { colorScheme: 'dark' })]
    const page = await who.context.newPage()
    const backgrounds: Record<string, string> = {}
    for (const theme of ['light', 'dark', 'auto', 'nonsense']) {
      const link = await mint(at)
      await page.goto(
        await serveOtherSite(t, at, [`<script src="${link.url}widget.js" async data-theme="${theme}"></script>`]),
      )
      await page.getByRole('button', { name: 'Chat' }).click()
      const panel = page.getByRole('dialog', { name: 'Chat' })
      backgrounds[theme] = await panel.evaluate((node) => {
        const { backgroundColor, colorScheme } = getComputedStyle(node)
        return `${backgroundColor} ${colorScheme}`
      })
    }
    const [light, dark] = ['rgb(255, 255, 255)', 'rgb(21, 23, 29)']
    assert.deepEqual(backgrounds, {
      light: `${light} light`,
      dark: `${dark} dark`,
      auto: `${dark} light dark`,
      nonsense: `${dark} light dark`,
    })
  })

  test('keeps a long label inside a phone screen, with its full accessible name', async (t) => {
    const [at, who] = [await serveMain(t), await visitor(t, { viewport: { width: 360, height: 640 } })]
    const link = await mint(at)
    const label = 'Ask our friendly support team about your order'
    const page = await who.open(
      await serveOtherSite(t, at, [`<script src="${link.url}widget.js" async data-label="${label}"></script>`]),
    )
    const box = await page.getByRole('button', { name: label, exact: true }).boundingBox()
    assert.ok(box && box.x >= 20 && box.x + box.width <= 340, JSON.stringify(box))
    assert.ok(!(await scrollsSideways(page)))
  })

  test('keeps focus and links visible with a bright colour', async (t) => {
    for (const colorScheme of ['light', 'dark'] as const) {
      const [at, who] = [await serveMain(t), await visitor(t, { colorScheme })]
      const link = await mint(at)
      const page = await who.open(
        await serveOtherSite(t, at, [`<script src="${link.url}widget.js" async data-colour="#ffee00"></script>`]),
      )
      await page.getByRole('button', { name: 'Chat' }).click()
      await page.locator('.composer textarea:focus').waitFor()
      await page.keyboard.type('/say a [link](https://example.org)')
      await page.keyboard.press('Enter')
      await page.locator('.prose a').waitFor()
      const rings = await page.evaluate(() => {
        const root = document.querySelector('svc-chat')?.shadowRoot
        const colourOf = (what: string, style: 'outlineColor' | 'borderColor' | 'color'): string => {
          const node = root?.querySelector<HTMLElement>(what)
          node?.focus()
          return node ? getComputedStyle(node)[style] : ''
        }
        root?.querySelector('textarea')?.focus()
        return [colourOf('.box', 'borderColor'), colourOf('.prose a', 'color'), colourOf('.close', 'outlineColor')]
      })
      const text = colorScheme === 'light' ? 'rgb(27, 29, 38)' : 'rgb(231, 233, 240)'
      assert.deepEqual(rings, [text, text, text], colorScheme)
    }
  })

  test('closes the input and shows the reason when the link is revoked', async (t) => {
    const [at, who] = [await serveMain(t), await visitor(t)]
    const link = await mint(at)
    const page = await who.open(await serveOtherSite(t, at, [`<script src="${link.url}widget.js" async></script>`]))
    await page.getByRole('button', { name: 'Chat' }).click()
    await page.locator('.composer textarea:focus').waitFor()
    await page.keyboard.type('/say one')
    await page.keyboard.press('Enter')
    await waitForAnswers(page, 1)
    await at.as(agent('main')).call(revoke, { jid: link.jid })
    await page.locator('.notice', { hasText: 'This link no longer works.' }).waitFor()
    const input = page.locator('.composer textarea')
    assert.ok(await input.isDisabled())
    assert.equal(await input.getAttribute('placeholder'), 'This chat is closed')
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Chat' }).click()
    const panel = page.getByRole('dialog', { name: 'Chat' })
    assert.ok(await panel.evaluate((node) => node.matches(':focus-within')), 'the focus is not in the panel')
  })
})

test('the chat loses and duplicates nothing when the server is killed and restarted', needs('browser'), async (t) => {
  const at = await openLinkedInstance(t)
  const minted = await at.mintChat('visitor')
  const first = await at.start()
  const link = { ...minted, url: first.chat(minted) }
  const page = await (await visitor(t)).open(link.url)
  await say(page, '/say one')
  await waitForAnswers(page, 1)
  await first.kill()
  await page.locator('.notice', { hasText: 'cannot be reached' }).waitFor()
  await say(page, '/say two')
  await page.locator('.unsent', { hasText: 'Not sent yet' }).waitFor()
  await at.start({ env: { PROXYD_LISTEN: new URL(link.url).host } })
  const topic = await topicOf(page)
  for (let count = 3; count < 8; count++) assert.equal((await post(link, `/say number ${count}`, topic)).status, 200)
  await waitForAnswers(page, 7)
  await page.locator('.notice').waitFor({ state: 'hidden' })
  const shown = await answers(page)
  assert.deepEqual([...shown].sort(), ['number 3', 'number 4', 'number 5', 'number 6', 'number 7', 'one', 'two'])
  assert.equal((await questions(page)).length, 7)
  await page.reload()
  await waitForAnswers(page, 7)
  assert.deepEqual(await answers(page), shown, 'the order changed after a reload')
})

suite('the chat reports why a message is refused', needs('browser'), () => {
  test('when it is too long', async (t) => {
    const { page } = await open(t, {}, { settings: { TOKEN_BODY_MAX: '2000' } })
    const long = 'too long '.repeat(500)
    await say(page, long)
    await page.locator('.notice', { hasText: 'This message is too long' }).waitFor()
    assert.equal(await inputOf(page), long)
    assert.equal(await page.locator('.message').count(), 0)
    await say(page, '/say short')
    await waitForAnswers(page, 1)
    await page.locator('.notice').waitFor({ state: 'hidden' })
  })

  test('when there are too many messages, with a countdown', async (t) => {
    const { at, link, page } = await open(t, {}, { settings: { WEBHOOK_RATE_WEB: '60' } })
    await page.locator('.composer').waitFor()
    for (let count = 0; count < 60; count++) assert.equal((await post(link, '/silent', 'other')).status, 200)
    await say(page, '/say again')
    await page.locator('.notice', { hasText: /Too many messages at once.*in \d+ s/ }).waitFor()
    assert.equal(await inputOf(page), '/say again')
    assert.ok(await page.locator('.send').isDisabled())
    at.clock.advance(HOUR_MS)
    await page.locator('.notice').waitFor({ state: 'hidden' })
    await page.locator('.send').click()
    await waitForAnswers(page, 1)
    assert.deepEqual(await answers(page), ['again'])
  })

  test('when the link does not exist', async (t) => {
    const { link, who } = await open(t)
    const page = await who.open(link.url.replace(/.\/$/, link.token.endsWith('A') ? 'E/' : 'A/'))
    assert.ok((await page.locator('.problem').innerText()).includes('401'))
    assert.equal(await page.locator('script').count(), 0)
  })
})

test('a closed panel closes its stream and catches up when it is opened', needs('browser'), async (t) => {
  const [at, who] = [await serveMain(t), await visitor(t)]
  const link = await mint(at)
  const page = await who.context.newPage()
  await page.clock.install()
  await page.goto(await serveOtherSite(t, at, [`<script src="${link.url}widget.js" async></script>`]))
  await page.getByRole('button', { name: 'Chat' }).click()
  await page.locator('.composer textarea:focus').waitFor()
  await page.keyboard.type('/say one')
  await page.keyboard.press('Enter')
  await waitForAnswers(page, 1)
  await page.keyboard.press('Escape')
  const isStream = (request: Request): boolean => request.url().includes('/events')
  const closed = page.waitForEvent('requestfailed', isStream)
  await page.clock.fastForward(120_000)
  await closed
  const topic = await topicOf(page)
  await post(link, '/say two', topic)
  const again = page.waitForRequest(isStream)
  await page.getByRole('button', { name: 'Chat' }).click()
  assert.ok((await again).headers()['last-event-id'], 'the stream does not resume from the last event')
  await waitForAnswers(page, 2)
  assert.deepEqual(await answers(page), ['one', 'two'])
})

/** A file whose name would be markup, and whose real extension would be hidden if the server kept the name. */
const HOSTILE_NAME = `<img src=x onerror="window.ran=1">\u202efdp.exe`
const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAFklEQVR42mNwCz5PEmIY1TCqYfhqAADaSmgQCOcybQAAAABJRU5ErkJggg==',
  'base64',
)
const textFile = (name: string, size: number) => ({ name, mimeType: 'text/plain', buffer: Buffer.alloc(size, 'a') })

const chips = (page: Page): Locator => page.locator('.chip')
const sentFiles = (page: Page): Locator => page.locator('.message.user:not(.unsent) .files')

async function chooseFiles(page: Page, ...files: { name: string; mimeType: string; buffer: Buffer }[]): Promise<void> {
  const chooser = page.waitForEvent('filechooser')
  await page.getByRole('button', { name: 'Add files' }).click()
  await (await chooser).setFiles(files)
}

/** Pastes or drops a picture or a text as a program of the visitor would. */
function transfer(page: Page, kind: 'paste' | 'drop', name: string, type: string): Promise<void> {
  return page.evaluate(
    async ([event, fileName, mime, picture]) => {
      const bytes = mime === 'image/png' ? new Uint8Array(picture) : 'dropped'
      const data = new DataTransfer()
      data.items.add(new File([bytes], fileName, { type: mime }))
      const init = { bubbles: true, composed: true, cancelable: true }
      const input = document.querySelector('.composer textarea')
      if (event === 'paste') input?.dispatchEvent(new ClipboardEvent('paste', { ...init, clipboardData: data }))
      else
        for (const step of ['dragenter', 'dragover', 'drop'])
          document.querySelector('.log')?.dispatchEvent(new DragEvent(step, { ...init, dataTransfer: data }))
    },
    [kind, name, type, [...PNG]] as const,
  )
}

/** Whether the images of the log are loaded, once they are. */
async function waitForImages(page: Page, count: number): Promise<void> {
  await page.waitForFunction((expected) => {
    const root = document.querySelector('svc-chat')?.shadowRoot ?? document
    const images = [...root.querySelectorAll<HTMLImageElement>('.message:not(.unsent) .picture img')]
    return images.filter(({ complete, naturalWidth }) => complete && naturalWidth === 16).length === expected
  }, count)
}

const PHONE = { viewport: { width: 390, height: 780 }, isMobile: true, hasTouch: true }

suite('files in the chat', needs('browser'), () => {
  test('are chosen, pasted, dropped, removed, sent without a text, and shown again after a reload', async (t) => {
    const { page, who } = await open(t, PHONE)
    await chooseFiles(page, { name: 'photo.png', mimeType: 'image/png', buffer: PNG }, textFile(HOSTILE_NAME, 1536))
    await transfer(page, 'paste', 'image.png', 'image/png')
    await transfer(page, 'drop', 'notes.txt', 'text/plain')
    await transfer(page, 'drop', 'wrong.txt', 'text/plain')
    await chips(page).nth(4).waitFor()
    assert.equal(await chips(page).locator('img').count(), 2)
    await page.getByRole('button', { name: 'Remove wrong.txt' }).press('Enter')
    assert.equal(await page.evaluate(() => document.activeElement?.getAttribute('aria-label')), 'Remove notes.txt')
    assert.equal(await page.getByRole('button', { name: 'Take a photo' }).count(), 1)
    assert.ok(!(await scrollsSideways(page)))
    assert.deepEqual(await findViolations(page), [])
    await page.getByRole('button', { name: 'Send' }).click()
    await waitForAnswers(page, 1)
    assert.equal(await chips(page).count(), 0)
    for (const round of ['sent', 'reloaded']) {
      await waitForImages(page, 2)
      assert.equal(await page.locator('.message.user').count(), 1, round)
      assert.equal(await page.locator('.message.user .text').count(), 0)
      const cards = page.locator('.message.user .file')
      assert.deepEqual(
        (await cards.allInnerTexts()).map((text) => text.split('\n').filter(Boolean)),
        [
          ['EXE', '<img src=x onerror="window.ran=1">fdp.exe', '1.5 KB'],
          ['TXT', 'notes.txt', '7 bytes'],
        ],
      )
      assert.equal(await page.evaluate(() => 'ran' in window), false)
      if (round === 'sent') await page.reload()
    }
    assert.deepEqual(await findViolations(page), [])
    const downloaded = page.waitForEvent('download')
    await page.getByRole('link', { name: 'Download notes.txt, 7 bytes' }).click()
    assert.equal(readFileSync(await (await downloaded).path(), 'utf8'), 'dropped')
    const opened = who.context.waitForEvent('page')
    await page.locator('.picture').first().click()
    assert.equal(await (await opened).locator('img').count(), 1)
  })

  test('of a link that keeps visitors apart are loaded once, when they are shown, and released with their topic', async (t) => {
    const [at, who] = [await serveMain(t), await visitor(t, PHONE)]
    await who.context.addInitScript(() => {
      const live = new Set<string>()
      const { createObjectURL, revokeObjectURL } = URL
      URL.createObjectURL = (of) => {
        const url = createObjectURL(of)
        live.add(url)
        return url
      }
      URL.revokeObjectURL = (url) => {
        live.delete(url)
        revokeObjectURL(url)
      }
      Reflect.set(globalThis, 'live', live)
    })
    const page = await who.open((await mintApart(at)).url)
    const loads = (): number => who.asked.filter((url) => url.includes('/files/')).length
    const live = (): Promise<number> => page.evaluate(() => Reflect.get(globalThis, 'live').size)
    const photo = (name: string) => ({ name, mimeType: 'image/png', buffer: PNG })
    await chooseFiles(page, photo('1.png'), textFile('a.txt', 5))
    await page.getByRole('button', { name: 'Send' }).click()
    await waitForAnswers(page, 1)
    await waitForImages(page, 1)
    assert.equal(loads(), 0)
    await say(page, '/count 20')
    await waitForAnswers(page, 21)
    // The picture has left the visible part.
    await until(async () => (await live()) === 0)
    await page.reload()
    await waitForAnswers(page, 21)
    assert.equal(loads(), 0)
    await page.locator('.picture').scrollIntoViewIfNeeded()
    await waitForImages(page, 1)
    assert.deepEqual([loads(), await live()], [1, 1])
    await page.getByRole('button', { name: 'New topic' }).last().click()
    assert.equal(await live(), 0)
    await page.getByRole('button', { name: 'Topics' }).click()
    await page.locator('.topic').first().click()
    await waitForAnswers(page, 21)
    await page.locator('.picture').scrollIntoViewIfNeeded()
    await waitForImages(page, 1)
    assert.equal(loads(), 1)
    const downloaded = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Download a.txt, 5 bytes' }).click()
    assert.equal(readFileSync(await (await downloaded).path(), 'utf8'), 'aaaaa')
    assert.equal(loads(), 2)
  })

  test('that were not loaded are tried again while they are shown', async (t) => {
    const [at, who] = [await serveMain(t), await visitor(t)]
    const page = await who.open((await mintApart(at)).url)
    await chooseFiles(page, { name: 'photo.png', mimeType: 'image/png', buffer: PNG })
    await say(page, '/say here')
    await waitForAnswers(page, 1)
    await page.clock.install()
    await page.route('**/files/*', (route) => route.abort('connectionreset'), { times: 1 })
    await page.reload()
    await page.locator('.picture', { hasText: 'photo.png' }).waitFor()
    await page.clock.runFor(5_000)
    await waitForImages(page, 1)
  })

  test('do not move a reader while images load', async (t) => {
    const { page } = await open(t, PHONE)
    const held = Promise.withResolvers<void>()
    await chooseFiles(page, { name: 'photo.png', mimeType: 'image/png', buffer: PNG })
    await say(page, '/count 20')
    await waitForAnswers(page, 20)
    await page.route('**/files/*', async (route) => {
      await held.promise
      await route.continue()
    })
    await page.reload()
    await waitForAnswers(page, 20)
    const top = (): Promise<number> =>
      page
        .locator('.message.agent')
        .nth(3)
        .evaluate((node) => node.getBoundingClientRect().top)
    await page.locator('.log').evaluate((log) => {
      log.scrollTop = 100
    })
    const before = await top()
    held.resolve()
    await waitForImages(page, 1)
    assert.equal(await top(), before)
  })

  test('above a limit are not added, and a sentence says why', async (t) => {
    const { page } = await open(t, {}, { settings: { ATTACHMENT_MAX: '2KiB' } })
    await chooseFiles(page, textFile('fits.txt', 2048), textFile('large.txt', 2049))
    await page
      .locator('.notice', { hasText: 'Not added: \u2068large.txt\u2069. A file may have at most 2 KB.' })
      .waitFor()
    await chooseFiles(page, ...Array.from({ length: 10 }, (_, at) => textFile(`${at}.txt`, 1)))
    await page
      .locator('.notice', { hasText: 'Not added: \u20689.txt\u2069. A message may have at most 10 files.' })
      .waitFor()
    assert.equal(await chips(page).count(), 10)
    await say(page, '/say all')
    await waitForAnswers(page, 1)
    await page.locator('.notice').waitFor({ state: 'hidden' })
    assert.equal(await sentFiles(page).locator('.file').count(), 10)
  })

  test('with names from right to left stay beside their icons, in sentences from left to right', async (t) => {
    const { page } = await open(t, {}, { settings: { ATTACHMENT_MAX: '2KiB' } })
    await chooseFiles(page, textFile('דוח.pdf', 1), textFile('שלום.txt', 2049))
    const sentence = page.locator('.notice p')
    await sentence.waitFor()
    assert.equal(await sentence.evaluate((node) => getComputedStyle(node).direction), 'ltr')
    const lefts = await page
      .locator('.chip .file-text > *')
      .evaluateAll((nodes) => nodes.map((node) => node.getBoundingClientRect().left))
    const widths = await page
      .locator('.chip .file-text > *')
      .evaluateAll((nodes) => nodes.map((node) => node.getBoundingClientRect().width))
    assert.equal(lefts[0], lefts[1])
    assert.ok((widths[0] ?? 0) < 100, String(widths))
  })

  test('dropped together with a folder are added without it, and one that is gone from the disk is named', async (t) => {
    const { page } = await open(t)
    await page.evaluate(() => {
      const isDirectory = (item: DataTransferItem): boolean => item.getAsFile()?.name === 'folder'
      DataTransferItem.prototype.webkitGetAsEntry = function () {
        return { isDirectory: isDirectory(this) } as FileSystemEntry
      }
      const data = new DataTransfer()
      for (const name of ['a.txt', 'folder', 'b.txt']) data.items.add(new File(['x'], name))
      const drop = new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer: data })
      document.querySelector('.log')?.dispatchEvent(drop)
    })
    await page.locator('.notice', { hasText: 'A folder cannot be sent.' }).waitFor()
    assert.deepEqual(await chips(page).locator('b').allInnerTexts(), ['a.txt', 'b.txt'])
    const path = join(mkdtempSync(join(tmpdir(), 'svc-lost-')), 'lost.txt')
    t.after(() => rmSync(dirname(path), { recursive: true }))
    writeFileSync(path, 'here')
    const chooser = page.waitForEvent('filechooser')
    await page.getByRole('button', { name: 'Add files' }).click()
    await (await chooser).setFiles(path)
    await chips(page).nth(2).waitFor()
    rmSync(path)
    await say(page, '/say sent')
    await page.locator('.notice', { hasText: 'A file cannot be read any more: lost.txt. Remove it.' }).waitFor()
    assert.equal(await inputOf(page), '/say sent')
    await page.getByRole('button', { name: 'Remove lost.txt' }).click()
    await page.getByRole('button', { name: 'Send' }).click()
    await waitForAnswers(page, 1)
    assert.equal(await sentFiles(page).locator('.file').count(), 2)
  })

  test('show progress, can be cancelled, and come back into the composer with the text', async (t) => {
    const { page, who } = await open(t, PHONE)
    const cdp = await who.context.newCDPSession(page)
    const limitUpload = (uploadThroughput: number): Promise<unknown> =>
      cdp.send('Network.emulateNetworkConditions', {
        offline: false,
        latency: 0,
        downloadThroughput: -1,
        uploadThroughput,
      })
    await limitUpload(100_000)
    await chooseFiles(page, textFile('long.txt', 1_000_000))
    await say(page, '/say it is here')
    const bar = page.getByRole('progressbar', { name: 'Upload' })
    await page.waitForFunction(() => {
      const value = document.querySelector('progress')?.value ?? 0
      return value > 0.05 && value < 1
    })
    assert.equal(await chips(page).count(), 0)
    await page.getByRole('button', { name: 'Cancel' }).click()
    await bar.waitFor({ state: 'detached' })
    assert.equal(await inputOf(page), '/say it is here')
    assert.ok(await page.locator('.composer textarea').evaluate((node) => node.matches(':focus')))
    assert.equal(await chips(page).count(), 1)
    await limitUpload(-1)
    await page.getByRole('button', { name: 'Send' }).click()
    await waitForAnswers(page, 1)
    assert.equal(await page.locator('.message.user').count(), 1)
  })

  test('are sent again with the same key after a lost connection, and stored once', async (t) => {
    const { link, page } = await open(t)
    const keys = new Set<string | undefined>()
    let posts = 0
    await page.route(link.url, async (route) => {
      if (route.request().method() !== 'POST') return route.continue()
      posts++
      keys.add(route.request().headers()['idempotency-key'])
      if (posts === 1) return route.abort('connectionreset')
      if (posts > 2) return route.continue()
      await route.fetch()
      return route.abort('connectionreset')
    })
    await chooseFiles(page, textFile('a.txt', 5))
    await say(page, '/say once')
    await waitForAnswers(page, 1)
    await page.waitForFunction(() => !Object.keys(sessionStorage).some((key) => key.endsWith(':unsent')))
    assert.deepEqual([posts, keys.size], [3, 1])
    await page.reload()
    await waitForAnswers(page, 1)
    assert.equal(await sentFiles(page).count(), 1)
  })

  test('that the server refuses come back into the composer, with its sentence', async (t) => {
    const { link, page } = await open(t)
    const detail = 'there is no space for files'
    for (const status of [413, 415, 507]) {
      await page.route(link.url, (route) => route.fulfill({ status, json: { detail } }), { times: 1 })
      if (status === 413) await chooseFiles(page, textFile('a.txt', 5))
      if (status === 413) await page.locator('.composer textarea').fill('/say later')
      await page.getByRole('button', { name: 'Send' }).click()
      await page.locator('.notice', { hasText: 'There is no space for files.' }).waitFor()
      assert.deepEqual([await inputOf(page), await chips(page).count()], ['/say later', 1])
      assert.equal(await page.locator('.message').count(), 0)
    }
    await page.getByRole('button', { name: 'Send' }).click()
    await waitForAnswers(page, 1)
    assert.equal(await sentFiles(page).count(), 1)
  })

  test('of an upload that a reload ended are named, and the text is in the input again', async (t) => {
    const { link, page } = await open(t)
    await page.route(link.url, (route) =>
      route.request().method() === 'POST' ? route.abort('connectionreset') : route.continue(),
    )
    await chooseFiles(page, textFile('lost.txt', 5))
    await say(page, '/say again')
    await page.locator('.unsent', { hasText: 'Not sent yet' }).waitFor()
    await page.reload()
    await page.locator('.notice', { hasText: 'Add the files again and send your message: lost.txt.' }).waitFor()
    assert.equal(await inputOf(page), '/say again')
    assert.equal(await page.locator('.unsent').count(), 0)
  })

  test('of an upload that the server has are shown once after a reload', async (t) => {
    const { link, page } = await open(t)
    const isSaved = Promise.withResolvers<void>()
    await page.route(link.url, async (route) => {
      if (route.request().method() !== 'POST') return route.continue()
      await route.fetch()
      isSaved.resolve()
    })
    await chooseFiles(page, textFile('a.txt', 5))
    await say(page, '/say once')
    await isSaved.promise
    await page.reload()
    await waitForAnswers(page, 1)
    await page.waitForFunction(() => !Object.keys(sessionStorage).some((key) => key.endsWith(':unsent')))
    assert.deepEqual([await page.locator('.message.user').count(), await inputOf(page)], [1, ''])
    assert.ok(await page.locator('.notice').isHidden())
  })

  test('of an upload that a reload ended have the same key when they are sent again', async (t) => {
    const { link, page } = await open(t)
    const keys: (string | undefined)[] = []
    await page.route(link.url, (route) => {
      if (route.request().method() !== 'POST') return route.continue()
      keys.push(route.request().headers()['idempotency-key'])
      return keys.length === 1 ? undefined : route.continue()
    })
    await chooseFiles(page, textFile('a.txt', 5))
    await say(page, '/say once')
    await until(() => keys.length === 1)
    await page.reload()
    await page.locator('.notice', { hasText: 'Add the files again' }).waitFor()
    await chooseFiles(page, textFile('a.txt', 5))
    await page.locator('.send').click()
    await waitForAnswers(page, 1)
    await say(page, '/say more')
    await waitForAnswers(page, 2)
    assert.deepEqual([keys.length, new Set(keys).size, keys[0] === keys[1]], [3, 2, true])
  })

  test('are kept with the topic in which they were added', async (t) => {
    const { page } = await open(t)
    await say(page, '/say one')
    await waitForAnswers(page, 1)
    await chooseFiles(page, textFile('a.txt', 5))
    await page.getByRole('navigation', { name: 'Topics' }).getByRole('button', { name: 'New topic' }).click()
    assert.equal(await chips(page).count(), 0)
    await page.locator('.topic').click()
    await chips(page).waitFor()
  })

  test('are voice messages that a visitor records, hears and sends', needs('full browser'), async (t) => {
    const [at, who] = [await serveMain(t), await visitor(t, PHONE, 'chromium')]
    const page = await who.open((await mint(at)).url)
    const record = page.getByRole('button', { name: 'Record a voice message' })
    await record.click()
    await page.locator('.notice', { hasText: 'does not allow this page to use the microphone' }).waitFor()
    await who.context.grantPermissions(['microphone'])
    await record.click()
    await page.getByRole('timer').getByText('0:01').waitFor()
    await page.getByRole('button', { name: 'Discard the recording' }).click()
    await page.getByRole('timer').waitFor({ state: 'hidden' })
    assert.equal(await chips(page).count(), 0)
    await record.click()
    await page.getByRole('timer').getByText('0:01').waitFor()
    await page.getByRole('button', { name: 'Finish the recording' }).click()
    const plays = (where: string): Promise<boolean> =>
      page.locator(`${where} audio`).evaluate(async (audio: HTMLAudioElement) => {
        audio.muted = true
        await audio.play()
        return audio.currentSrc !== '' && audio.error === null
      })
    assert.ok(await plays('.chip'))
    assert.equal(
      await page.evaluate(() => document.activeElement?.getAttribute('aria-label')),
      'Record a voice message (at most 10 minutes)',
    )
    await record.click()
    await page.getByRole('timer').getByText('0:01').waitFor()
    await page.evaluate(() => {
      Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true })
      document.dispatchEvent(new Event('visibilitychange'))
    })
    await page.locator('.chip.audio').nth(1).waitFor()
    await page.getByRole('timer').waitFor({ state: 'hidden' })
    await page.evaluate(() => {
      Reflect.deleteProperty(document, 'visibilityState')
      document.dispatchEvent(new Event('visibilitychange'))
    })
    await page
      .getByRole('button', { name: /^Remove Voice/ })
      .last()
      .click()
    await page.getByRole('button', { name: 'Send' }).click()
    await waitForAnswers(page, 1)
    await page.reload()
    await waitForAnswers(page, 1)
    assert.ok(await plays('.message.user'))
  })

  test('are sent and shown by the widget of another site', async (t) => {
    const [at, who] = [await serveMain(t), await visitor(t)]
    const link = await mint(at)
    const page = await who.open(await serveOtherSite(t, at, [`<script src="${link.url}widget.js" async></script>`]))
    await page.getByRole('button', { name: 'Chat' }).click()
    await chooseFiles(page, { name: 'photo.png', mimeType: 'image/png', buffer: PNG })
    await page.locator('.chip img').waitFor()
    await page.getByRole('button', { name: 'Send' }).click()
    await waitForAnswers(page, 1)
    await waitForImages(page, 1)
  })
})

suite('a message that the server does not take at once', needs('browser'), () => {
  const refuseOnce = (page: Page, url: string, status: number, detail: string, retryAfter = 0): Promise<unknown> =>
    page.route(
      url,
      (route) =>
        route.fulfill({ status, json: { detail }, headers: retryAfter ? { 'Retry-After': `${retryAfter}` } : {} }),
      { times: 1 },
    )
  const edit = async (page: Page, text: string): Promise<void> => {
    await page.locator('.message.user').last().hover()
    await page.getByRole('button', { name: 'Edit', exact: true }).last().click()
    await page.getByLabel('Edit your message').fill(text)
    await page.getByLabel('Edit your message').press('Enter')
  }

  test('waits until the end of the countdown, whatever the notice shows and however it is sent', async (t) => {
    const [at, who] = [await serveMain(t, { settings: { ATTACHMENT_MAX: '2KiB' } }), await visitor(t)]
    const { url } = await mint(at)
    const page = await who.context.newPage()
    await page.clock.install()
    await page.goto(url)
    await say(page, '/fail once')
    await page.getByRole('button', { name: 'Try again' }).waitFor()
    let posts = 0
    page.on('request', (request) => {
      if (request.method() === 'POST') posts++
    })
    await refuseOnce(page, url, 429, 'slow down', 30)
    await say(page, '/say at last')
    const countdown = page.locator('.notice', { hasText: /Too many messages at once.*in \d+ s/ })
    await countdown.waitFor()
    await chooseFiles(page, textFile('large.txt', 4096))
    await page.locator('.notice', { hasText: 'A file may have at most 2 KB' }).waitFor()
    await page.locator('.composer textarea').press('Enter')
    await countdown.waitFor()
    await edit(page, '/say edited')
    assert.equal(await page.getByLabel('Edit your message').inputValue(), '/say edited')
    await page.getByRole('button', { name: 'Cancel' }).click()
    await page.getByRole('button', { name: 'Try again' }).click()
    assert.equal(await page.getByRole('button', { name: 'Try again' }).count(), 1)
    assert.deepEqual([posts, await page.locator('.send').isDisabled()], [1, true])
    await page.clock.fastForward(31_000)
    await page.locator('.notice').waitFor({ state: 'hidden' })
    await page.locator('.send:enabled').click()
    await waitForAnswers(page, 1)
    assert.deepEqual(await answers(page), ['at last'])
  })

  test('as another version is refused at its message, with the edited text', async (t) => {
    const { link, page } = await open(t)
    await say(page, '/say one')
    await waitForAnswers(page, 1)
    await page.locator('.composer textarea').fill('a draft')
    await refuseOnce(page, link.url, 409, 'the conversation has too many topics')
    await edit(page, '/say two')
    const reason = page.locator('.message.user .refused', { hasText: 'The conversation has too many topics.' })
    await reason.waitFor()
    assert.equal(await page.getByLabel('Edit your message').inputValue(), '/say two')
    assert.deepEqual([await inputOf(page), await page.locator('.notice').isVisible()], ['a draft', false])
    assert.deepEqual(await findViolations(page), [])
    await page.getByLabel('Edit your message').press('Enter')
    await page.getByText('2 of 2').waitFor()
    await waitForAnswers(page, 1)
    assert.deepEqual([await answers(page), await inputOf(page)], [['two'], 'a draft'])
    await refuseOnce(page, link.url, 409, 'the conversation has too many topics')
    await page.getByRole('button', { name: 'Answer again' }).click()
    await reason.waitFor()
    assert.deepEqual(await answers(page), ['two'])
    assert.deepEqual([await inputOf(page), await page.getByLabel('Edit your message').count()], ['a draft', 0])
    await page.getByRole('button', { name: 'Answer again' }).click()
    await page.getByText('3 of 3').waitFor()
  })

  test('as another version waits at its message for the end of the countdown', async (t) => {
    const { link, page } = await open(t)
    await say(page, '/say one')
    await waitForAnswers(page, 1)
    await refuseOnce(page, link.url, 429, 'slow down', 2)
    await edit(page, '/say two')
    await page.locator('.message.user .refused', { hasText: 'Too many messages at once.' }).waitFor()
    await page.locator('.notice', { hasText: /in [12] s/ }).waitFor()
    await page.getByLabel('Edit your message').press('Enter')
    await page.locator('.notice').waitFor({ state: 'hidden' })
    assert.equal(await page.getByLabel('Edit your message').inputValue(), '/say two')
    await page.getByLabel('Edit your message').press('Enter')
    await page.getByText('2 of 2').waitFor()
    await waitForAnswers(page, 1)
    assert.deepEqual(await answers(page), ['two'])
  })

  test('is sent when the server is back, also as another version and in a topic that is not shown', async (t) => {
    const [at, who] = [await serveMain(t), await visitor(t)]
    const { url } = await mint(at)
    const page = await who.context.newPage()
    await page.clock.install()
    await page.goto(url)
    await say(page, '/say one')
    await waitForAnswers(page, 1)
    await page.route(url, (route) => (route.request().method() === 'POST' ? route.abort() : route.continue()))
    await edit(page, '/say two')
    await page.locator('.unsent', { hasText: 'Not sent yet. Trying again' }).waitFor()
    await page.reload()
    const waiting = page.locator('.unsent', { hasText: '/say two' })
    await waiting.waitFor()
    assert.equal(await page.locator('.message.user:visible').count(), 1)
    assert.ok(await page.locator('.send').isDisabled())
    while (!(await waiting.getByRole('button', { name: 'Try again' }).isVisible())) await page.clock.runFor(1_000)
    const topics = page.getByRole('navigation', { name: 'Topics' })
    await topics.getByRole('button', { name: 'New topic' }).click()
    await page.unroute(url)
    const sent = page.waitForResponse((response) => response.request().method() === 'POST')
    await page.clock.fastForward(60_000)
    assert.equal((await sent).status(), 200)
    await topics.getByRole('button', { name: '/say one', exact: true }).click()
    await page.getByText('2 of 2').waitFor()
    await waitForAnswers(page, 1)
    assert.deepEqual(await answers(page), ['two'])
  })

  test('keeps the order in which it was written', async (t) => {
    const { link, page } = await open(t)
    let posts = 0
    await page.route(link.url, (route) =>
      route.request().method() === 'POST' && ++posts === 1 ? route.abort() : route.continue(),
    )
    await say(page, '/say one')
    await page.locator('.unsent', { hasText: 'Not sent yet. Trying again' }).waitFor()
    await say(page, '/say two')
    await waitForAnswers(page, 2)
    assert.deepEqual(await questions(page), ['/say one', '/say two'])
  })

  test('can be cancelled while it waits, and is stored once if it is sent again', async (t) => {
    const { link, page } = await open(t)
    const keys: (string | undefined)[] = []
    await page.route(link.url, async (route) => {
      if (route.request().method() !== 'POST') return route.continue()
      keys.push(route.request().headers()['idempotency-key'])
      if (keys.length > 1) return route.continue()
      await route.fetch()
      return route.abort()
    })
    // Before its stream has the message.
    await page.route('**/events?*', (route) => route.abort())
    await page.reload()
    await say(page, '/say once')
    await page.locator('.unsent').getByRole('button', { name: 'Cancel' }).click()
    await page.locator('.composer textarea:focus').waitFor()
    assert.deepEqual([await inputOf(page), await page.locator('.message').count()], ['/say once', 0])
    await page.unroute('**/events?*')
    await page.locator('.composer textarea').press('Enter')
    await waitForAnswers(page, 1)
    assert.deepEqual([await questions(page), new Set(keys).size], [['/say once'], 1])
  })

  test('that arrives too slowly comes back with a sentence', async (t) => {
    const { link, page } = await open(t)
    await refuseOnce(page, link.url, 408, 'the request did not arrive in time')
    await say(page, '/say slowly')
    await page.locator('.notice', { hasText: 'Your connection was too slow or was interrupted' }).waitFor()
    assert.equal(await inputOf(page), '/say slowly')
  })

  test('keeps its state and its text when the storage of the browser is full', async (t) => {
    const { link, who, page } = await open(t)
    await say(page, '/say one')
    await waitForAnswers(page, 1)
    await page.evaluate(() => {
      Storage.prototype.setItem = () => {
        throw new DOMException('full', 'QuotaExceededError')
      }
    })
    await page.getByRole('navigation', { name: 'Topics' }).getByRole('button', { name: 'New topic' }).click()
    await say(page, '/say two')
    await waitForAnswers(page, 1)
    assert.deepEqual(await textsOf(page.locator('.nav > ul .topic')), ['/say two', '/say one'])
    await page.locator('.composer textarea').fill('a draft')
    await page.locator('.topic', { hasText: 'one' }).click()
    assert.equal(await inputOf(page), '')
    await page.locator('.topic', { hasText: 'two' }).click()
    assert.equal(await inputOf(page), 'a draft')
    await waitForAnswers(await who.open(link.url), 1)
  })
})

suite('a stop', needs('browser'), () => {
  test('that is refused for its rate says so, and does not keep messages from being sent', async (t) => {
    const { page } = await open(t)
    await page.route('**/stop', (route) => route.fulfill({ status: 429, headers: { 'Retry-After': '9' }, json: {} }), {
      times: 1,
    })
    await say(page, '/wait 60s')
    await page.getByRole('button', { name: 'Stop' }).click()
    await page
      .locator('.notice', { hasText: 'Too many requests at once, so the answer was not stopped. Try again in 9 s.' })
      .waitFor()
    await page.locator('.composer textarea').fill('next')
    assert.ok(await page.locator('.send').isEnabled())
    await page.keyboard.press('Escape')
    await page.getByText('Stopped').waitFor()
  })

  test(
    'is not meant by Escape in the search, in the question before a deletion, or while recording',
    needs('full browser'),
    async (t) => {
      const at = await serveMain(t)
      const { url } = await mintApart(at)
      const { open, asked } = await visitor(t, { permissions: ['microphone'] }, 'chromium')
      const page = await open(url)
      await say(page, '/wait 60s')
      const all = page.getByRole('region', { name: 'All topics' })
      const row = all.getByRole('button', { name: '/wait 60s', exact: true })
      await row.waitFor()
      await all.getByLabel('Search topics').fill('nothing')
      await all.getByText('No topic was found.').waitFor()
      await all.getByLabel('Search topics').press('Escape')
      await row.waitFor()
      await row.hover()
      await all.getByRole('button', { name: 'Delete “/wait 60s”' }).click()
      assert.deepEqual(await findViolations(page), [])
      await page.keyboard.press('Escape')
      await page.locator('.change[aria-label^="Delete"]:focus').waitFor()
      await page.getByRole('button', { name: 'Record a voice message' }).click()
      await page.getByRole('timer').getByText('0:01').waitFor()
      await page.keyboard.press('Escape')
      await chips(page).waitFor()
      assert.ok(!asked.some((address) => address.endsWith('/stop')))
      await page.locator('.log').press('Escape')
      await page.getByText('Stopped').waitFor()
    },
  )
})

suite('a page that is used in a hurry', needs('browser'), () => {
  test('shows an unsent message over a reload, also if an earlier one is the same', async (t) => {
    const { link, page } = await open(t)
    await say(page, '/say yes')
    await waitForAnswers(page, 1)
    await page.route(link.url, (route) => (route.request().method() === 'POST' ? route.abort() : route.continue()))
    await say(page, '/say yes')
    await page.locator('.unsent', { hasText: 'Not sent yet' }).waitFor()
    await page.reload()
    await page.locator('.log[aria-busy]').waitFor({ state: 'detached' })
    await page.locator('.unsent', { hasText: 'Not sent yet' }).waitFor()
    await page.unroute(link.url)
    await waitForAnswers(page, 2)
    assert.deepEqual(await questions(page), ['/say yes', '/say yes'])
  })

  test('keeps the focus in the messages when a button with the focus is gone', async (t) => {
    const { page } = await open(t)
    await say(page, '/wait 60s')
    await page.getByRole('button', { name: 'Stop' }).press('Enter')
    await page.locator('.log:focus').waitFor()
    await page.getByText('Stopped').waitFor()
  })

  test('keeps a title of another tab', async (t) => {
    const at = await serveMain(t)
    const who = await visitor(t)
    const { url } = await mintApart(at)
    const page = await who.open(url)
    await say(page, '/say one')
    await waitForAnswers(page, 1)
    const other = await who.open(url)
    await other.getByRole('button', { name: 'Rename “/say one”' }).press('Enter')
    await other.getByLabel('Title of the topic').fill('Renamed')
    await other.keyboard.press('Enter')
    await page.locator('.nav > ul').getByText('Renamed').waitFor()
    await say(page, '/say two')
    await waitForAnswers(page, 2)
    assert.deepEqual(await textsOf(page.locator('.nav > ul .topic')), ['Renamed'])
  })

  test('opens a topic on a phone without its keyboard', async (t) => {
    const { page } = await open(t, PHONE)
    await say(page, '/say one')
    await waitForAnswers(page, 1)
    await page.getByRole('button', { name: 'New topic' }).tap()
    await page.getByRole('button', { name: 'Topics' }).tap()
    await page.locator('.topic', { hasText: 'one' }).tap()
    await page.locator('.log:focus').waitFor()
  })
})

suite('all topics', needs('browser'), () => {
  const openApart = async (t: TestContext, browser: BrowserContextOptions = {}): Promise<Page> => {
    const at = await serveMain(t)
    const page = await (await visitor(t, browser)).open((await mintApart(at)).url)
    await say(page, '/say one')
    await waitForAnswers(page, 1)
    return page
  }
  const allOf = (page: Page): Locator => page.getByRole('region', { name: 'All topics' })

  test('are those of the server after the first message of a topic, a new title and a deletion', async (t) => {
    const page = await openApart(t)
    const all = allOf(page)
    await all.getByRole('button', { name: '/say one', exact: true }).waitFor()
    await page.getByRole('button', { name: 'New topic' }).first().click()
    await say(page, '/say two')
    await all.getByRole('button', { name: '/say two', exact: true }).waitFor()
    await all.getByRole('button', { name: 'Rename “/say two”' }).press('Enter')
    await all.getByLabel('Title of the topic').fill('Second')
    await page.keyboard.press('Enter')
    await page.locator('.change[aria-label="Rename “Second”"]:focus').waitFor()
    await waitForAnswers(page, 1)
    await all.getByRole('button', { name: 'Delete “Second”' }).press('Enter')
    await page.keyboard.press('Escape')
    await page.locator('.change[aria-label="Delete “Second”"]:focus').press('Enter')
    await all.getByRole('group', { name: 'Delete “Second” with its messages?' }).waitFor()
    await all.getByRole('button', { name: 'Delete', exact: true }).click()
    await all.getByRole('button', { name: 'Second', exact: true }).waitFor({ state: 'detached' })
    await all.locator('.topic:focus', { hasText: '/say one' }).waitFor()
  })

  test('can be left without a new title on a phone, and say why a title is refused', async (t) => {
    const page = await openApart(t, PHONE)
    const all = allOf(page)
    await page.getByRole('button', { name: 'Topics' }).tap()
    await all.getByRole('button', { name: 'Rename “/say one”' }).tap()
    await all.getByLabel('Title of the topic').fill('Another title')
    await page.route('**/topics/*', (route) => route.fulfill({ status: 429, json: {} }), { times: 1 })
    await all.getByRole('button', { name: 'Save' }).tap()
    await all.getByText('Too many requests at once, so the topic was not changed. Try again in 1 s.').waitFor()
    assert.deepEqual(await findViolations(page), [])
    assert.ok(!(await scrollsSideways(page)))
    await all.getByRole('button', { name: 'Cancel' }).tap()
    await all.getByRole('button', { name: '/say one', exact: true }).waitFor()
    assert.equal(await page.locator('.send').isDisabled(), true, 'the input is empty')
  })

  test('open a topic that stays after a reload, as a new topic does', async (t) => {
    const page = await openApart(t)
    await page.getByRole('button', { name: 'New topic' }).first().click()
    await say(page, '/say two')
    await waitForAnswers(page, 1)
    await page.getByRole('button', { name: 'Remove “/say one” from this list' }).click()
    await allOf(page).getByRole('button', { name: '/say one', exact: true }).click()
    await page.locator('.prose', { hasText: 'one' }).waitFor()
    await page.reload()
    await page.locator('.prose', { hasText: 'one' }).waitFor()
    assert.deepEqual(await answers(page), ['one'])
    await page.getByRole('button', { name: 'New topic' }).first().click()
    const topic = await topicOf(page)
    await page.locator('.composer textarea').fill('a draft')
    await page.reload()
    assert.deepEqual([await inputOf(page), await topicOf(page)], ['a draft', topic])
    await page.locator('.nav > ul .topic', { hasText: 'two' }).click()
    await page.getByRole('button', { name: 'New topic' }).first().click()
    assert.deepEqual([await inputOf(page), await topicOf(page)], ['a draft', topic])
  })
})

test(
  'the microphone stays off if the panel is closed before the visitor allows it',
  needs('full browser'),
  async (t) => {
    const [at, who] = [await serveMain(t), await visitor(t, { permissions: ['microphone'] }, 'chromium')]
    const link = await mint(at)
    const page = await who.open(await serveOtherSite(t, at, [`<script src="${link.url}widget.js" async></script>`]))
    await page.evaluate(() => {
      const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices)
      navigator.mediaDevices.getUserMedia = async (constraints) => {
        await new Promise((resolve) => document.addEventListener('allowed', resolve))
        const stream = await open(constraints)
        Reflect.set(globalThis, 'microphone', stream)
        return stream
      }
    })
    await page.getByRole('button', { name: 'Chat' }).click()
    await page.getByRole('button', { name: 'Record a voice message' }).click()
    await page.getByRole('button', { name: 'Close' }).click()
    await page.evaluate(() => document.dispatchEvent(new Event('allowed')))
    await page.waitForFunction(() => {
      const stream: unknown = Reflect.get(globalThis, 'microphone')
      return stream instanceof MediaStream && stream.getTracks().every(({ readyState }) => readyState === 'ended')
    })
    await page.getByRole('button', { name: 'Chat' }).click()
    assert.ok(await page.getByRole('timer').isHidden())
  },
)

/** Serves a page on another origin, with a strict policy and with styles that could break an embedded widget. */
async function serveOtherSite(t: TestContext, at: ServedHost, scripts: readonly string[]): Promise<string> {
  const style = '* { font-family: fantasy !important } button { font-size: 40px; position: static !important }'
  const site = createServer((_, response) => {
    response.writeHead(200, {
      'Content-Type': 'text/html',
      'Content-Security-Policy': `default-src 'none'; style-src 'unsafe-inline'; script-src ${at.url()}; connect-src ${at.url()}; img-src ${at.url()} blob:; media-src ${at.url()} blob:`,
    })
    response.end(`<!doctype html><html lang="en"><head><title>A site</title><link rel="icon" href="data:,">
      <style>${style}</style>${scripts.join('')}</head><body><h1>A site</h1></body></html>`)
  })
  site.listen(0, '127.0.0.1')
  await once(site, 'listening')
  t.after(() => {
    site.closeAllConnections()
    site.close()
  })
  return `http://localhost:${(site.address() as AddressInfo).port}/`
}

async function linkOf(page: Page): Promise<Link> {
  await page.locator('.composer').waitFor()
  return { url: page.url(), token: '', jid: '' }
}

/** Runs in the browser: texts with a contrast below 4.5 : 1 to their background (WCAG 2.2, 1.4.3). */
function findPoorContrasts(): string[] {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true })
  const luminance = (colour: string): number => {
    if (!canvas) return 0
    canvas.fillStyle = colour
    canvas.fillRect(0, 0, 1, 1)
    const [red = 0, green = 0, blue = 0] = [...canvas.getImageData(0, 0, 1, 1).data].map((part) => {
      const share = part / 255
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
    })
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
  }
  const backgroundOf = (node: Element | null): string => {
    if (!node) return 'white'
    const { backgroundColor } = getComputedStyle(node)
    return /^rgba\(.*, 0\)$/.test(backgroundColor) ? backgroundOf(node.parentElement) : backgroundColor
  }
  return [...document.querySelectorAll('.chat *')]
    .filter((node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent?.trim()))
    .filter((node) => node.getClientRects().length > 0 && !node.closest('.hidden, :disabled'))
    .filter((node) => {
      const [a, b] = [luminance(getComputedStyle(node).color), luminance(backgroundOf(node))]
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5
    })
    .map((node) => `${node.className}: ${node.textContent?.slice(0, 40)}`)
}

/** Rules of WCAG 2.2, levels A and AA, that the page breaks. */
async function findViolations(page: Page): Promise<string[]> {
  await page.evaluate(AXE)
  return page.evaluate(`axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa'] }).then(({ violations }) =>
    violations.map(({ id, nodes }) => id + ' at ' + nodes[0].html.slice(0, 200)))`)
}
