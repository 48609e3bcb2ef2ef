// The outside world of a run, as one process on the machine of the engine: a DNS server, a web server on all addresses, and a
// packet sink. Prints a JSON line for everything that reaches it. Exits when its stdin ends.
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { argv, stdin, stdout } from 'node:process'

const [, , answer = '192.0.2.80'] = argv
export const WEB_PORT = 80
export const SINK_PORT = 4433

export type Reached =
  | { readonly kind: 'ready' }
  | { readonly kind: 'name'; readonly name: string }
  | { readonly kind: 'web'; readonly host: string; readonly path: string; readonly via: string }
  | { readonly kind: 'connection' | 'packet'; readonly from: string }

function tell(reached: Reached): void {
  stdout.write(`${JSON.stringify(reached)}\n`)
}

/** All names have the same address and no other records. */
function answerTo(query: Buffer): Buffer {
  let at = 12
  const labels: string[] = []
  for (let size = query[at] ?? 0; size > 0; size = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + size))
    at += size + 1
  }
  const isA = query.readUInt16BE(at + 1) === 1
  tell({ kind: 'name', name: labels.join('.') })
  const question = query.subarray(12, at + 5)
  const head = Buffer.from([...query.subarray(0, 2), 0x81, 0x80, 0, 1, 0, isA ? 1 : 0, 0, 0, 0, 0])
  const record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, ...answer.split('.').map(Number)]
  return Buffer.concat([head, question, Buffer.from(isA ? record : [])])
}

async function open(): Promise<void> {
  const names = createSocket('udp4')
  names.on('message', (query, { port, address }) => names.send(answerTo(query), port, address))
  names.bind(53, '127.0.0.1')
  const sink = createSocket('udp6')
  sink.on('message', (_, { address }) => tell({ kind: 'packet', from: address }))
  sink.bind(SINK_PORT)
  const web = createServer((request, response) => {
    const { host = '', via = '' } = request.headers
    tell({ kind: 'web', host, path: request.url ?? '', via })
    response.end('from the world\n')
  })
  web.on('connection', ({ remoteAddress = '' }) => tell({ kind: 'connection', from: remoteAddress }))
  web.listen(WEB_PORT)
  await Promise.all([once(names, 'listening'), once(sink, 'listening'), once(web, 'listening')])
  tell({ kind: 'ready' })
}

if (import.meta.main) {
  await open()
  stdin.on('end', () => process.exit()).resume()
}
