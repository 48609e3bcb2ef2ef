// Opens many event streams of one URL: `<url> <count>`. Prints `open` when all have their response headers. Texts in the streams
// contain the time at which they were written, as `@<milliseconds>@`. For each line on stdin it prints how long they took since
// the line before, as JSON.
import { once } from 'node:events'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import { median, quantile } from './result.ts'

const [url = '', count = '0'] = process.argv.slice(2)
const { hostname, port, pathname, search } = new URL(url)
/** Connections opened at once; more would overflow the server's backlog. */
const AT_ONCE = 100

let times: number[] = []

async function open(): Promise<void> {
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  socket.write(`GET ${pathname}${search} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAccept: text/event-stream\r\n\r\n`)
  const [head] = await once(socket, 'data')
  if (!String(head).startsWith('HTTP/1.1 200 ')) throw new Error(`no stream: ${String(head).slice(0, 400)}`)
  let rest = ''
  socket.on('data', (chunk) => {
    rest += chunk.toString('latin1')
    const now = performance.timeOrigin + performance.now()
    let end = 0
    // Between the events are the lines of the chunked encoding. A delta may have several pieces, of which the newest counts.
    for (const event of rest.split('\n\n').slice(0, -1)) {
      end += event.length + 2
      const stamp = /@([\d.]+)@[^@]*$/.exec(event)?.[1]
      if (stamp !== undefined && event.includes('event: delta')) times.push(now - Number(stamp))
    }
    rest = rest.slice(end)
  })
  socket.on('close', () => {
    process.stderr.write('a stream was closed\n')
    process.exit(1)
  })
}

let opened = 0
await Promise.all(
  Array.from({ length: AT_ONCE }, async () => {
    while (opened++ < Number(count)) await open()
  }),
)
process.stdout.write('open\n')
for await (const _ of createInterface({ input: process.stdin })) {
  const figures = { deltas: times.length, medianMs: median(times), p99Ms: quantile(times, 0.99) }
  times = []
  process.stdout.write(`${JSON.stringify(figures)}\n`)
}
process.exit()
