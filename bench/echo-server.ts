// Baseline of tool calls: a server of the official SDK with one echo tool, on a Unix socket with the transport of a folder.
// With the path of a file, it stores each text there durably before it answers.
import { createServer } from 'node:net'
import { DatabaseSync } from 'node:sqlite'
import { Server } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { LineTransport } from '../src/agent-socket/line-transport.ts'
import { throwUncaught } from '../src/lib/fault-boundary.ts'

const [path = '', store] = process.argv.slice(2)
const save = store === undefined ? () => {} : openStore(store)

function openStore(file: string): (text: string) => void {
  const db = new DatabaseSync(file)
  db.exec(
    'pragma journal_mode = wal; pragma synchronous = full; create table texts (id integer primary key, text text)',
  )
  const insert = db.prepare('insert into texts (text) values (?)')
  return (text) => void insert.run(text)
}

function echoServer(): Server {
  const server = new Server({ name: 'echo', version: '0' }, { capabilities: { tools: {} } })
  server.setRequestHandler('tools/list', () => ({ tools: [{ name: 'echo', inputSchema: { type: 'object' } }] }))
  server.setRequestHandler('tools/call', ({ params }) => {
    const text = String(params.arguments?.text)
    save(text)
    return { content: [{ type: 'text', text }] }
  })
  return server
}

const listener = createServer({ allowHalfOpen: true }, (socket) => {
  serveStdio(echoServer, { transport: new LineTransport(socket, { onFault: throwUncaught }) })
})
listener.listen(path, () => process.stdout.write(`echo ${path}\nready\n`))
process.once('SIGTERM', () => process.exit(0))
