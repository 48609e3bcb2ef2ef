// While `svc serve --port` runs, every command and every daemon names one address, and commands are shown as they can be typed.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { suite, test } from 'node:test'
import { CookieBrowser } from '../support/cookie-browser.ts'
import { mustReadForm } from '../support/dashboard-forms.ts'
import { freePort } from '../support/free-port.ts'
import { instance } from '../support/svc.ts'
import { tempDir } from '../support/temp.ts'

const ROOT = dirname(dirname(import.meta.dirname))
const SVC = join(ROOT, 'bin/svc.js')

test('all links lead to the port of svc serve --port, with one host name', async (t) => {
  const demo = await instance(t)
  const env = join(demo.root, '.env')
  writeFileSync(env, readFileSync(env, 'utf8').replace(/^WEB_LISTEN=.*$/m, 'WEB_LISTEN=127.0.0.1:8080'))
  const port = await freePort()
  const base = `http://localhost:${port}`
  await demo.serve(['--port', String(port)])
  const ask = async (...words: string[]): Promise<string> => {
    const { code, stdout, stderr } = await demo.run(...words)
    assert.equal(code, 0, stderr)
    return stdout
  }
  const links = new Map<string, string>()
  const note = (by: string, text: string): void => {
    links.set(by, /https?:\/\/[^/\s"<]+(?=\/(?:chat|hook|invite|auth)\/)/.exec(text)?.[0] ?? `none in ${text}`)
  }
  await ask('group', 'demo', 'grant', 'local:ada', '**')
  note('token issue chat', await ask('token', 'demo', 'issue', 'chat', 'main'))
  note('token issue webhook', await ask('token', 'demo', 'issue', 'webhook', 'main', 'ci'))
  note('invite create', await ask('invite', 'demo', 'create', 'team/**'))
  // The agent calls a tool in the process that runs turns.
  note('send, and a tool', await ask('send', 'demo', 'main', '/tool issue_chat_link {"jid_suffix":"tool"}', '--wait'))
  const headers = { Authorization: `Bearer ${(await ask('bearer', 'demo', 'local:ada')).trim()}` }
  const minted = await fetch(`${base}/v1/route_tokens/chat`, { method: 'POST', headers })
  note('REST', await minted.text())
  const listed: { listen: string }[] = JSON.parse(await ask('list', '--json'))
  assert.deepEqual(
    listed.map(({ listen }) => listen),
    [`http://127.0.0.1:${port}`],
  )

  const signIn = (await ask('login', 'demo', 'local:ada')).trim()
  note('login', signIn)
  const browser = new CookieBrowser({})
  assert.equal((await browser.post(signIn, {})).status, 303)
  const page = `${base}/dash/folders/main?view=links`
  const form = mustReadForm(await (await browser.fetch(page)).text(), ({ id }) => id === 'form-chat', page)
  const answer = await browser.post(new URL(form.to, page).href, { ...form.fields, jid_suffix: 'page' })
  note('dashboard', await answer.text())
  assert.deepEqual(
    [...links].filter(([, origin]) => origin !== base),
    [],
  )

  // This test starts svc in the checkout, and in another directory than /srv/data.
  const home = await (await browser.fetch(`${base}/dash/`)).text()
  assert.ok(home.includes(`data-copy="SVC_DATA_DIR=${dirname(demo.root)} npx svc doctor demo"`), home)
})

suite('commands in messages are shown', () => {
  const hintOf = (cwd: string, path: string, program = SVC): string => {
    const dir = join(cwd, 'data')
    const env = { PATH: path, SVC_DATA_DIR: dir }
    return spawnSync(process.execPath, [program, 'group', 'demo', 'list'], { cwd, env, encoding: 'utf8' }).stderr
  }
  test('with npx in the checkout, whose .bin npm puts on the PATH', (t) => {
    const bin = join(tempDir(t), 'node_modules/.bin')
    mkdirSync(bin, { recursive: true })
    symlinkSync(SVC, join(bin, 'svc'))
    assert.match(hintOf(ROOT, bin), /\nhint: npx svc create demo creates it\n$/)
  })
  test('with the path of the program elsewhere', (t) =>
    assert.ok(hintOf(tempDir(t), '/usr/bin').endsWith(`\nhint: ${SVC} create demo creates it\n`)))
  test('as svc where the PATH leads to this program', (t) => {
    const bin = tempDir(t)
    symlinkSync(SVC, join(bin, 'svc'))
    assert.match(hintOf(bin, ['/usr/bin', bin].join(delimiter)), /\nhint: svc create demo creates it\n$/)
  })
})
