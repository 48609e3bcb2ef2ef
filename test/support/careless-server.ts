// Faulty servers that the durability tests must detect. They accept posts on any path and print their address.
// `node careless-server.ts <file>` responds before its commit; without a file it keeps all bodies and never responds.
import { createServer } from 'node:http'
import { DatabaseSync } from 'node:sqlite'

const BATCH_MS = 20

const [, , file] = process.argv
const waiting: Buffer[] = []

const server = createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => {
    waiting.push(Buffer.concat(chunks))
    if (file) response.writeHead(204).end()
  })
})

function commitNowAndThen(path: string): void {
  const db = new DatabaseSync(path)
  db.exec('pragma journal_mode = wal; create table messages (content blob not null)')
  const insert = db.prepare('insert into messages (content) values (?)')
  setInterval(() => {
    db.exec('begin')
    for (const content of waiting.splice(0)) insert.run(content)
    db.exec('commit')
  }, BATCH_MS)
}

if (file) commitNowAndThen(file)
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  if (typeof address === 'object') process.stdout.write(`http://127.0.0.1:${address?.port}\n`)
})
