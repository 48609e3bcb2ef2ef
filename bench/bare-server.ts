// Baseline of the HTTP benchmarks: a plain node:http server. It answers a POST with 204, and a GET below /app/ with a small
// page; any other GET opens an event stream that gets every body posted to /events. With the path of a file, each POST is first written there in two commits.
import { createServer, type ServerResponse } from 'node:http'
import { openTwoCommits } from './two-commits.ts'

const PAGE = '<!doctype html><title>A page</title>'.padEnd(1024)
const streams = new Set<ServerResponse>()
const [, , store] = process.argv
const commits = store === undefined ? undefined : openTwoCommits(store)

const server = createServer((request, response) => {
  if (request.method === 'GET' && request.url?.startsWith('/app/')) {
    response.writeHead(200, { 'Content-Type': 'text/html' }).end(PAGE)
    return
  }
  if (request.method === 'GET') {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' }).flushHeaders()
    streams.add(response)
    response.on('close', () => streams.delete(response))
    return
  }
  const chunks: Buffer[] = []
  request.on('data', (chunk) => chunks.push(chunk))
  request.on('end', () => {
    if (request.url === '/events') {
      const frame = `event: message\ndata: ${Buffer.concat(chunks)}\n\n`
      for (const stream of streams) stream.write(frame)
    }
    commits?.write(Buffer.concat(chunks))
    response.writeHead(204).end()
  })
})
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('a TCP server has no port')
  process.stdout.write(`bare http://127.0.0.1:${address.port}\nready\n`)
})
process.on('SIGTERM', () => process.exit())
