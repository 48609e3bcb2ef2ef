// Imitates the command line of the agent client: its documented flags, JSON lines, sessions and failures. The prompt decides
// what it does.
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    print: { type: 'boolean' },
    verbose: { type: 'boolean' },
    'strict-mcp-config': { type: 'boolean' },
    'include-partial-messages': { type: 'boolean' },
    'fork-session': { type: 'boolean' },
    'output-format': { type: 'string' },
    'mcp-config': { type: 'string' },
    'permission-mode': { type: 'string' },
    allowedTools: { type: 'string' },
    'append-system-prompt': { type: 'string' },
    resume: { type: 'string' },
    model: { type: 'string' },
    'max-budget-usd': { type: 'string' },
  },
})

const fail = (sentence: string, code = 1): never => {
  process.stderr.write(`${sentence}\n`)
  process.exit(code)
}
const print = (event: object): void => void process.stdout.write(`${JSON.stringify(event)}\n`)

if (positionals.length > 0) fail(`error: unexpected ${positionals}`)
if (values['output-format'] === 'stream-json' && !(values.print && values.verbose))
  fail('Error: When using --print, --output-format=stream-json requires --verbose')
if (values['permission-mode'] === 'bypassPermissions' && process.getuid?.() === 0)
  fail('bypassing permissions cannot be used with root privileges')
const config = readFileSync(values['mcp-config'] ?? fail('error: no MCP configuration'), 'utf8')
const modes = [dirname(values['mcp-config'] ?? ''), values['mcp-config'] ?? ''].map((path) =>
  (statSync(path).mode & 0o777).toString(8),
)
const sessions = join(process.env.HOME ?? '/', '.claude')
const told = values.resume
if (told !== undefined && !existsSync(join(sessions, told))) {
  if (told.startsWith('said-')) {
    const errors = [`No conversation found with session ID: ${told}`]
    print({ type: 'result', subtype: 'error_during_execution', is_error: true, errors, session_id: randomUUID() })
    process.exit(1)
  }
  fail(`No conversation found with session ID: ${told}`)
}
const session_id = told === undefined || values['fork-session'] ? randomUUID() : told
const before = told === undefined ? '' : readFileSync(join(sessions, told), 'utf8')

let prompt = ''
for await (const chunk of process.stdin) prompt += chunk
mkdirSync(sessions, { recursive: true })
writeFileSync(join(sessions, session_id), `${before}${prompt}\n`)

/** `tools late <n>`: the first n starts begin before the tool server is connected. */
function toolStatus(): string {
  const late = Number(/^tools late (\d+)/.exec(prompt)?.[1] ?? 0)
  const file = join(sessions, 'starts')
  const starts = existsSync(file) ? Number(readFileSync(file, 'utf8')) : 0
  writeFileSync(file, String(starts + 1))
  return starts < late ? 'pending' : 'connected'
}

const model = values.model ?? 'model-of-the-client'
const ended = {
  session_id,
  duration_ms: 1,
  num_turns: 1,
  total_cost_usd: 0.0301,
  usage: { input_tokens: 11, output_tokens: 22 },
}
print({
  type: 'system',
  subtype: 'init',
  session_id,
  model,
  tools: [],
  mcp_servers: [{ name: 'svc', status: toolStatus() }],
})
print({ type: 'assistant', message: { role: 'assistant', content: [{ type: 'text', text: 'hm' }] }, session_id })

const answers: Record<string, () => unknown> = {
  flags: () => success(JSON.stringify({ ...values, env: process.env, before, modes })),
  mcp: () => success(config),
  tools: useTools,
  both: () =>
    print({
      ...ended,
      type: 'result',
      subtype: 'success',
      is_error: false,
      result: 'two models',
      modelUsage: {
        big: { inputTokens: 5, outputTokens: 6, costUSD: 0.024 },
        small: { inputTokens: 1, outputTokens: 2, costUSD: 0.0061 },
      },
    }),
  error: () =>
    print({ ...ended, type: 'result', subtype: 'success', is_error: true, result: 'API Error: 529 Overloaded' }),
  long: () => print({ ...ended, type: 'result', subtype: 'success', is_error: true, result: 'Prompt is too long' }),
  login: () =>
    print({
      ...ended,
      type: 'result',
      subtype: 'success',
      is_error: true,
      result: 'Invalid API key · Please run /login',
    }),
  budget: () => {
    print({ ...ended, type: 'result', subtype: 'error_max_budget_usd', is_error: true })
    process.exitCode = 1
  },
  garbage: () => {
    process.stdout.write('not JSON\n{"type":\n[1,2]\nnull\n"text"\n')
    success('after garbage')
  },
  half: () => process.stdout.write('{"type":"result","subtype":"success","result":"cut o'),
  unended: () =>
    process.stdout.write(JSON.stringify({ ...ended, type: 'result', subtype: 'success', result: 'no newline' })),
  crash: () => fail('panic: something broke', 2),
  hang: () => setInterval(() => undefined, 1000),
  // The provider refuses the key: the client retries for minutes.
  key: () => {
    const retry = { type: 'system', subtype: 'api_retry', attempt: 1, max_retries: 10, retry_delay_ms: 500, session_id }
    print({ ...retry, error_status: 529, error: 'server_error' })
    print({ ...retry, error_status: 401, error: 'authentication_failed' })
    setInterval(() => undefined, 1000)
  },
  xkey: () =>
    print({
      ...ended,
      type: 'result',
      subtype: 'success',
      is_error: true,
      result: 'API Error: 401 {"error":{"type":"authentication_error","message":"invalid x-api-key"}}',
    }),
}

/** Uses the server of its configuration, as the client does. */
async function useTools(): Promise<void> {
  const { command, args, env } = JSON.parse(config).mcpServers.svc
  const server = spawn(command, args, { env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'inherit'] })
  const answers = createInterface({ input: server.stdout })[Symbol.asyncIterator]()
  const ask = async (id: number, method: string, params: object) => {
    server.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`)
    return JSON.parse((await answers.next()).value ?? 'null')?.result
  }
  await ask(1, 'initialize', {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'x', version: '1' },
  })
  const { tools } = await ask(2, 'tools/list', {})
  await ask(3, 'tools/call', { name: 'reply', arguments: { chatJid: process.env.SVC_JID, text: 'by its tool' } })
  server.stdin.end()
  success(tools.map(({ name }: { name: string }) => name).join())
}

function success(result: string): void {
  print({ ...ended, type: 'result', subtype: 'success', is_error: false, result })
}

/** `answer <n>`: an answer of n characters; `line <n>`: a result whose line has n characters. */
function longAnswer(): (() => void) | undefined {
  const [, kind, digits] = /^(answer|line) (\d+)$/.exec(prompt.trim()) ?? []
  if (kind === undefined) return undefined
  const frame = JSON.stringify({ ...ended, type: 'result', subtype: 'success', is_error: false, result: '' })
  return () => success('x'.repeat(Number(digits) - (kind === 'line' ? frame.length : 0)))
}

const answer = answers[prompt.trim()] ?? longAnswer() ?? (() => success(`you said ${prompt.trim()}`))
await answer()
