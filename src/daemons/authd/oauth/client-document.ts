// Fetches the metadata document of a client whose id is an https URL. The URL comes from a stranger, so the request can reach
// only public addresses, follows no redirect, and reads little. See docs/decisions.md#token-endpoint.
import { lookup as lookUpName } from 'node:dns/promises'
import type { IncomingMessage } from 'node:http'
import { Agent, request as sendRequest } from 'node:https'
import { isIP } from 'node:net'
import { z } from 'zod'
import { GRANT_TYPES, type OauthClient } from '../../../core/people/oauth-clients.ts'
import { parseRedirectUri } from '../../../core/people/redirect-uri.ts'
import { addressClassOf } from '../../../egress/address/address-class.ts'
import type { Clock } from '../../../lib/clock.ts'
import { guard } from '../../../lib/fault-boundary.ts'
import { contentType, utf8 } from '../../../lib/http/http.ts'
import { Refusal, refuse } from '../../../lib/refusal.ts'
import { parseJson } from '../../../lib/text/json.ts'
import { cleanClientName, supportedGrants } from './client-metadata.ts'

/** How documents are reached. Tests replace it; there is no setting. */
export interface DocumentDialer {
  resolve(hostname: string): Promise<readonly string[]>
  isAllowed(address: string): boolean
  /** Certificate authorities, if not those of the system. */
  readonly ca?: string
  /** For lookup, connection and document together. */
  readonly timeoutMs: number
}

export const PUBLIC_DIALER: DocumentDialer = {
  resolve: async (hostname) => (await lookUpName(hostname, { all: true })).map(({ address }) => address),
  isAllowed: isPublicAddress,
  timeoutMs: 5000,
}

