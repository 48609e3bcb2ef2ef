// An agent that executes the commands of a visitor: it calls a tool for each line `/tool <name> <arguments>` and replies with the
// results. As `claude` it speaks the protocol of that client; otherwise its stdout is the reply.
import { createConnection } from 'node:net'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'

const ENTITIES: Readonly<Record<string, string>> = { quot: '"', amp: '&', lt: '<', gt: '>', '#34': '"', '#39': "'" }

const prompt = (await text(process.stdin)).replace(/&([a-z#0-9]+);/g, (whole, name) => ENTITIES[name] ?? whole)
const { SVC_SOCKET = '', SVC_TURN, SVC_FENCE } = process.env
const socket = createConnection(SVC_SOCKET)
const lines = createInterface({ input: socket })[Symbol.asyncIterator]()
let id = 0

async function ask(
  method: string,
  params: object,
): Promise<{ result?: { content: { text: string }[] }; error?: object }> {
  id++
  socket.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`)
  return JSON.parse((await lines.next()).value ?? '{}')
}

await ask('initialize', {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'x', version: '1' },
  _meta: { 'svc/turn': SVC_TURN, 'svc/fence': Number(SVC_FENCE) },
})
const said: string[] = []
for (const [, name, args = '{}'] of prompt.matchAll(/\/tool (\S+) (\{.*\})/g)) {
  const { result, error } = await ask('tools/call', { name, arguments: JSON.parse(args) })
  said.push(result?.content[0]?.text ?? JSON.stringify(error))
}
socket.end()
const result = said.at(-1) ?? 'nothing to do'
if (process.argv.includes('--print')) {
  const about = { session_id: '0e5e5e5e-0000-4000-8000-000000000000', duration_ms: 1, num_turns: 1, total_cost_usd: 0 }
  const client = { model: 'x', tools: [], mcp_servers: [{ name: 'svc', status: 'connected' }] }
  for (const event of [
    { type: 'system', subtype: 'init', ...about, ...client },
    { type: 'result', subtype: 'success', is_error: false, result, usage: {}, ...about },
  ])
    process.stdout.write(`${JSON.stringify(event)}\n`)
} else process.stdout.write(result)
