// Passkeys in Chromium, with virtual authenticators over the DevTools protocol.
import assert from 'node:assert/strict'
import { suite, type TestContext, test } from 'node:test'
import type { BrowserContextOptions, CDPSession, Page } from 'playwright-core'
import { listPasskeys } from '../../src/core/people/passkeys.ts'
import { type Visitor, visitor } from '../support/browser.ts'
import { type LocalhostInstance, serveAtLocalhost } from '../support/localhost-instance.ts'
import { needs } from '../support/needs.ts'
import { signInLink } from '../support/sign-in.ts'

async function serve(t: TestContext): Promise<LocalhostInstance> {
  const s = await serveAtLocalhost(t, { daemons: ['proxyd', 'authd'] })
  await s.grant('local:ada', 'interact', 'team')
  await s.grant('local:bob', 'interact', 'team')
  return s
}

interface Device extends Visitor {
  readonly page: Page
  readonly cdp: CDPSession
}

/** A tab with a platform authenticator, whose person is verified. */
async function openDevice(t: TestContext, url: string, options: BrowserContextOptions = {}): Promise<Device> {
  const opened = await visitor(t, options)
  const page = await opened.open(url)
  const cdp = await opened.context.newCDPSession(page)
  await cdp.send('WebAuthn.enable')
  await addAuthenticator(cdp, 'internal')
  return { ...opened, page, cdp }
}

async function addAuthenticator(cdp: CDPSession, transport: 'internal' | 'usb'): Promise<string> {
  const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport,
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  })
  return authenticatorId
}

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })

async function signInByLink(s: LocalhostInstance, page: Page, sub: string): Promise<void> {
  await page.goto((await signInLink(s, sub)).replace(s.url(), s.base))
  await button(page, 'Sign in').click()
  await page.waitForURL('**/auth/me')
}

async function addPasskey(page: Page, name: string): Promise<void> {
  await page.getByLabel('Name', { exact: true }).last().fill(name)
  await button(page, 'Add a passkey').click()
  await page.locator('.list strong', { hasText: name }).waitFor()
}

async function signOut(s: LocalhostInstance, page: Page): Promise<void> {
  await page.goto(`${s.base}/auth/me`)
  await button(page, 'Sign out').click()
  await page.waitForURL('**/auth/sign-in')
}

const namesOf = (page: Page): Promise<string[]> => page.locator('.list strong').allInnerTexts()

