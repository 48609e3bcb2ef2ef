// From a fresh `npm start` to two people: the operator signs in by the printed link, adds a passkey and invites a guest from
// another directory; the guest signs in through an OpenID provider, lands in the chat of their folder and reaches nothing else.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { suite, type TestContext, test } from 'node:test'
import type { Page } from 'playwright-core'
import { visitor } from '../support/browser.ts'
import { freePort } from '../support/free-port.ts'
import { needs } from '../support/needs.ts'
import { CLIENT, serveRealProvider } from '../support/openid-servers.ts'
import { tempDir } from '../support/temp.ts'

const SVC = join(dirname(dirname(import.meta.dirname)), 'bin/svc.js')

function svc(t: TestContext, dir: string, args: readonly string[], env: Record<string, string> = {}): ChildProcess {
  const child = spawn(SVC, args, {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, SVC_DATA_DIR: dir, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  t.after(() => void child.kill('SIGKILL'))
  return child
}

/** Runs a command to its end and returns its output. */
async function output(child: ChildProcess): Promise<string> {
  let [stdout, stderr] = ['', '']
  child.stdout?.on('data', (chunk) => {
    stdout += chunk
  })
  child.stderr?.on('data', (chunk) => {
    stderr += chunk
  })
  const [code] = await once(child, 'close')
  assert.equal(code, 0, stderr)
  return stdout
}

/** The first line of a stream that the pattern matches. */
async function lineOf(stream: ChildProcess['stdout'], pattern: RegExp): Promise<string> {
  if (!stream) assert.fail('no stream')
  for await (const line of createInterface({ input: stream })) {
    const found = pattern.exec(line)?.[1]
    if (found !== undefined) return found
  }
  return assert.fail(`no line matches ${pattern}`)
}

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })

async function openDevice(t: TestContext, url: string): Promise<Page> {
  const { context, open } = await visitor(t)
  const page = await open(url)
  const cdp = await context.newCDPSession(page)
  await cdp.send('WebAuthn.enable')
  await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  })
  return page
}

suite('people on a fresh instance', needs('browser'), () => {
  test('an operator signs in, invites a guest, and each reaches what is theirs', async (t) => {
    const port = await freePort()
    const base = `http://localhost:${port}`
    const claims = { grace: { name: 'Grace', email: 'grace@example.com', email_verified: true } }
    const issuer = await serveRealProvider(t, `${base}/auth/provider/acme/callback`, claims)
    const [server, laptop] = [tempDir(t), tempDir(t)]
    const started = svc(t, server, ['start', '--port', String(port)], {
      OIDC_ACME_ISSUER: issuer,
      OIDC_ACME_ID: CLIENT.id,
      OIDC_ACME_SECRET: CLIENT.secret,
    })
    started.stderr?.resume()
    const link = await lineOf(started.stdout, /^ {2}(http:\S+\/auth\/link\/\S+)$/)

    // The printed link, once, and then a passkey.
    const operator = await openDevice(t, link)
    await button(operator, 'Sign in').click()
    await operator.waitForURL(`${base}/dash/`)
    await operator.goto(`${base}/auth/me`)
    await operator.getByRole('link', { name: 'Add a passkey' }).click()
    await operator.getByLabel('Name', { exact: true }).last().fill('Laptop')
    await button(operator, 'Add a passkey').click()
    await operator.locator('.list strong', { hasText: 'Laptop' }).waitFor()
    await operator.goto(`${base}/auth/me`)
    await button(operator, 'Sign out').click()
    await button(operator, 'Sign in with a passkey').click()
    await operator.waitForURL(`${base}/dash/`)

    // Another directory signs in through the same browser, and works over REST.
    const login = svc(t, laptop, ['login', 'demo', '--url', base])
    await operator.goto(await lineOf(login.stderr, /^ {2}(http:\S+)$/))
    await button(operator, 'Allow').click()
    await operator.getByText('You are signed in.').waitFor()
    if (login.exitCode === null) await once(login, 'exit')
    const remote = await output(svc(t, laptop, ['token', 'demo', 'list']))
    assert.match(remote, /web:main\/start/)
    assert.equal(remote, await output(svc(t, server, ['token', 'demo', 'list'])))
    await output(svc(t, server, ['group', 'demo', 'add', 'sandbox:lobby', 'team']))
    const invite = await output(svc(t, laptop, ['invite', 'demo', 'create', 'team/**']))
    const accept = /http:\S+\/invite\/\S+/.exec(invite)?.[0] ?? `${base}/invite/${/^token: (\S+)$/m.exec(invite)?.[1]}`

    // The guest has an account at the provider only.
    const guest = await openDevice(t, accept)
    await guest.getByText('team').first().waitFor()
    await button(guest, 'Sign in to accept').click()
    await guest.getByRole('link', { name: /acme/i }).click()
    await guest.locator('input[name=login]').fill('grace')
    await guest.locator('input[name=password]').fill('any')
    await guest.locator('button[type=submit]').click()
    await guest.locator('button[type=submit]').click()
    await guest.waitForURL(`${base}/invite/*`)
    await button(guest, 'Accept').click()
    await guest.waitForURL(`${base}/chat/~*/`)
    await guest.getByRole('textbox').fill('Who am I?')
    await guest.keyboard.press('Enter')
    await guest.getByText('oidc:acme/grace').first().waitFor()

    // Their folder and nothing else.
    const readMe = async (): Promise<string> =>
      (await fetch('/auth/me', { headers: { Accept: 'application/json' } })).text()
    const me: { folders: string[]; csrf: string } = JSON.parse(await guest.evaluate(readMe))
    assert.deepEqual(me.folders, ['team'])
    const statuses = await guest.evaluate(async (csrf) => {
      const paths = ['/v1/signing_keys', '/v1/onboarding', '/v1/proxyd_routes', '/metrics']
      const reads = await Promise.all(paths.map(async (path) => (await fetch(path)).status))
      const headers = { 'X-CSRF-Token': csrf, 'Content-Type': 'application/json' }
      const body = JSON.stringify({ target_folder: 'main' })
      const mint = await fetch('/v1/route_tokens/chat', { method: 'POST', headers, body })
      return [...reads, mint.status]
    }, me.csrf)
    for (const status of statuses) assert.ok(status === 403 || status === 404, String(statuses))
    // To others, the used invite looks like an unknown one.
    const page = await operator.goto(accept)
    assert.equal(page?.status(), 404)
  })
})
