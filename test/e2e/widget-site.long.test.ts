// Who the agent is, and the script interface of the widget, in a real browser.
import assert from 'node:assert/strict'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { suite, type TestContext, test } from 'node:test'
import type { Page } from 'playwright-core'
import { groupDirs } from '../../src/core/layout.ts'
import { messages } from '../../src/core/messages/messages.ts'
import { groupsResource } from '../../src/resources/groups.ts'
import { routeTokensResource } from '../../src/resources/route-tokens.ts'
import { drawIcon } from '../../src/web/chat/icon.ts'
import { type Visitor, visitor } from '../support/browser.ts'
import { agent } from '../support/host.ts'
import { needs } from '../support/needs.ts'
import { serveSitePage } from '../support/other-site.ts'
import { type ServedHost, serveHost } from '../support/served-host.ts'

const PNG = drawIcon({ size: 64, isMaskable: true })

interface Visit {
  readonly at: ServedHost
  readonly url: string
  readonly who: Visitor
}

async function serve(t: TestContext): Promise<Visit> {
  const [at, who] = await Promise.all([serveHost(t), visitor(t)])
  await at.groups('main')
  const { token } = await at.as(agent('main')).call(routeTokensResource.verbs.issue_chat, { jid_suffix: 'site' })
  return { at, url: `${at.url()}/chat/${token}/`, who }
}

/** A site with the widget of the link. `attributes` are those of its script. */
async function openSite(t: TestContext, { at, url, who }: Visit, attributes = ''): Promise<Page> {
  const policy = `default-src 'none'; script-src ${at.url()}; connect-src ${at.url()}; img-src ${at.url()}; require-trusted-types-for 'script'`
  const page = await who.open(
    await serveSitePage(t, { head: `<script src="${url}widget.js" async ${attributes}></script>`, policy }),
  )
  await page.locator('.launcher').waitFor()
  return page
}

suite('the agent of a folder', needs('browser'), () => {
  test('greets visitors with its name, its picture and messages to start with', async (t) => {
    const { at, url, who } = await serve(t)
    const { home } = groupDirs(at.host.layout ?? assert.fail(), 'main')
    mkdirSync(home, { recursive: true })
    writeFileSync(join(home, 'me.png'), PNG)
    writeFileSync(
      join(home, 'PERSONA.md'),
      '---\nname: Ada Bright\npicture: me.png\ngreeting: "Hello <b>you</b>"\ncolour: "#0f766e"\nstarters:\n- /say first\n- /say second\n---\n',
    )
    const page = await who.open(url)
    const welcome = page.locator('.welcome')
    assert.equal(await welcome.locator('.lead').innerText(), 'Ada Bright')
    assert.equal(await welcome.locator('.greeting').innerText(), 'Hello <b>you</b>')
    assert.equal(await page.title(), 'Ada Bright')
    assert.equal(await page.locator('.head h1').innerText(), 'Ada Bright')
    await page.waitForFunction(() => document.querySelector<HTMLImageElement>('.welcome img')?.naturalWidth === 64)
    assert.equal(await page.evaluate(() => getComputedStyle(document.body).getPropertyValue('--accent')), '#0f766e')
    await page.getByRole('button', { name: '/say second' }).click()
    await page.locator('.message.agent .prose', { hasText: 'second' }).waitFor()
    assert.ok(await welcome.isHidden())

    rmSync(join(home, 'me.png'))
    await page.reload()
    await page.locator('.message.agent').waitFor()
    await page.waitForFunction(() => document.querySelector('.avatar img') === null)
    assert.equal(await page.locator('.head .avatar text').textContent(), 'AB')
  })

  test('has a name and a colour in the widget, and the initials where the site forbids pictures', async (t) => {
    const visit = await serve(t)
    const { set } = groupsResource.verbs
    await visit.at.cli.call(set, { folder: 'main', key: 'name', to: 'Help' })
    await visit.at.cli.call(set, { folder: 'main', key: 'colour', to: '#ffee00' })
    const page = await openSite(t, visit)
    const launcher = page.getByRole('button', { name: 'Chat' })
    const { background, color } = await launcher.evaluate((node) => {
      const style = getComputedStyle(node)
      return { background: style.backgroundColor, color: style.color }
    })
    assert.deepEqual([background, color], ['rgb(255, 238, 0)', 'rgb(0, 0, 0)'])
    await launcher.click()
    await page.getByRole('heading', { name: 'Help' }).waitFor()
  })
})

