// The local server of the Bot API as a program, for the guide and for containers: port 8095 speaks for the person, by
// POST /say?<text> and GET /sent. The argument is the address to listen on.
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import { openTelegramServer } from './telegram-server.ts'

const telegram = await openTelegramServer({ after: () => undefined })
const server = createServer((incoming, response) => {
  const { pathname, search } = new URL(incoming.url ?? '/', 'http://person')
  if (pathname === '/sent') return void response.end(JSON.stringify(telegram.sent))
  if (pathname === '/say') {
    telegram.say({ text: decodeURIComponent(search.slice(1)) })
    return void response.end('said\n')
  }
  const { method, headers, url } = incoming
  const forwarded = request(new URL(url ?? '/', telegram.url), { method, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers)
    answer.pipe(response)
  })
  forwarded.on('error', () => response.destroy())
  response.on('close', () => forwarded.destroy())
  incoming.pipe(forwarded)
})
const [, , address = '127.0.0.1'] = process.argv
server.listen(8095, address)
await once(server, 'listening')
