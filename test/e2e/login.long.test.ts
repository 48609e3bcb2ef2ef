// Signing in from the command line with real processes: a one-time link, then a second machine by device code and by browser.
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type TestContext, test } from 'node:test'
import { freePort } from '../support/free-port.ts'
import { type Instance, instance } from '../support/svc.ts'
import { tempDir } from '../support/temp.ts'
import { until } from '../support/until.ts'

const SVC = join(import.meta.dirname, '../../bin/svc.js')

/** A browser with one cookie jar for one server. */
class Browser {
  readonly #base: string
  #cookie = ''

  constructor(base: string) {
    this.#base = base
  }

  async open(path: string): Promise<string> {
    const page = await this.#fetch(path, {})
    assert.equal(page.status, 200, path)
    return page.text()
  }

  /** Sends a form of a page with its hidden fields. */
  async submit(path: string, page: string, fields: Record<string, string> = {}): Promise<Response> {
    const hidden = [...page.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)">/g)]
    const values = hidden.map(([, name = '', value = '']) => [name, value.replaceAll('&amp;', '&')])
    const body = new URLSearchParams({ ...Object.fromEntries(values), ...fields })
    return this.#fetch(path, { method: 'POST', body, headers: { Origin: this.#base } })
  }

  async #fetch(path: string, init: RequestInit): Promise<Response> {
    const headers = { Accept: 'text/html', Cookie: this.#cookie, ...init.headers }
    const response = await fetch(`${this.#base}${path}`, { ...init, headers, redirect: 'manual' })
    const [cookie] = response.headers.getSetCookie()
    if (cookie !== undefined) this.#cookie = cookie.split(';')[0] ?? ''
    return response
  }
}

/** svc on another machine: with a data directory of its own. */
function laptop(t: TestContext) {
  const dir = tempDir(t)
  const start = (...args: string[]): ChildProcess => {
    const env = { PATH: process.env.PATH, HOME: process.env.HOME, SVC_DATA_DIR: dir }
    const child = spawn(process.execPath, [SVC, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] })
    t.after(() => void child.kill('SIGKILL'))
    return child
  }
  return {
    dir,
    start,
    run: async (...args: string[]) => {
      const child = start(...args)
      const said = { stdout: '', stderr: '' }
      for (const name of ['stdout', 'stderr'] as const)
        child[name]?.on('data', (chunk) => {
          said[name] += chunk
        })
      const [code] = await once(child, 'close')
      return { code, ...said }
    },
  }
}

/** The first indented line that matches. */
async function readIndented({ stderr }: ChildProcess, pattern: RegExp): Promise<string> {
  if (!stderr) assert.fail('no stderr')
  for await (const line of createInterface({ input: stderr })) {
    const found = line.startsWith('  ') ? pattern.exec(line.trim())?.[0] : undefined
    if (found !== undefined) return found
  }
  return assert.fail('svc ended')
}

async function exitOf(child: ChildProcess): Promise<number | null> {
  if (child.exitCode === null) await once(child, 'exit')
  return child.exitCode
}

async function served(t: TestContext): Promise<{ demo: Instance; base: string; browser: Browser }> {
  const host = `localhost:${await freePort()}`
  const base = `http://${host}`
  const demo = await instance(t, { WEB_HOST: host })
  await demo.serve([], { PROXYD_LISTEN: host.replace('localhost', '127.0.0.1') })
  await demo.run('group', 'demo', 'grant', 'local:operator', '**')
  const browser = new Browser(base)
  const { stdout, stderr } = await demo.run('login', 'demo', 'local:operator')
  assert.equal(stderr, 'valid for 15 minutes, once; it leads to the dashboard\n')
  const { origin, pathname } = new URL(stdout.trim())
  assert.equal(origin, base)
  // Looking at the page does not use the link up.
  await browser.open(pathname)
  const page = await browser.open(pathname)
  assert.equal((await browser.submit(pathname, page)).status, 303)
  assert.match(await browser.open('/auth/me'), /local:operator/)
  assert.equal((await new Browser(base).submit(pathname, page)).status, 404)
  return { demo, base, browser }
}

