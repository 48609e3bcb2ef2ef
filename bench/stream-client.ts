// Opens many event streams of one URL: `<url> <count> [<cookie>]`. Prints `open` when all have their response headers. For each
// line on stdin it waits until that text has arrived on every stream, and prints the time.
import { once } from 'node:events'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'

const [url = '', count = '0', cookie = ''] = process.argv.slice(2)
const { hostname, port, pathname, search } = new URL(url)
const STREAMS = Number(count)
/** Connections opened at once; more would overflow the server's backlog. */
const AT_ONCE = 100

interface Stream {
  /** The last characters received, to find a text that is split between two chunks. */
  tail: string
  seen: boolean
}

let awaited = ''
let missing = 0
const streams: Stream[] = []

async function open(): Promise<void> {
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  const session = cookie === '' ? '' : `Cookie: ${cookie}\r\n`
  socket.write(
    `GET ${pathname}${search} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAccept: text/event-stream\r\n${session}\r\n`,
  )
  const [head] = await once(socket, 'data')
  if (!String(head).startsWith('HTTP/1.1 200 ')) throw new Error(`no stream: ${String(head).slice(0, 400)}`)
  const stream: Stream = { tail: '', seen: true }
  streams.push(stream)
  socket.on('data', (chunk) => {
    const text = stream.tail + chunk.toString('latin1')
    if (!stream.seen && text.includes(awaited)) {
      stream.seen = true
      if (--missing === 0) process.stdout.write(`all ${performance.timeOrigin + performance.now()}\n`)
    }
    stream.tail = text.slice(-64)
  })
  socket.on('close', () => {
    process.stderr.write('a stream was closed\n')
    process.exit(1)
  })
}

let opened = 0
await Promise.all(
  Array.from({ length: AT_ONCE }, async () => {
    while (opened++ < STREAMS) await open()
  }),
)
process.stdout.write('open\n')
for await (const line of createInterface({ input: process.stdin })) {
  awaited = line
  missing = STREAMS
  for (const stream of streams) stream.seen = false
  process.stdout.write('waiting\n')
}
process.exit()