suite('passkeys in a browser', needs('browser'), () => {
  test('a person adds passkeys after a link, signs in with one, names and removes them', async (t) => {
    const s = await serve(t)
    const { page, cdp } = await openDevice(t, s.base)
    await signInByLink(s, page, 'local:ada')
    // The account page suggests it, until there is one.
    await page.getByRole('link', { name: 'Add a passkey' }).click()
    await addPasskey(page, 'Laptop')
    await page.getByText('This is your only passkey').waitFor()
    await page.goto(`${s.base}/auth/me`)
    assert.equal(await page.getByRole('link', { name: 'Add a passkey' }).count(), 0)

    await signOut(s, page)
    await page.goto(`${s.base}/auth/devices`)
    assert.match(page.url(), /\/auth\/sign-in\?next=%2Fauth%2Fdevices$/)
    await button(page, 'Sign in with a passkey').click()
    await page.waitForURL('**/auth/devices')
    assert.match(await page.locator('.list').innerText(), /this device[\s\S]*with a passkey/)

    // The same device cannot be added twice; a security key can.
    await page.goto(`${s.base}/auth/passkeys`)
    await button(page, 'Add a passkey').click()
    await page.getByRole('alert').waitFor()
    assert.match(await page.getByRole('alert').innerText(), /already has a passkey of yours/)
    await addAuthenticator(cdp, 'usb')
    s.clock.advance(60_000)
    await addPasskey(page, 'Blue key')
    assert.deepEqual(await namesOf(page), ['Laptop', 'Blue key'])
    assert.equal(await page.locator('.notice:visible').count(), 0)

    const second = page.locator('.list li').nth(1)
    await second.locator('summary').click()
    await second.getByLabel('Name').fill('Green <key>')
    await second.getByRole('button', { name: 'Rename' }).click()
    await page.locator('.list strong', { hasText: 'Green <key>' }).waitFor()
    const first = page.locator('.list li').first()
    await first.locator('summary').click()
    await first.getByRole('button', { name: 'Remove this passkey' }).click()
    await page.locator('.notice', { hasText: 'only passkey' }).waitFor()
    assert.deepEqual(await namesOf(page), ['Green <key>'])
  })

  test('an old session adds a passkey after a tap of an existing one', async (t) => {
    const s = await serve(t)
    const { page, cdp } = await openDevice(t, s.base)
    await signInByLink(s, page, 'local:ada')
    await page.goto(`${s.base}/auth/passkeys`)
    await addPasskey(page, 'Laptop')
    s.clock.advance(20 * 60_000)
    await page.reload()
    assert.equal(await button(page, 'Add a passkey').count(), 0)
    await button(page, 'Confirm with a passkey').click()
    await button(page, 'Add a passkey').waitFor()
    await addAuthenticator(cdp, 'usb')
    await addPasskey(page, 'Blue key')
    assert.deepEqual(await namesOf(page), ['Laptop', 'Blue key'])
  })

  test('a passkey signs in only its own person, on a device that others use too', async (t) => {
    const s = await serve(t)
    const { page } = await openDevice(t, s.base)
    await signInByLink(s, page, 'local:ada')
    await page.goto(`${s.base}/auth/passkeys`)
    await addPasskey(page, 'Shared laptop')
    await signInByLink(s, page, 'local:bob')
    await page.goto(`${s.base}/auth/passkeys`)
    assert.deepEqual(await namesOf(page), [])
    // Bob adds none: the passkey on this device is Ada's, and using it ends Bob's session.
    await page.goto(`${s.base}/auth/sign-in?again=1`)
    await button(page, 'Sign in with a passkey').click()
    await page.waitForURL('**/auth/me')
    assert.match(await page.locator('main').innerText(), /signed in as local:ada/)
  })

  test('a removed passkey is refused with a sentence', async (t) => {
    const s = await serve(t)
    const { page } = await openDevice(t, s.base)
    await signInByLink(s, page, 'local:ada')
    await page.goto(`${s.base}/auth/passkeys`)
    await addPasskey(page, 'Laptop')
    await page.locator('summary').click()
    await button(page, 'Remove this passkey').click()
    await page.getByText('This is your only passkey').waitFor({ state: 'detached' })
    await signOut(s, page)
    await button(page, 'Sign in with a passkey').click()
    await page.getByRole('alert').waitFor()
    assert.match(
      await page.getByRole('alert').innerText(),
      /^This server does not know that passkey\. Sign in another way/,
    )
  })

  test('a page at another address than WEB_HOST names the right one', async (t) => {
    const s = await serve(t)
    const { page } = await openDevice(t, `${s.url()}/auth/sign-in?next=%2Fauth%2Fdevices`)
    await page.locator('.elsewhere').waitFor()
    assert.equal(await page.locator('.elsewhere').innerText(), `Passkeys work only at ${s.base}. Open this page there.`)
    assert.equal(await button(page, 'Sign in with a passkey').count(), 0)
    await page.locator('.elsewhere a').click()
    await page.waitForURL(`${s.base}/auth/sign-in?next=%2Fauth%2Fdevices`)
    await button(page, 'Sign in with a passkey').waitFor()
  })

  test('a cancelled or empty authenticator is explained, and the button works again', async (t) => {
    const s = await serve(t)
    const { page } = await openDevice(t, `${s.base}/auth/sign-in`)
    await button(page, 'Sign in with a passkey').click()
    await page.getByRole('alert').waitFor()
    assert.match(await page.getByRole('alert').innerText(), /^No passkey was used/)
    assert.equal(await button(page, 'Sign in with a passkey').isEnabled(), true)
  })

  test('without script the pages work, and say what passkeys need', async (t) => {
    const s = await serve(t)
    const { open } = await visitor(t, { javaScriptEnabled: false })
    const page = await open(`${s.base}/auth/sign-in`)
    assert.equal(await button(page, 'Sign in with a passkey').isVisible(), false)
    await signInByLink(s, page, 'local:ada')
    await page.getByRole('link', { name: 'Passkeys', exact: true }).click()
    assert.match(await page.locator('main').innerText(), /Adding a passkey needs JavaScript/)
    await page.getByRole('link', { name: 'Devices', exact: true }).click()
    await button(page, 'Sign out').click()
    await page.waitForURL('**/auth/sign-in')
  })

  test('the pages fit a phone of 360 pixels, in both themes, and the keyboard reaches everything', async (t) => {
    const s = await serve(t)
    for (const colorScheme of ['light', 'dark'] as const) {
      const { page } = await openDevice(t, s.base, { viewport: { width: 360, height: 740 }, colorScheme })
      await signInByLink(s, page, 'local:ada')
      for (const path of ['/', '/auth/me', '/auth/passkeys', '/auth/devices', '/auth/sign-in?again=1', '/nothing']) {
        await page.goto(s.base + path)
        assert.equal(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), true, path)
      }
      await page.goto(`${s.base}/auth/passkeys`)
      await button(page, 'Add a passkey').waitFor()
      const reached = new Set<string>()
      for (let presses = 0; presses < 12; presses++) {
        await page.keyboard.press('Tab')
        reached.add(
          String(await page.evaluate('document.activeElement.textContent.trim() || document.activeElement.name')),
        )
      }
      for (const target of ['svc', 'Account', 'Devices', 'name', 'Add a passkey'])
        assert.ok(reached.has(target), target)
    }
    assert.deepEqual(await s.host.engine.read((tx) => listPasskeys(tx, 'local:ada')), [])
  })
})
