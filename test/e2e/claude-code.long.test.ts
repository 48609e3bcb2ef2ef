// The published Claude Code with svc: as the program of a runtime, against a stand-in of its API, and as an MCP client.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { findOnPath } from '../../src/cell/executable.ts'
import { messages } from '../../src/core/messages/messages.ts'
import { sessions } from '../../src/core/people/sessions.ts'
import { storedSettings } from '../../src/core/settings/stored-settings.ts'
import { isActivity } from '../../src/core/turns/drafts.ts'
import { routeTokensResource } from '../../src/resources/route-tokens.ts'
import { demoCli } from '../support/cli.ts'
import { type Dashboard, OPERATOR, serveDashboard } from '../support/dashboard.ts'
import { followForm } from '../support/dashboard-forms.ts'
import { freePort } from '../support/free-port.ts'
import {
  type MessagesEndpoint,
  type MessagesReply,
  messagesEndpoint,
  replyText,
  replyToolUse,
} from '../support/messages-endpoint.ts'
import { needs } from '../support/needs.ts'
import { allow } from '../support/oauth.ts'
import { tempDir } from '../support/temp.ts'
import { until } from '../support/until.ts'

const PARTS = needs('claude', 'bubblewrap', 'script', 'open checkout')
const KEY = 'sk-ant-api03-of-the-test'
const REPLY = 'mcp__svc__reply'

/** The settings of the program, wherever it is installed. */
function programSettings(): { AGENT_CLI: string; SANDBOX_PATHS: string } {
  const AGENT_CLI = realpathSync(findOnPath('claude') ?? '')
  return { AGENT_CLI, SANDBOX_PATHS: dirname(AGENT_CLI) }
}

test('svc model and svc doctor --online test Claude Code with a real run', PARTS, async (t) => {
  const endpoint = await messagesEndpoint(t)
  endpoint.answer(() => replyText('Hello from the model!'))
  const cli = await demoCli(t)
  const env = programSettings()
  const set = (url: string) => cli.run(`model demo --runtime claude --base-url ${url} --key -`, { env, stdin: KEY })
  const { code, stdout, stderr } = await set(endpoint.url)
  assert.equal(code, 0, stderr)
  assert.match(stdout, /^Claude Code answered in \d+\.\d s: Hello from the model!\nset Claude Code for the instance/)
  const [asked] = endpoint.asked
  assert.equal(asked?.headers['x-api-key'], KEY)
  assert.ok(offersTool(asked, REPLY), 'the run has the tools of a turn')

  const findings: { check: string; status: string; detail: string }[] = JSON.parse(
    (await cli.run('doctor demo --online --json', { env })).stdout,
  )
  const call = findings.find(({ check }) => check === 'model call')
  assert.equal(call?.status, 'ok')
  assert.match(call?.detail ?? '', /^Claude Code answered in \d+\.\d s$/)

  const unreachable = await set(`http://127.0.0.1:${await freePort()}`)
  assert.match(unreachable.stderr, /^svc: a run in main failed: .* refused the connection/)
  assert.match(await cli.ok('model demo show'), new RegExp(`endpoint: +${endpoint.url} `), 'it changed nothing')
})

test('Claude Code is set on the Model page, answers a visitor with a tool, and signs in at /mcp', PARTS, async (t) => {
  const settings = { ...programSettings(), OAUTH_CLIENT_DOCUMENTS: 'off' }
  const dash = await serveDashboard(t, { settings, isLive: true })
  const endpoint = await messagesEndpoint(t)

  await t.test('the form of the Model page tests and saves', async () => {
    const path = '/dash/model?kind=claude'
    const form = { action: 'set_model', kind: 'claude', base_url: endpoint.url, key: KEY, model: '' }
    endpoint.answer(() => replyText('Hello from the model!'))
    const page = await followForm(dash.operator, path, form)
    assert.match(page, /Claude Code answered in \d+\.\d s: Hello from the model!/)
    const rows = await dash.host.engine.read((tx) => storedSettings.list(tx))
    assert.equal(rows.find(({ key }) => key === 'AGENT_RUNTIME')?.value, 'claude')
    assert.deepEqual(await listMessages(dash), [], 'a test leaves no message')
  })

  await t.test("a visitor's turn answers with a tool of its socket", () => answersWithTool(dash, endpoint))

  await t.test('a visitor reads its answer while the model writes it', () => isReadAlong(dash, endpoint))

  await t.test('claude mcp login registers, and its connection uses the tokens', () => signsIn(t, dash))
})

interface Round {
  readonly status: string
  readonly frames: readonly { readonly content: string }[]
}

/** Posts a message to a new link, and waits for the end of its round. */
async function askMain(dash: Dashboard, suffix: string, begin: (jid: string) => void): Promise<Round> {
  const issued = { target_folder: 'main', jid_suffix: suffix }
  const { token, jid } = await dash.cli.call(routeTokensResource.verbs.issue_chat, issued)
  begin(jid)
  const headers = { 'Content-Type': 'application/json' }
  const chat = `${dash.url()}/chat/${token}/`
  const post = await fetch(chat, { method: 'POST', headers, body: JSON.stringify({ content: 'hello' }) })
  const { turn_id } = JSON.parse(await post.text())
  let round: Round = { status: 'pending', frames: [] }
  await until(async () => {
    round = JSON.parse(await (await fetch(`${chat}${turn_id}`)).text())
    return round.status !== 'pending'
  })
  return round
}

