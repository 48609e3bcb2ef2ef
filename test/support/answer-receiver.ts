// An https server on loopback that gets answers of webhooks, and the names that lead to it.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { LookupFunction } from 'node:net'
import type { TestContext } from 'node:test'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { makeCertificate } from './egress-clients.ts'
import { tempDir } from './temp.ts'

export interface PostedAnswer {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

export interface AnswerReceiver {
  readonly port: number
  /** A URL at a name that leads to it. */
  readonly url: string
  /** A file with its certificate, for other processes. */
  readonly certificate: string
  readonly posted: readonly PostedAnswer[]
  /** Resolves every name to loopback, or to these addresses. */
  readonly lookup: LookupFunction
  resolveTo(...addresses: string[]): void
  /** How it responds from now on: a status, or anything else. The first are for the next requests only. */
  respond(...how: (number | ((response: ServerResponse) => void))[]): void
}

const NAMES = ['receiver.example', 'other.example', 'localhost']

/** This process trusts its certificate. */
export async function openAnswerReceiver(t: TestContext): Promise<AnswerReceiver> {
  const { certificate, key } = makeCertificate(tempDir(t), NAMES)
  const cert = readFileSync(certificate, 'utf8')
  setDefaultCACertificates([...getCACertificates('default'), cert])
  const posted: PostedAnswer[] = []
  let addresses = ['127.0.0.1']
  let how: (number | ((response: ServerResponse) => void))[] = [204]
  const server = createServer({ cert, key: readFileSync(key) }, async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    posted.push({ path: request.url ?? '', headers: request.headers, body: Buffer.concat(chunks).toString() })
    const next = (how.length > 1 ? how.shift() : how[0]) ?? 204
    if (typeof next === 'number') response.writeHead(next).end()
    else next(response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('a TCP server has no port')
  const { port } = address
  return {
    port,
    url: `https://receiver.example:${port}/answers?for=svc`,
    certificate,
    posted,
    lookup: (_hostname, options, callback) => {
      const found = addresses.map((each) => ({ address: each, family: each.includes(':') ? 6 : 4 }))
      if (options.all) callback(null, found)
      else callback(null, found[0]?.address ?? '', found[0]?.family)
    },
    resolveTo: (...next) => {
      addresses = next
    },
    respond: (...next) => {
      how = next
    },
  }
}
