// Two dashboards in a real browser while messages arrive quickly.
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setInterval as ticks } from 'node:timers/promises'
import type { Locator, Page } from 'playwright-core'
import { messages } from '../../../src/core/messages/messages.ts'
import { DAEMON_NAMES } from '../../../src/daemons/settings.ts'
import { groupsResource } from '../../../src/resources/groups.ts'
import { routeTokensResource } from '../../../src/resources/route-tokens.ts'
import { visitor } from '../../support/browser.ts'
import { openConversationHost } from '../../support/conversation-host.ts'
import { serveDashboard } from '../../support/dashboard.ts'
import { needs } from '../../support/needs.ts'
import type { SignedInBrowser } from '../../support/sign-in.ts'
import { until } from '../../support/until.ts'

const MESSAGES = 250
const PER_SECOND = 50
/** Pages reload at most this often. */
const INTERVAL_MS = 1000

interface LivePage {
  readonly page: Page
  readonly faults: readonly string[]
  /** How often it has reloaded its live part. */
  reloads(): number
}

async function openLivePage(
  t: TestContext,
  dash: Awaited<ReturnType<typeof serveDashboard>>,
  as: SignedInBrowser,
  path: string,
): Promise<LivePage> {
  const page = await dash.open(t, as, path)
  const faults: string[] = []
  let reloads = 0
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.location().url.endsWith('/favicon.ico')) faults.push(message.text())
  })
  page.on('request', (request) => {
    if (request.headers()['hx-request']) reloads++
  })
  await page.locator('#connection', { hasText: /^Live$/ }).waitFor()
  return { page, faults, reloads: () => reloads }
}

test(
  'two dashboards stay live at 50 messages per second, reload once a second at most, and keep what is typed',
  needs('browser'),
  async (t) => {
    const dash = await serveDashboard(t, {
      daemons: DAEMON_NAMES.filter((name) => name !== 'runed'),
      settings: { WEBHOOK_RATE_HOOK: '0' },
    })
    const hook = { target_folder: 'team', source_label: 'load' }
    const { url } = await dash.cli.call(routeTokensResource.verbs.issue_hook, hook)
    const target = dash.base + new URL(url).pathname
    const live = [
      await openLivePage(t, dash, dash.operator, '/dash/messages'),
      await openLivePage(t, dash, dash.admin, '/dash/messages?folder=team'),
    ]
    for (const { page } of live) {
      await page.fill('#content input[name=sender]', 'being typed')
      await page.focus('#content input[name=sender]')
    }
    const started = performance.now()
    const posts: Promise<number>[] = []
    const post = async (body: string): Promise<number> =>
      (await fetch(target, { method: 'POST', headers: { 'Content-Type': 'text/plain' }, body })).status
    // A tick that comes late posts what should have been posted before it.
    for await (const _ of ticks(1000 / PER_SECOND)) {
      const due = Math.min(MESSAGES, Math.floor(((performance.now() - started) * PER_SECOND) / 1000))
      while (posts.length < due) posts.push(post(`message ${posts.length} of the load`))
      if (posts.length === MESSAGES) break
    }
    assert.deepEqual([...new Set(await Promise.all(posts))], [204])
    // A slow machine posts many at once, and they are stored in any order.
    const newest = 'message after the load'
    assert.equal(await post(newest), 204)
    for (const { page } of live) await page.waitForSelector(`#live tbody tr:has-text("${newest}")`)
    const seconds = Math.ceil((performance.now() - started) / INTERVAL_MS)
    for (const { page, faults, reloads } of live) {
      const count = reloads()
      assert.ok(count >= 2 && count <= seconds + 1, `${count} reloads in ${seconds} s`)
      assert.equal(await page.inputValue('#content input[name=sender]'), 'being typed')
      assert.equal(await page.evaluate('document.activeElement.name'), 'sender')
      assert.equal(await page.textContent('#connection'), 'Live')
      assert.equal(await page.locator('#live tbody tr').count(), 50)
      assert.deepEqual(faults, [])
    }
  },
)

test(
  'rows do not move below a reader, and stay when an update fails, which the page says',
  needs('browser'),
  async (t) => {
    const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
    for (let n = 0; n < 45; n++) await dash.cli.call(groupsResource.verbs.add, { folder: `b${n}` })
    const { page } = await openLivePage(t, dash, dash.operator, '/dash/folders')
    const row = page.locator('#folders-b44')
    await row.scrollIntoViewIfNeeded()
    await page.evaluate('scrollTo(0, document.body.scrollHeight)')
    const before = await row.boundingBox()
    await dash.cli.call(groupsResource.verbs.add, { folder: 'a' })
    await page.locator('#held-updates').waitFor({ state: 'visible' })
    assert.deepEqual(await row.boundingBox(), before)
    assert.equal(await page.locator('#folders-a').count(), 0)
    await page.click('#held-updates')
    await page.waitForSelector('#folders-a')

    const count = await page.locator('#folders tbody tr').count()
    const failing = (url: URL): boolean => url.pathname === '/dash/folders'
    await page.route(failing, (route) => route.fulfill({ status: 503, body: 'not now' }))
    await dash.cli.call(groupsResource.verbs.add, { folder: 'a1' })
    await page.locator('#connection.lost', { hasText: 'the last update failed' }).waitFor()
    assert.equal(await page.locator('#folders tbody tr').count(), count)
    await page.unroute(failing)
    await page.waitForSelector('#folders-a1')
    const isLive = page.locator('#connection:not(.lost)', { hasText: /^Live$/ })
    await isLive.waitFor()

    await page.route('**/dash/live*', (route) => route.fulfill({ status: 503, body: 'not now' }))
    await page.reload()
    await page.locator('#connection.lost', { hasText: 'reload the page' }).waitFor()
    await page.unroute('**/dash/live*')
    // A connection that is silent for longer than the server ever is has broken without a sign.
    await page.clock.install()
    await page.reload()
    await isLive.waitFor()
    await page.clock.fastForward(60_000)
    await page.locator('#connection.lost', { hasText: 'connecting again' }).waitFor()
    await page.clock.runFor(3000)
    await isLive.waitFor()
  },
)

