// A mailbox with its mail servers as a program of root, for the guide: port 8098 names the IMAP and the SMTP server at GET /servers, and
// speaks for the person, by POST /say?<text> and GET /sent.
import { once } from 'node:events'
import { createServer } from 'node:http'
import { openEmailAccount } from './email-server.ts'
import { openMailServer } from './mail-server.ts'

const cleanups: (() => void)[] = []
const scope = { after: (cleanup: () => void) => void cleanups.push(cleanup) }
const end = (): void => {
  for (const cleanup of cleanups.reverse()) cleanup()
  process.exit(0)
}
process.on('SIGTERM', end)
const mailbox = await openEmailAccount(scope, await openMailServer(scope), {}, 'example.com')
const { imap, smtp } = mailbox.account.settings
const server = createServer(async (request, response) => {
  const { pathname, search } = new URL(request.url ?? '/', 'http://person')
  if (pathname === '/servers') return void response.end(`${imap} ${smtp}`)
  if (pathname === '/sent')
    return void response.end(JSON.stringify(mailbox.sent.map(({ to, parsed }) => [to, parsed.subject])))
  await mailbox.mail({ Subject: 'Hello' }, decodeURIComponent(search.slice(1)).replaceAll('+', ' '))
  response.end('said\n')
})
server.listen(8098, '127.0.0.1')
await once(server, 'listening')