suite('the widget', needs('browser'), () => {
  test('loads the chat when its button is used, and again after a failure', async (t) => {
    const visit = await serve(t)
    const { who } = visit
    const page = await openSite(t, visit)
    const loads = (): string[] => who.asked.filter((url) => /\/(chat\.js|events|highlight\.js)/.test(url))
    assert.deepEqual(loads(), [])
    await page.route(/chat\.js/, (route) => route.abort())
    await page.getByRole('button', { name: 'Chat' }).click()
    const panel = page.getByRole('dialog', { name: 'Chat' })
    await panel.getByText('The chat could not be loaded.').waitFor()
    await page.unroute(/chat\.js/)
    await panel.getByRole('button', { name: 'Try again' }).click()
    await panel.locator('.composer textarea:focus').waitFor()
    await panel.getByRole('button', { name: 'Close' }).click()
    await page.getByRole('button', { name: 'Chat' }).click()
    await panel.locator('.composer').waitFor()
  })

  test('lets scripts of the site open it, send messages, hear answers and tell about the visitor', async (t) => {
    const visit = await serve(t)
    const page = await openSite(t, visit, 'data-metadata-plan="pro"')
    await page.evaluate(() => {
      const chat = Reflect.get(window, 'svcChat')
      const heard: unknown[] = []
      Reflect.set(window, 'heard', heard)
      chat.on('open', () => heard.push('open'))
      chat.on('close', () => heard.push('close'))
      const stop = chat.on('message', () => heard.push('never'))
      stop()
      chat.on('message', ({ content, topic, id }: Record<string, string>) => heard.push([content, !!topic, !!id]))
    })
    const heard = () => page.evaluate(() => Reflect.get(window, 'heard') as unknown[])
    await page.evaluate(() => Reflect.get(window, 'svcChat').send('/say while closed'))
    await page.waitForFunction(() => (Reflect.get(window, 'heard') as unknown[]).length === 1)
    assert.deepEqual(await heard(), [['while closed', true, true]])
    const panel = page.getByRole('dialog', { name: 'Chat' })
    assert.ok(await panel.isHidden())
    await page.evaluate(() => {
      const chat = Reflect.get(window, 'svcChat')
      chat.setMetadata({ plan: 'free', orders: 2 })
      chat.open()
      chat.open()
      return chat.send('/say while open')
    })
    await panel.locator('.message.agent .prose', { hasText: 'while open' }).waitFor()
    await page.evaluate(() => {
      Reflect.get(window, 'svcChat').setMetadata()
      Reflect.get(window, 'svcChat').close()
      return Reflect.get(window, 'svcChat').send('/say last')
    })
    await page.waitForFunction(() => (Reflect.get(window, 'heard') as unknown[]).length === 5)
    assert.deepEqual(
      (await heard()).map((each) => (Array.isArray(each) ? each[0] : each)),
      ['while closed', 'open', 'while open', 'close', 'last'],
    )
    assert.ok(await panel.isHidden())
    const stored = await visit.at.host.engine.read((tx) => messages.list(tx, {}, [['seq', 'asc']]))
    const metadata = stored
      .filter(({ direction }) => direction === 'in')
      .map(({ client_context }) => client_context?.metadata)
    assert.deepEqual(metadata, [{ plan: 'pro' }, { plan: 'free', orders: 2 }, undefined])

    await page.reload()
    await page.evaluate(
      () =>
        new Promise<void>((resolve) => {
          const listen = (): void => {
            Reflect.set(window, 'heard', [])
            Reflect.get(window, 'svcChat').on('message', (message: unknown) =>
              Reflect.get(window, 'heard').push(message),
            )
            Reflect.get(window, 'svcChat').open()
            resolve()
          }
          if ('svcChat' in window) listen()
          else document.addEventListener('svc-chat-ready', listen)
        }),
    )
    await panel.locator('.message.agent .prose', { hasText: 'last' }).waitFor()
    await page.waitForFunction(
      () => !document.querySelector('svc-chat')?.shadowRoot?.querySelector('.log')?.hasAttribute('aria-busy'),
    )
    assert.deepEqual(await heard(), [], 'messages from before are not reported')
  })

  test('ignores and reports metadata of its script that the server would refuse', async (t) => {
    const { at, url, who } = await serve(t)
    const listen =
      "window.faults = 0; window.addEventListener('error', (event) => { faults++; event.preventDefault() })"
    const head = `<script>${listen}</script><script src="${url}widget.js" data-metadata-größe="5"></script>`
    const page = await who.open(await serveSitePage(t, { head }))
    await page.locator('.launcher').click()
    await page.locator('.composer textarea').fill('/say arrived')
    await page.locator('.composer textarea').press('Enter')
    await page.locator('.message.agent .prose', { hasText: 'arrived' }).waitFor()
    assert.equal(await page.evaluate('faults'), 1)
    const stored = await at.host.engine.read((tx) => messages.list(tx, { direction: 'in' }))
    assert.deepEqual(
      stored.map(({ client_context }) => client_context),
      [undefined],
    )
  })

  test('is ready for scripts anywhere in the page, and again after the site has removed it', async (t) => {
    const { url, who } = await serve(t)
    const script = `<script src="${url}widget.js"></script>`
    const listen =
      "window.ready = []; document.addEventListener('svc-chat-ready', ({ detail }) => ready.push(detail)); window.isFirst = () => svcChat === ready.at(-1)"
    const page = await who.open(await serveSitePage(t, { head: '', body: `${script}<script>${listen}</script>` }))
    await page.locator('.launcher').waitFor()
    const ready = () => page.evaluate('[ready.length, isFirst()]')
    assert.deepEqual(await ready(), [1, true])
    await page.evaluate('svcChat.open()')
    await page.locator('.composer textarea:focus').waitFor()
    await page.evaluate(() => {
      document.querySelector('svc-chat')?.remove()
      const again = document.createElement('script')
      again.src = document.querySelector('script')?.src ?? ''
      document.body.append(again)
    })
    await page.locator('.launcher').waitFor()
    assert.deepEqual(await ready(), [2, true])
    await page.evaluate('window.closes = 0; ready[0].on("close", () => { closes++ }); svcChat.open()')
    await page.locator('.composer textarea:focus').waitFor()
    assert.equal(await page.evaluate('closes'), 1, 'the panel that is gone is closed')
  })

  test('refuses wrong calls with a sentence, and survives faults of the site', async (t) => {
    const page = await openSite(t, await serve(t))
    const fault = (call: string): Promise<string> =>
      page.evaluate(async (text) => {
        const chat = Reflect.get(window, 'svcChat')
        const calls: Record<string, () => unknown> = {
          'an empty text': () => chat.send(' '),
          'no text': () => chat.send(5),
          'an unknown event': () => chat.on('opened', () => {}),
          'no function': () => chat.on('open', 'x'),
          'nested metadata': () => chat.setMetadata({ a: {} }),
          'a list as metadata': () => chat.setMetadata(['a']),
          'no number': () => chat.setMetadata({ a: Number.NaN }),
          'a name with a blank': () => chat.setMetadata({ 'a b': 1 }),
          'long metadata': () => chat.setMetadata({ a: 'x'.repeat(4096) }),
        }
        try {
          await calls[text]?.()
          return 'nothing'
        } catch (error) {
          return String(error)
        }
      }, call)
    assert.equal(await fault('an empty text'), 'TypeError: send needs a text that is not empty')
    assert.equal(await fault('no text'), 'TypeError: send needs a text that is not empty')
    assert.equal(await fault('an unknown event'), 'TypeError: on knows the events open, close, message')
    assert.equal(await fault('no function'), 'TypeError: on needs a function')
    const flat = 'TypeError: metadata.a must be a text, a number or a boolean'
    assert.equal(await fault('nested metadata'), flat)
    assert.equal(await fault('no number'), flat)
    assert.equal(await fault('a list as metadata'), 'TypeError: metadata must be a JSON object')
    assert.match(await fault('a name with a blank'), /^TypeError: names in metadata must be /)
    assert.equal(await fault('long metadata'), 'TypeError: metadata has more than 4096 bytes')
    const reported = await page.evaluate(() => {
      const errors: string[] = []
      window.addEventListener('error', (event) => {
        errors.push(event.message)
        event.preventDefault()
      })
      const chat = Reflect.get(window, 'svcChat')
      chat.on('open', () => {
        throw new Error('of the site')
      })
      chat.on('open', () => errors.push('next'))
      chat.open()
      return errors
    })
    assert.deepEqual(reported, ['Uncaught Error: of the site', 'next'])
    await page.locator('.composer').waitFor()
  })
})