async function isReadAlong(dash: Dashboard, endpoint: MessagesEndpoint): Promise<void> {
  const answer = 'Read along, please.'
  endpoint.answer(() => replyText(answer))
  const seen = new Set<string>()
  const stop = dash.host.drafts.on((piece) => isActivity(piece) || seen.add(`${piece.state}: ${piece.text}`))
  const { status, frames } = await askMain(dash, 'drafts', () => undefined)
  stop()
  assert.deepEqual([status, frames.map(({ content }) => content)], ['success', [answer]])
  assert.ok(seen.has(`open: ${answer}`) || seen.has(`complete: ${answer}`), [...seen].join('\n'))
  const logs = join(dash.host.layout?.logs ?? '', 'main')
  const log = readdirSync(logs)
    .map((name) => readFileSync(join(logs, name), 'utf8'))
    .join('')
  assert.match(log, /"Read along, please\."/)
  assert.doesNotMatch(log, /"stream_event"/, 'the log has only the whole text')
}

async function answersWithTool(dash: Dashboard, endpoint: MessagesEndpoint): Promise<void> {
  const results: unknown[] = []
  const round = await askMain(dash, 'tools', (jid) =>
    endpoint.answer(({ body }) => {
      const used = usedTools(body)
      if (used.includes(REPLY)) {
        results.push(...blocksOf(body).filter(({ type }) => type === 'tool_result'))
        return replyText('This answer is not posted.')
      }
      // The client may load the schemas of tools only when the model asks for them.
      return used.length > 0 || body.tools?.some(({ name }) => name === REPLY)
        ? replyToolUse(REPLY, { chatJid: jid, text: 'By the tool.' })
        : replyToolUse('ToolSearch', { query: `select:${REPLY}` })
    }),
  )
  assert.deepEqual([round.status, round.frames.map(({ content }) => content)], ['success', ['By the tool.']])
  assert.ok(results.length > 0)
  assert.doesNotMatch(JSON.stringify(results), /"is_error":true/)
}

/** The program opens a browser, which is a script here, and listens for the answer. */
async function signsIn(t: TestContext, dash: Dashboard): Promise<void> {
  const home = tempDir(t)
  const [opened, browser] = [join(home, 'opened'), join(home, 'browser')]
  writeFileSync(browser, `#!/bin/sh\nprintf %s "$1" > '${opened}.new' && mv '${opened}.new' '${opened}'\n`, {
    mode: 0o755,
  })
  const { AGENT_CLI } = programSettings()
  const start = (program: string, ...args: string[]) => {
    const child = spawn(program, args, {
      cwd: home,
      env: {
        PATH: process.env.PATH,
        HOME: home,
        TERM: 'dumb',
        BROWSER: browser,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        DISABLE_AUTOUPDATER: '1',
      },
    })
    t.after(() => void child.kill('SIGKILL'))
    let output = ''
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (text) => {
        output += text
      })
    return { child, ended: once(child, 'close').then(([code]) => ({ code, output })) }
  }
  const claude = async (...args: string[]): Promise<string> => {
    const { code, output } = await start(AGENT_CLI, ...args).ended
    assert.equal(code, 0, output)
    return output
  }
  await claude('mcp', 'add', '--transport', 'http', 'svc', `${dash.base}/mcp`)
  // It signs in on a terminal only.
  const login = start('script', '-qfec', `'${AGENT_CLI}' mcp login svc`, '/dev/null')
  await until(() => existsSync(opened) || login.child.exitCode !== null)
  if (!existsSync(opened)) assert.fail((await login.ended).output)
  const { searchParams } = new URL(readFileSync(opened, 'utf8'))
  assert.match(searchParams.get('client_id') ?? '', /^client-/)
  const answer = await allow(dash.operator, Object.fromEntries(searchParams))
  await fetch(`${searchParams.get('redirect_uri')}?${answer}`)
  const { code, output } = await login.ended
  assert.equal(code, 0, output)
  assert.match(output, /Authenticated with "svc"/)
  assert.match(await claude('mcp', 'list'), /svc: .*Connected/)
  const rows = await dash.host.engine.read((tx) => sessions.list(tx, { kind: 'client' }))
  assert.deepEqual(
    rows.map(({ sub, name }) => [sub, name]),
    [[OPERATOR, 'Claude Code (svc)']],
  )
}

type Request = Parameters<MessagesReply>[0]

function blocksOf({ messages: said }: Request['body']) {
  return said.flatMap(({ content }) => (typeof content === 'string' ? [] : content))
}

function usedTools(body: Request['body']): string[] {
  return blocksOf(body).flatMap(({ type, name }) => (type === 'tool_use' && name !== undefined ? [name] : []))
}

/** Among the tools, or among those whose schemas are loaded on demand. */
function offersTool(asked: Request | undefined, name: string): boolean {
  return JSON.stringify([asked?.body.tools, asked?.body.messages]).includes(name)
}

function listMessages(dash: Dashboard) {
  return dash.host.engine.read((tx) => messages.list(tx))
}