/** 6to4 and NAT64 lead to an IPv4 network that this machine does not choose. */
export function isPublicAddress(address: string): boolean {
  if (addressClassOf(address) !== 'public') return false
  const host = isIP(address) === 6 ? (URL.parse(`http://[${address}]/`)?.hostname ?? '') : ''
  return !/^\[(?:2002|64:ff9b):/.test(host)
}

const DOCUMENT_MAX = 10 * 1024
const CACHED_MIN_MS = 60_000
const CACHED_DEFAULT_MS = 5 * 60_000
const CACHED_MAX_MS = 24 * 3_600_000
const DOCUMENTS_MAX = 200
/** How long documents are not offered after one could not be fetched: perhaps this machine cannot reach public servers. */
const UNREACHABLE_MS = 3_600_000

/** Whether a client id has the form of a document's URL: https, with a path, in the one form that a parser would write. */
export function isDocumentUrl(id: string): boolean {
  if (id.length > 1024 || !/^https:\/\/[!-~]+$/.test(id) || id.includes('#')) return false
  const url = URL.parse(id)
  return url?.href === id && url.pathname !== '/' && url.username === '' && url.password === ''
}

interface CachedDocument {
  readonly client: Promise<OauthClient>
  untilMs: number
}

/** Documents by URL, cached as their headers say; failures are cached for a minute. */
export class ClientDocuments {
  readonly #cached = new Map<string, CachedDocument>()
  readonly #clock: Clock
  readonly #dialer: DocumentDialer
  readonly #isOn: () => boolean
  #unreachableUntilMs = 0

  constructor(clock: Clock, dialer: DocumentDialer = PUBLIC_DIALER, isOn: () => boolean = () => true) {
    this.#clock = clock
    this.#dialer = dialer
    this.#isOn = isOn
  }

  /** Whether to tell clients that they may use documents; otherwise they register. */
  get areOffered(): boolean {
    return this.#isOn() && this.#clock.now() >= this.#unreachableUntilMs
  }

  async find(url: string): Promise<OauthClient> {
    if (!this.#isOn())
      refuse('invalid', 'programs sign in here only after they register', 'remove its saved sign-in and try again')
    const cached = this.#cached.get(url)
    if (cached && this.#clock.now() < cached.untilMs) return cached.client
    this.#cached.delete(url)
    const [oldest] = this.#cached.keys()
    if (this.#cached.size >= DOCUMENTS_MAX && oldest !== undefined) this.#cached.delete(oldest)
    const fetched = fetchDocument(url, this.#dialer)
    const entry: CachedDocument = {
      client: fetched.then(({ client }) => client),
      untilMs: this.#clock.now() + CACHED_MIN_MS,
    }
    this.#cached.set(url, entry)
    fetched.then(
      ({ maxAgeMs }) => {
        this.#unreachableUntilMs = 0
        entry.untilMs = this.#clock.now() + Math.min(Math.max(maxAgeMs, CACHED_MIN_MS), CACHED_MAX_MS)
      },
      (error) => {
        if (error instanceof UnreachableDocument) this.#unreachableUntilMs = this.#clock.now() + UNREACHABLE_MS
      },
    )
    return entry.client
  }
}

class UnreachableDocument extends Refusal {}

interface FetchedDocument {
  readonly client: OauthClient
  readonly maxAgeMs: number
}

/** The refusal does not tell why a connection failed: the answer must not map the network of this server. */
async function fetchDocument(url: string, dialer: DocumentDialer): Promise<FetchedDocument> {
  const stop = AbortSignal.timeout(dialer.timeoutMs)
  const expired = new Promise<never>((_, reject) => {
    const onAbort = guard(reject, () => reject(unreachable()))
    stop.addEventListener('abort', onAbort, { once: true })
  })
  try {
    return await Promise.race([expired, readDocument(url, dialer, stop)])
  } catch (error) {
    throw error instanceof Refusal ? error : unreachable(error)
  }
}

async function readDocument(url: string, dialer: DocumentDialer, signal: AbortSignal): Promise<FetchedDocument> {
  const response = await openDocument(new URL(url), dialer, signal)
  const { headers, statusCode } = response
  try {
    if (statusCode !== 200) throw fault(`was answered with status ${statusCode}, not 200`)
    const { type } = contentType(headers['content-type'] ?? '')
    if (type !== 'application/json' && !/^application\/[\w.-]+\+json$/.test(type)) throw fault('is not JSON')
    if ((headers['content-encoding'] ?? 'identity') !== 'identity') throw fault('is compressed')
    const chunks: Buffer[] = []
    let length = 0
    for await (const chunk of response) {
      length += chunk.length
      if (length > DOCUMENT_MAX) throw fault(`is larger than ${DOCUMENT_MAX} bytes`)
      chunks.push(chunk)
    }
    const client = parseDocument(url, utf8(Buffer.concat(chunks)))
    return { client, maxAgeMs: maxAgeOf(headers['cache-control']) }
  } finally {
    response.destroy()
  }
}

/** Resolves the name once, checks every address, and connects to the first: a second lookup could answer otherwise. */
async function openDocument(url: URL, dialer: DocumentDialer, signal: AbortSignal): Promise<IncomingMessage> {
  const hostname = url.hostname.replace(/^\[|\]$/g, '')
  const addresses = isIP(hostname) ? [hostname] : await dialer.resolve(hostname)
  const [address] = addresses
  if (address === undefined || !addresses.every((each) => dialer.isAllowed(each))) throw unreachable()
  const found = { address, family: isIP(address) }
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const request = sendRequest(url, {
    signal,
    // An agent of its own uses no proxy of the environment and shares no connection.
    agent: new Agent({ keepAlive: false, ...(dialer.ca === undefined ? {} : { ca: dialer.ca }) }),
    headers: { Accept: 'application/json', 'Accept-Encoding': 'identity', 'User-Agent': 'svc' },
    lookup: (_hostname, options, callback) => {
      if (options.all) callback(null, [found])
      else callback(null, found.address, found.family)
    },
  })
  request.on('response', resolve).on('error', reject).end()
  return promise
}

const Document = z.object({
  client_id: z.string(),
  client_name: z.string().min(1),
  redirect_uris: z.array(z.string()).min(1).max(50),
  grant_types: z.array(z.string()).optional(),
})

function parseDocument(url: string, text: string): FetchedDocument['client'] {
  const read = Document.safeParse(parseJson(text))
  if (!read.success) throw fault('lacks client_id, client_name or redirect_uris')
  const { client_id, client_name, redirect_uris, grant_types = GRANT_TYPES } = read.data
  if (client_id !== url) throw fault('has another client_id than its URL')
  const usable = redirect_uris.filter((uri) => parseRedirectUri(uri))
  if (usable.length === 0) throw fault('has no usable redirect_uris')
  const grants = supportedGrants(grant_types)
  return { client_id, client_name: cleanClientName(client_name), redirect_uris: usable, grant_types: grants }
}

function maxAgeOf(header: string | undefined): number {
  if (header === undefined) return CACHED_DEFAULT_MS
  if (/\bno-(?:store|cache)\b/i.test(header)) return 0
  const [, seconds] = /\bmax-age\s*=\s*"?(\d{1,9})/i.exec(header) ?? []
  return seconds === undefined ? CACHED_DEFAULT_MS : Number(seconds) * 1000
}

function fault(what: string): Refusal {
  return new Refusal('invalid', `the client's metadata document ${what}`)
}

function unreachable(cause?: unknown): UnreachableDocument {
  const refusal = new UnreachableDocument(
    'invalid',
    "the client's metadata document could not be fetched",
    'remove its saved sign-in and try again: it can register itself now',
  )
  if (cause !== undefined) refusal.cause = cause
  return refusal
}
