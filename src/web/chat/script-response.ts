// Responses with a script, compressed once per encoding, with an ETag. Browsers cache it but revalidate each time: the link of a
// widget may be revoked. Shared caches must not store it, because the URL of a widget contains the token.
import { hash } from 'node:crypto'
import { promisify } from 'node:util'
import { brotliCompress, gzip } from 'node:zlib'
import { matchesEtag, negotiateEncoding } from '../../lib/http/content-negotiation.ts'

interface ScriptRequest {
  readonly acceptEncoding: string | undefined
  readonly ifNoneMatch: string | undefined
}

interface ScriptResponse {
  readonly status: 200 | 304
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array | undefined
}

const ENCODINGS = ['br', 'gzip'] as const

export interface StaticFile {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
}

type ScriptBuild = () => StaticFile

export type ScriptHandler = (request: ScriptRequest) => Promise<ScriptResponse>

/** Builds the script on the first request. */
export function createScriptHandler(build: ScriptBuild): ScriptHandler {
  let compressed: ReturnType<typeof compress> | undefined
  return async ({ acceptEncoding, ifNoneMatch }) => {
    compressed ??= compress(build)
    // Such as of files that an upgrade is replacing.
    compressed.catch(() => {
      compressed = undefined
    })
    const { version, headers: scriptHeaders, bodies } = await compressed
    const encoding = negotiateEncoding(acceptEncoding, ENCODINGS)
    const etag = `"${version}${encoding === undefined ? '' : `-${encoding}`}"`
    const headers = { ...scriptHeaders, ETag: etag, Vary: 'Accept-Encoding', 'Cache-Control': 'private, no-cache' }
    if (matchesEtag(ifNoneMatch, etag)) return { status: 304, headers, body: undefined }
    if (encoding === undefined) return { status: 200, headers, body: bodies.identity }
    return { status: 200, headers: { ...headers, 'Content-Encoding': encoding }, body: bodies[encoding] }
  }
}

async function compress(build: ScriptBuild) {
  const { headers, body } = build()
  const identity = Buffer.from(body)
  const [br, zipped] = await Promise.all([promisify(brotliCompress)(identity), promisify(gzip)(identity)])
  const version = hash('sha256', identity, 'hex').slice(0, 32)
  return { version, headers, bodies: { identity, br, gzip: zipped } }
}
