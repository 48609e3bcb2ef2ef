// The HTTP server that svc sends to. It accepts only svc, by the token of the registration: other containers may reach it.
import { randomUUID, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { readdirSync, rmSync } from 'node:fs'
import { type FileHandle, open, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { isIPv6 } from 'node:net'
import { join } from 'node:path'
import { MultipartReader } from '../../lib/http/multipart.ts'
import { Refusal } from '../../lib/refusal.ts'
import { isObject, parseJson } from '../../lib/text/json.ts'
import { type ActionContext, answerRequest, type ReportedHealth, type RequestBody } from './adapter-requests.ts'
import type { AdapterStore } from './adapter-store.ts'
import { Drafts } from './drafts.ts'
import { type Connector, PlatformError } from './port.ts'
import { Sender } from './sender.ts'
import { WebhookReceiver } from './webhook-requests.ts'

/** A text of svc has at most 256 KiB. */
const BODY_MAX = 4 * 1024 * 1024
const FIELDS_MAX = 16
const TEMP_FILE = /^[0-9a-f-]{36}\.tmp$/
/** No platform asks for a longer pause than a day. */
const RETRY_AFTER_MAX_S = 86_400
const LOOPBACK = /^(?:127\.\d+\.\d+\.\d+|::1|localhost)$/

export interface AdapterServerOptions {
  readonly connector: Connector
  readonly state: AdapterStore
  /** Without a slash at its end: `telegram`. */
  readonly account: string
  readonly directory: string
  /** Under which the daemons reach it. Unless it is on loopback, the server listens on all addresses. */
  readonly host?: string | undefined
  health(): ReportedHealth
  token(): string | undefined
  onFault(error: unknown): void
}

export interface AdapterServer {
  readonly url: string
  close(): Promise<void>
}

export async function openAdapterServer(options: AdapterServerOptions): Promise<AdapterServer> {
  removeTempFiles(options.directory)
  const drafts = new Drafts(options)
  const sender = new Sender({ ...options, drafts })
  const context = { ...options, sender, drafts, webhooks: new WebhookReceiver(options.connector) }
  const running = new Set<Promise<void>>()
  const server = createServer((request, response) => {
    const done = respond(context, request, response)
      .catch((error) => {
        options.onFault(error)
        response.destroy()
      })
      .finally(() => running.delete(done))
    running.add(done)
  })
  server.requestTimeout = 0
  const { host = '127.0.0.1' } = options
  server.listen(0, LOOPBACK.test(host) ? host : undefined)
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : undefined
  return {
    url: `http://${isIPv6(host) ? `[${host}]` : host}:${port}`,
    close: async () => {
      server.close()
      await Promise.all([...running, drafts.close()])
      server.closeAllConnections()
    },
  }
}

/** Uploads of a process that was killed. */
function removeTempFiles(directory: string): void {
  for (const name of readdirSync(directory)) if (TEMP_FILE.test(name)) rmSync(join(directory, name), { force: true })
}

async function respond(
  options: AdapterServerOptions & ActionContext,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const send = (status: number, body: object, headers: Record<string, string> = {}): void => {
    response.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify(body))
  }
  const [path = '', query = ''] = (request.url ?? '').split('?', 2)
  if (!isAuthorized(request, options.token())) return send(401, { ok: false, error: 'the token is not valid' })
  if (path === '/health') return send(200, options.health())
  const method = path === '/v1/history' ? 'GET' : 'POST'
  if (request.method !== method)
    return send(405, { ok: false, error: `the method must be ${method}` }, { Allow: method })
  let body: RequestBody | undefined
  try {
    body = await readBody(request, options)
    const result = await answerRequest(options, { path, query: new URLSearchParams(query), body })
    send(200, { ok: true, ...result })
  } catch (error) {
    // svc has closed the connection before the body was complete.
    if (request.destroyed && !request.complete) return
    // svc reads the answer when it has sent the rest.
    request.resume()
    const { status, retryAfterS, ...problem } = problemOf(error, options)
    send(status, problem, retryAfterHeader(retryAfterS))
  } finally {
    if (body?.path !== undefined) await rm(body.path, { force: true })
  }
}

function retryAfterHeader(seconds: number | undefined): Record<string, string> {
  if (seconds === undefined || !(seconds >= 0)) return {}
  return { 'Retry-After': String(Math.min(RETRY_AFTER_MAX_S, Math.ceil(seconds))) }
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
  for await (const chunk of chunksOf(request)) {
    size += chunk.length
    if (size > BODY_MAX) throw new PlatformError('refused', `the request is longer than ${BODY_MAX} bytes`)
    chunks.push(chunk)
  }
  if (size === 0) return { members: {} }
  const members = parseJson(Buffer.concat(chunks).toString())
  return isObject(members) ? { members } : { members: {} }
}

/** Leaves the connection open when the reader stops, for the answer. */
function chunksOf(request: IncomingMessage): AsyncIterable<Buffer> {
  return request.iterator({ destroyOnReturn: false })
}

/** The file goes to the disk, as it may be large. */
async function readForm(
  request: IncomingMessage,
  type: string,
  { directory, connector }: AdapterServerOptions,
): Promise<RequestBody> {
  const fields = new Map<string, Buffer[]>()
  const path = join(directory, `${randomUUID()}.tmp`)
  const max = connector.limits.fileBytes ?? Number.POSITIVE_INFINITY
  const reader = new MultipartReader(type, FIELDS_MAX)
  let file: FileHandle | undefined
  /** Of the part that is being read; undefined for the file. */
  let field: Buffer[] | undefined
  let [mime, fieldBytes, fileBytes] = ['', 0, 0]
  try {
    for await (const chunk of chunksOf(request))
      for (const event of reader.read(chunk)) {
        if (event.kind === 'part') {
          const { name, filename, headers } = event.head
          field = filename === undefined ? [] : undefined
          if (field) fields.set(name, field)
          else {
            if (file) throw new PlatformError('refused', 'the form has more than one file')
            file = await open(path, 'wx', 0o600)
            mime = headers.get('content-type') ?? ''
          }
        } else if (event.kind === 'data' && field) {
          fieldBytes += event.bytes.length
          if (fieldBytes > BODY_MAX) throw new PlatformError('refused', `the fields are longer than ${BODY_MAX} bytes`)
          field.push(event.bytes)
        } else if (event.kind === 'data') {
          fileBytes += event.bytes.length
          if (fileBytes > max)
            throw new PlatformError('refused', `the file is larger than ${max} bytes, which the platform takes`)
          await file?.appendFile(event.bytes)
        }
      }
    reader.end()
    await file?.close()
  } catch (error) {
    await file?.close().catch(() => undefined)
    await rm(path, { force: true })
    throw error
  }
  const members = Object.fromEntries([...fields].map(([name, bytes]) => [name, Buffer.concat(bytes).toString()]))
  return { members, ...(file ? { path, mime } : {}) }
}
