// A person signs in and chats with their folder in a real browser, which sends the headers that our checks rely on.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { suite, type TestContext, test } from 'node:test'
import type { Page } from 'playwright-core'
import { personChatJid } from '../../src/core/links/person-chats.ts'
import { messages } from '../../src/core/messages/messages.ts'
import { routeTokensResource } from '../../src/resources/route-tokens.ts'
import { visitor } from '../support/browser.ts'
import { needs } from '../support/needs.ts'
import { type ServedHost, serveHost } from '../support/served-host.ts'
import { signInLink } from '../support/sign-in.ts'
import { until } from '../support/until.ts'

async function serveTeam(t: TestContext): Promise<ServedHost> {
  const at = await serveHost(t)
  await at.groups('main', 'team')
  await at.grant('local:ada', 'interact', 'team')
  return at
}

async function signInWith(page: Page, link: string): Promise<void> {
  await page.goto(link)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.waitForURL('**/auth/me')
}

const sendersAt = async (at: ServedHost, jid: string): Promise<string[]> =>
  (await at.host.engine.read((tx) => messages.list(tx, { jid, direction: 'in' }, [['seq', 'asc']]))).map(({ sender }) =>
    sender.replace(/^anon:.*/, 'anon'),
  )

suite('a signed-in browser', needs('browser'), () => {
  for (const javaScriptEnabled of [true, false]) {
    test(`opens the own chat and writes there ${javaScriptEnabled ? 'with' : 'without'} scripts`, async (t) => {
      const at = await serveTeam(t)
      const page = await (await visitor(t, { javaScriptEnabled })).open(`${at.url()}/priv/team/`)
      assert.equal(new URL(page.url()).pathname, '/auth/sign-in')
      await signInWith(page, await signInLink(at, 'local:ada'))
      await page.goto(`${at.url()}/auth/chat?folder=team`)
      await page.getByRole('button', { name: 'Open the chat' }).click()
      await page.waitForURL('**/chat/**')
      const text = page.locator('textarea')
      await text.fill('hello')
      if (javaScriptEnabled) await text.press('Enter')
      else await page.locator('form button').first().click()
      const jid = personChatJid('team', 'local:ada')
      await until(async () => (await sendersAt(at, jid)).length === 1)
      assert.deepEqual(await sendersAt(at, jid), ['local:ada'])
      if (javaScriptEnabled) await page.locator('.message.agent').waitFor()
    })
  }

  test('speaks at a link only from our own pages', async (t) => {
    const at = await serveTeam(t)
    const { token, jid } = await at.cli.call(routeTokensResource.verbs.issue_chat, { target_folder: 'team' })
    const link = `${at.url()}/chat/${token}/`
    const page = await (await visitor(t)).open(at.url())
    await signInWith(page, await signInLink(at, 'local:ada'))
    await page.goto(link)
    await page.locator('textarea').fill('hello')
    await page.locator('textarea').press('Enter')
    await until(async () => (await sendersAt(at, jid)).length === 1)
    // Another port of the same host: the browser sends the cookie along.
    const other = createServer((_, response) => {
      response.setHeader('Content-Type', 'text/html')
      response.end(
        `<form method="post" action="${link}"><input name="content" value="forged"><button>go</button></form>`,
      )
    }).listen(0, '127.0.0.1')
    t.after(() => {
      other.close()
      other.closeAllConnections()
    })
    await once(other, 'listening')
    const { port } = other.address() as AddressInfo
    await page.goto(`http://127.0.0.1:${port}/`)
    await page.getByRole('button').click()
    await until(async () => (await sendersAt(at, jid)).length === 2)
    assert.deepEqual(await sendersAt(at, jid), ['local:ada', 'anon'])
  })
})
