// Visitors of a chat link with each runtime: tools that the agent may call for them, and tools only for operators.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { agentDir } from '../support/agent-files.ts'
import { chatEndpoint, replyText, replyToolCalls } from '../support/chat-endpoint.ts'
import { needs } from '../support/needs.ts'
import { instance } from '../support/svc.ts'
import { until } from '../support/until.ts'

const OPERATOR_CALLS: readonly (readonly [tool: string, args: object])[] = [
  ['invite_create', { target_glob: '**' }],
  ['proxyd_routes.create', { path: '/x', backend: 'http://127.0.0.1:1', auth: 'public' }],
  ['audit.list', {}],
]

function refusal(tool: string): string {
  return `${tool}: not permitted in this turn, because visitors of this chat may not ask for it (reach chat, needed all)`
}

async function open(t: TestContext, settings: Record<string, string>) {
  const demo = await instance(t, settings)
  const svc = async (...args: string[]): Promise<string> => {
    const { code, stdout, stderr } = await demo.run(...args)
    assert.equal(code, 0, `svc ${args.join(' ')}: ${stderr}`)
    return stdout
  }
  const { urls } = await demo.serve()
  return {
    svc,
    link: async (...options: string[]): Promise<string> => {
      const issued = await svc('token', 'demo', 'issue', 'chat', 'main', ...options)
      return `${urls.get('proxyd')}${new URL(/^url: (\S+)$/m.exec(issued)?.[1] ?? '').pathname}`
    },
  }
}

async function ask(chat: string, content: string): Promise<{ id: string; text: string }> {
  const headers = { 'Content-Type': 'application/json' }
  const answer = await fetch(chat, { method: 'POST', headers, body: JSON.stringify({ content }) })
  const { turn_id: id } = JSON.parse(await answer.text())
  let round = { status: 'pending', frames: [] as { content: string }[] }
  await until(async () => {
    round = JSON.parse(await (await fetch(`${chat}${id}`)).text())
    return round.status !== 'pending'
  })
  return { id, text: round.frames.map((frame) => frame.content).join('\n') }
}

/** A program for the runtimes that start one: it calls the tools given in the message. */
function toolUser(t: TestContext): { program: string; paths: string } {
  const script = join(import.meta.dirname, '..', 'support', 'tool-user.ts')
  const program = join(agentDir(t), 'agent')
  writeFileSync(program, `#!/bin/sh\nexec '${process.execPath}' '${script}' "$@"\n`, { mode: 0o755 })
  return { program, paths: [program, script, process.execPath].map((path) => dirname(path)).join(':') }
}

test('the demo refuses operator tools to visitors and allows them on a link minted with all tools', async (t) => {
  const { svc, link } = await open(t, {})
  const [visitor, operator] = [await link('site'), await link('desk', '--tools', 'all')]
  for (const [tool, args] of OPERATOR_CALLS) {
    const { text } = await ask(visitor, `/tool ${tool} ${JSON.stringify(args)}`)
    assert.equal(text, `refused: ${refusal(tool)}`)
  }
  const { text } = await ask(operator, '/tool invite_create {"target_glob":"main/**"}')
  assert.match(text, /"target_glob":"main\/\*\*"/)

  const { id } = await ask(visitor, 'remind me in 1h to drink water')
  assert.match(await svc('messages', 'demo', 'show', id), /^reach: +chat$/m)
  const rows = await svc('token', 'demo', 'list', 'main')
  assert.match(rows, /^JID\t.*\tTOOLS\t/m)
  assert.match(rows, /^web:main\/site\t.*\tchat\t/m)
  assert.match(rows, /^web:main\/desk\t.*\tall\t/m)
  const tasks: { reach?: string; prompt: string }[] = JSON.parse(await svc('task', 'demo', 'list', '--json'))
  assert.deepEqual(
    tasks.filter(({ prompt }) => /drink water/.test(prompt)).map(({ reach }) => reach),
    ['chat'],
  )
  // Other chats do not see the reminder of this visitor.
  const other = await link('other')
  assert.match((await ask(visitor, 'tasks')).text, /drink water/)
  assert.match((await ask(other, 'tasks')).text, /^No task is scheduled\.$/m)
})

test('a model that calls operator tools for a visitor is refused', async (t) => {
  const endpoint = await chatEndpoint(t)
  const { link } = await open(t, { AGENT_RUNTIME: 'openai', OPENAI_BASE_URL: endpoint.url, OPENAI_MODEL: 'm' })
  const chat = await link()
  for (const [name, args] of OPERATOR_CALLS) {
    endpoint.answer(replyToolCalls({ name, args: JSON.stringify(args) }), (response, { body }) =>
      replyText(String(body.messages.at(-1)?.content))(response, { body, url: '', headers: {} }),
    )
    assert.equal((await ask(chat, 'please')).text, `error: ${refusal(name)}`)
  }
  const offered = endpoint.asked[0]?.body.tools?.map((tool) => tool.function.name) ?? []
  assert.ok(offered.includes('reply') && !OPERATOR_CALLS.some(([name]) => offered.includes(name)), offered.join())
})

for (const runtime of ['command', 'claude'])
  test(
    `a program of the runtime ${runtime} is refused operator tools for a visitor`,
    needs('open checkout'),
    async (t) => {
      const { program, paths } = toolUser(t)
      const { link } = await open(t, {
        AGENT_RUNTIME: runtime,
        AGENT_COMMAND: program,
        AGENT_CLI: program,
        SANDBOX_PATHS: paths,
      })
      const chat = await link()
      for (const [tool, args] of OPERATOR_CALLS)
        assert.equal((await ask(chat, `/tool ${tool} ${JSON.stringify(args)}`)).text, refusal(tool))
    },
  )