test('a reload that waited for another one replaces what that one brought', needs('browser'), async (t) => {
  const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd'] })
  const { page } = await openLivePage(t, dash, dash.operator, '/dash/folders')
  await page.evaluate(`document.querySelector('#stream').addEventListener('svc:changed', ({ currentTarget: { dataset } }) => {
    dataset.events = (dataset.events ?? '') + 'x'
  })`)
  const fetched = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  const shown = Promise.withResolvers<void>()
  let isHeld = false
  await page.route(
    ({ pathname }) => pathname === '/dash/folders',
    async (route) => {
      if (isHeld) {
        await shown.promise
        return route.continue()
      }
      const response = await route.fetch()
      // A reload from before the change passes.
      isHeld = (await response.text()).includes('folders-brief')
      if (!isHeld) return route.fulfill({ response })
      fetched.resolve()
      await released.promise
      return route.fulfill({ response })
    },
  )
  await dash.cli.call(groupsResource.verbs.add, { folder: 'brief' })
  await fetched.promise
  await page.evaluate(`document.querySelector('#stream').dataset.events = ''`)
  await dash.cli.call(groupsResource.verbs.remove, { folder: 'brief' })
  await page.locator('#stream[data-events^=x]').waitFor({ state: 'attached' })
  released.resolve()
  await page.locator('#folders-brief').waitFor({ state: 'attached' })
  shown.resolve()
  await page.locator('#folders-brief').waitFor({ state: 'detached' })
})

test(
  'the page of a running turn shows what its agent is writing and calls, and the chat shows it in words',
  needs('browser'),
  async (t) => {
    const dash = await serveDashboard(t, { daemons: ['proxyd', 'authd', 'dashd', 'webd'] })
    const on = await openConversationHost(t, 'sqlite', { ...dash, operator: async () => undefined })
    await on.ask('why?', { folder: 'team' })
    const { turn } = await on.mustClaim()
    const { page } = await openLivePage(t, dash, dash.operator, `/dash/turns/${turn.id}`)
    const about = { turn: turn.id, fence: 1, part: 0, jid: turn.jid, topic: '', folder: 'team', rounds: [turn.id] }
    const shown = page.locator('#live', { hasText: 'Being written' })
    for (const text of ['<b>Because', '<b>Because it is']) {
      await until(() => {
        dash.host.drafts.emit({ ...about, from: 0, text, state: 'open' }, true)
        return shown.getByText(text, { exact: true }).isVisible()
      })
    }
    dash.host.drafts.emit({ ...about, from: 17, text: '', state: 'dropped' }, true)
    await shown.waitFor({ state: 'detached' })

    const { url } = await dash.cli.call(routeTokensResource.verbs.issue_chat, { target_folder: 'team' })
    const chat = new URL(url).pathname
    const admin = await dash.open(t, dash.operator, chat)
    const stranger = await (await visitor(t)).open(dash.base + chat)
    const { part: _, ...activity } = { ...about, isOver: false }
    const shownIn = [activity]
    for (const asking of [admin, stranger]) {
      const sent = asking.waitForResponse((response) => response.request().method() === 'POST')
      await asking.locator('.composer textarea').fill('why?')
      await asking.locator('.composer textarea').press('Enter')
      const { turn_id: id } = JSON.parse(await (await sent).text())
      const message = await dash.host.engine.read((tx) => messages.find(tx, { id }))
      shownIn.push({ ...activity, turn: id, rounds: [id], topic: message?.topic ?? '' })
    }
    const calls = page.locator('#turn-live-calls')
    const call = { n: 1, tool: 'find_messages', args: '{"query":"<b>"}', at: Date.now() }
    let n = 0
    const publish = (state: 'running' | 'ok', doing: string, isOver = false): void => {
      const change = {
        calls: [{ ...call, state, ...(state === 'ok' ? { ms: 1200 } : {}) }],
        running: state === 'ok' ? [] : [1],
      }
      for (const each of shownIn) dash.host.drafts.emit({ ...each, n: ++n, doing, ...change, isOver }, true)
    }
    const untilVisible = (state: 'running' | 'ok', doing: string, ...found: readonly Locator[]): Promise<void> =>
      until(async () => {
        publish(state, doing)
        return (await Promise.all(found.map((each) => each.isVisible()))).every((isVisible) => isVisible)
      })
    const lines = [admin, stranger].map((each) => each.locator('.status .doing', { hasText: 'Searching messages …' }))
    await untilVisible('running', 'Searching messages', calls.getByText('running', { exact: true }), ...lines)
    await calls.getByText('Show', { exact: true }).click()
    await untilVisible('ok', 'Searching messages', calls.getByText('ok', { exact: true }))
    // What was opened stays open.
    assert.ok(await calls.getByText('{"query":"<b>"}', { exact: true }).isVisible())
    await admin.locator('.calls summary').click()
    await untilVisible('ok', '', admin.getByText('{"query":"<b>"}', { exact: true }))
    await until(async () => (await Promise.all(lines.map((line) => line.count()))).every((count) => count === 0))
    assert.equal(await stranger.locator('.calls').count(), 0)
    publish('ok', '', true)
    await calls.waitFor({ state: 'detached' })
  },
)