test('the operator signs in by link, and from another machine by device code and by browser', async (t) => {
  const { demo, base, browser } = await served(t)
  const chat = /^url: (\S+)$/m.exec((await demo.run('token', 'demo', 'issue', 'chat', 'main')).stdout)?.[1] ?? ''
  await fetch(chat, { method: 'POST', body: new URLSearchParams({ content: 'hello' }) })
  const machine = laptop(t)

  const device = machine.start('login', 'prod', '--url', base, '--device')
  const code = await readIndented(device, /^[A-Z0-9]{4}-[A-Z0-9]{4}$/)
  const asked = await browser.submit('/auth/device', await browser.open('/auth/device'), { user_code: code })
  const allowed = await browser.submit('/auth/device', await asked.text(), { decision: 'allow' })
  assert.match(await allowed.text(), /Connected/)
  assert.equal(await exitOf(device), 0)
  const root = join(machine.dir, 'svc_prod')
  assert.deepEqual(
    [root, join(root, 'remote.json')].map((path) => statSync(path).mode & 0o777),
    [0o700, 0o600],
  )

  const login = machine.start('login', 'other', '--url', base)
  const url = new URL(await readIndented(login, /^http\S+$/))
  assert.equal(url.origin, base)
  const consent = await browser.open(`${url.pathname}${url.search}`)
  const answer = await browser.submit('/auth/authorize', consent, { decision: 'allow' })
  const callback = answer.headers.get('location') ?? assert.fail(`status ${answer.status}`)
  assert.match(await (await fetch(callback)).text(), /^You are signed in\./)
  assert.equal(await exitOf(login), 0)

  // The server writes counts of links from time to time.
  await until(async () => /\tmain\t\S+Z\t\S+Z\tchat\t/.test((await demo.run('token', 'demo', 'list')).stdout))
  for (const line of ['token list', 'token list --json', 'invite list', 'route list', 'task list', 'audit']) {
    const [noun = '', ...rest] = line.split(' ')
    const local = await demo.run(noun, 'demo', ...rest)
    assert.equal(local.code, 0, line)
    for (const name of ['prod', 'other']) assert.deepEqual(await machine.run(noun, name, ...rest), local, line)
  }

  // Parallel commands renew an expired token together.
  const file = join(root, 'remote.json')
  for (let round = 0; round < 2; round++) {
    const text = readFileSync(file, 'utf8')
    writeFileSync(file, text.replace(/"expires_ms": \d+/, '"expires_ms": 1'))
    const lines = ['token', 'route', 'task'].map((noun) => machine.run(noun, 'prod', 'list'))
    for (const { code, stderr } of await Promise.all(lines)) assert.equal(code, 0, stderr)
    assert.notEqual(readFileSync(file, 'utf8'), text)
  }

  const sessions: { family_id: string; kind: string; status: string }[] = JSON.parse(
    (await demo.run('session', 'demo', 'list', 'local:operator', '--json')).stdout,
  )
  const clients = sessions.filter(({ kind }) => kind === 'client')
  assert.equal(clients.length, 2)
  // The newest is first.
  assert.equal((await demo.run('session', 'demo', 'revoke', clients[0]?.family_id ?? '')).code, 0)
  assert.deepEqual(await machine.run('token', 'other', 'list'), {
    code: 1,
    stdout: '',
    stderr: `svc: you are not signed in to other any more\nhint: npx svc login other --url ${base}\n`,
  })
  assert.equal((await machine.run('token', 'prod', 'list')).code, 0)

  assert.equal((await machine.run('logout', 'prod')).code, 0)
  assert.ok(!existsSync(root))
  const after = await demo.run('session', 'demo', 'list', '--json')
  const active = JSON.parse(after.stdout).filter(({ status }: { status: string }) => status === 'active')
  assert.deepEqual(
    active.map(({ kind }: { kind: string }) => kind),
    ['browser'],
  )
})

test('svc login that is stopped by Ctrl-C leaves nothing', async (t) => {
  const { base } = await served(t)
  const machine = laptop(t)
  const login = machine.start('login', 'prod', '--url', base)
  await readIndented(login, /^http\S+$/)
  login.kill('SIGINT')
  assert.equal(await exitOf(login), 130)
  assert.ok(!existsSync(join(machine.dir, 'svc_prod')))
})
