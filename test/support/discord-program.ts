// The local server of Discord as a program, for the guide: port 8097 speaks for the person, by POST /say?<text> and GET /sent.
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import { openDiscordServer } from './discord-server.ts'

const discord = await openDiscordServer({ after: () => undefined })
const server = createServer((incoming, response) => {
  const { pathname, search } = new URL(incoming.url ?? '/', 'http://person')
  if (pathname === '/sent') return void response.end(JSON.stringify(discord.sent))
  if (pathname === '/say') {
    discord.say({ text: decodeURIComponent(search.slice(1)) })
    return void response.end('said\n')
  }
  const { method, headers, url } = incoming
  const forwarded = request(new URL(url ?? '/', discord.url), { method, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers)
    answer.pipe(response)
  })
  forwarded.on('error', () => response.destroy())
  response.on('close', () => forwarded.destroy())
  incoming.pipe(forwarded)
})
server.listen(8097, '127.0.0.1')
await once(server, 'listening')
