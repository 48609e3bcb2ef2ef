// An https server on loopback that publishes client metadata documents, and the dialer that reaches it.

import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import { createServer } from 'node:https'
import type { TestContext } from 'node:test'
import type { DocumentDialer } from '../../src/daemons/authd/oauth/client-document.ts'
import { makeCertificate } from './egress-clients.ts'
import { tempDir } from './temp.ts'

export interface DocumentServer {
  /** `https://app.example:<port>` */
  readonly origin: string
  readonly dialer: DocumentDialer
  /** Paths of the requests so far. */
  readonly requests: readonly string[]
  readonly lookups: readonly string[]
}

export async function openDocumentServer(t: TestContext, listener: RequestListener): Promise<DocumentServer> {
  const { certificate, key } = makeCertificate(tempDir(t), ['app.example'])
  const [requests, lookups]: [string[], string[]] = [[], []]
  const cert = readFileSync(certificate, 'utf8')
  const server = createServer({ cert, key: readFileSync(key) }, (request, response) => {
    requests.push(request.url ?? '')
    listener(request, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('a TCP server has no port')
  const dialer: DocumentDialer = {
    resolve: async (hostname) => {
      lookups.push(hostname)
      return ['127.0.0.1']
    },
    isAllowed: (each) => each === '127.0.0.1',
    ca: cert,
    timeoutMs: 5000,
  }
  return { origin: `https://app.example:${address.port}`, dialer, requests, lookups }
}
