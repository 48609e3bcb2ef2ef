// Baseline of deltas: a plain node:http server. A POST makes it read the stream of the endpoint whose URL is in the body; a GET
// opens an event stream that gets each piece at once.
import { createServer, type ServerResponse } from 'node:http'

const streams = new Set<ServerResponse>()

async function relay(url: string): Promise<void> {
  const { body } = await fetch(url, { method: 'POST', body: '{}' })
  let rest = ''
  for await (const chunk of body ?? []) {
    rest += Buffer.from(chunk).toString()
    const events = rest.split('\n\n')
    rest = events.pop() ?? ''
    for (const event of events) {
      if (event === 'data: [DONE]') continue
      const text = JSON.parse(event.slice('data: '.length)).choices[0]?.delta.content ?? ''
      const frame = `event: delta\ndata: ${JSON.stringify({ text })}\n\n`
      for (const stream of streams) stream.write(frame)
    }
  }
}

const server = createServer(async (request, response) => {
  if (request.method === 'GET') {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' }).flushHeaders()
    streams.add(response)
    response.on('close', () => streams.delete(response))
    return
  }
  let url = ''
  for await (const chunk of request) url += chunk
  await relay(url)
  response.writeHead(204).end()
})
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('a TCP server has no port')
  process.stdout.write(`bare http://127.0.0.1:${address.port}\nready\n`)
})
process.on('SIGTERM', () => process.exit())
