// The HTTP server that svc sends to. It listens on loopback and accepts only svc, by the token of the registration.
import { randomUUID, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createWriteStream, type WriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { MultipartReader } from '../../lib/http/multipart.ts'
import { Refusal } from '../../lib/refusal.ts'
import { isObject, parseJson } from '../../lib/text/json.ts'
import { answerRequest, type ReportedHealth, type RequestBody } from './adapter-requests.ts'
import type { AdapterStore } from './adapter-store.ts'
import { type Connector, PlatformError } from './port.ts'
import { Sender } from './sender.ts'

/** A text of svc has at most 256 KiB. */
const BODY_MAX = 4 * 1024 * 1024
const FIELDS_MAX = 16

export interface AdapterServerOptions {
  readonly connector: Connector
  readonly state: AdapterStore
  /** Without a slash at its end: `telegram`. */
  readonly account: string
  readonly directory: string
  health(): ReportedHealth
  token(): string | undefined
  onFault(error: unknown): void
}

export interface AdapterServer {
  readonly url: string
  close(): Promise<void>
}

export async function openAdapterServer(options: AdapterServerOptions): Promise<AdapterServer> {
  const sender = new Sender(options)
  const server = createServer((request, response) => {
    respond(options, sender, request, response).catch((error) => {
      options.onFault(error)
      response.destroy()
    })
  })
  server.requestTimeout = 0
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : undefined
  return {
    url: `http://127.0.0.1:${port}`,
    close: async () => {
      server.close()
      server.closeAllConnections()
    },
  }
}

async function respond(
  options: AdapterServerOptions,
  sender: Sender,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const send = (status: number, body: object, headers: Record<string, string> = {}): void => {
    response.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify(body))
  }
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://adapter')
  if (pathname === '/health') return send(200, options.health())
  if (!isAuthorized(request, options.token())) return send(401, { ok: false, error: 'the token is not valid' })
  let body: RequestBody | undefined
  try {
    body = await readBody(request, options)
    const result = await answerRequest({ ...options, sender }, { path: pathname, query: searchParams, body })
    send(200, { ok: true, ...result })
  } catch (error) {
    const { status, retryAfterS, ...problem } = problemOf(error, options)
    send(status, problem, retryAfterS === undefined ? {} : { 'Retry-After': String(Math.ceil(retryAfterS)) })
  } finally {
    if (body?.path !== undefined) await rm(body.path, { force: true })
  }
}

const STATUSES = { refused: 400, rate_limited: 429, unavailable: 503, unclear: 504, unsupported: 501 } as const

function problemOf(error: unknown, { onFault }: Pick<AdapterServerOptions, 'onFault'>) {
  if (error instanceof PlatformError) {
    const { kind, message, hint, retryAfterS } = error
    return { status: STATUSES[kind], ok: false, error: message, hint, retryAfterS }
  }
  if (error instanceof Refusal) return { status: 400, ok: false, error: error.message }
  onFault(error)
  // Whether the platform has it is not known.
  return { status: 504, ok: false, error: 'internal error of the adapter' }
}

function isAuthorized({ headers }: IncomingMessage, token: string | undefined): boolean {
  const given = Buffer.from(headers.authorization ?? '')
  const expected = Buffer.from(`Bearer ${token}`)
  return token !== undefined && given.length === expected.length && timingSafeEqual(given, expected)
}

async function readBody(request: IncomingMessage, options: AdapterServerOptions): Promise<RequestBody> {
  const type = request.headers['content-type'] ?? ''
  if (/^multipart\//i.test(type)) return readForm(request, type, options)
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request) {
    size += chunk.length
    if (size > BODY_MAX) throw new PlatformError('refused', `the request is longer than ${BODY_MAX} bytes`)
    chunks.push(chunk)
  }
  if (size === 0) return { members: {} }
  const members = parseJson(Buffer.concat(chunks).toString())
  return isObject(members) ? { members } : { members: {} }
}

/** The file goes to the disk, as it may be large. */
async function readForm(
  request: IncomingMessage,
  type: string,
  { directory, connector }: AdapterServerOptions,
): Promise<RequestBody> {
  const members: Record<string, string> = {}
  const path = join(directory, `${randomUUID()}.tmp`)
  const max = connector.limits.fileBytes ?? Number.POSITIVE_INFINITY
  const reader = new MultipartReader(type, FIELDS_MAX)
  let file: WriteStream | undefined
  let [name, mime, fieldBytes, fileBytes] = ['', '', 0, 0]
  try {
    for await (const chunk of request)
      for (const event of reader.read(chunk)) {
        if (event.kind === 'part') {
          name = event.head.name
          if (event.head.filename === undefined) members[name] = ''
          else {
            file = createWriteStream(path, { mode: 0o600 })
            await once(file, 'open')
            mime = event.head.headers.get('content-type') ?? ''
            name = ''
          }
        } else if (event.kind === 'data' && name === '') {
          fileBytes += event.bytes.length
          if (fileBytes > max)
            throw new PlatformError('refused', `the file is larger than ${max} bytes, which the platform takes`)
          if (file && !file.write(event.bytes)) await once(file, 'drain')
        } else if (event.kind === 'data') {
          fieldBytes += event.bytes.length
          if (fieldBytes > BODY_MAX) throw new PlatformError('refused', `the fields are longer than ${BODY_MAX} bytes`)
          members[name] += event.bytes.toString('latin1')
        }
      }
    reader.end()
    if (file) {
      file.end()
      await once(file, 'close')
    }
  } catch (error) {
    file?.destroy()
    await rm(path, { force: true })
    throw error
  }
  for (const [field, text] of Object.entries(members)) members[field] = Buffer.from(text, 'latin1').toString()
  return { members, ...(file ? { path, mime } : {}) }
}
