// Baseline of the benchmark of uploads: a plain node:http server that writes the body of each POST to a file, syncs it and
// answers 204. The argument is the path of the file.
import { createWriteStream } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pipeline } from 'node:stream/promises'

const [, , path = ''] = process.argv
const server = createServer(async (request, response) => {
  await pipeline(request, createWriteStream(path, { flush: true }))
  response.writeHead(204).end()
})
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`bare http://127.0.0.1:${(server.address() as AddressInfo).port}\nready\n`)
})
process.on('SIGTERM', () => process.exit())
