// `widget.js` as it goes over the wire: packed once for each coding, with a tag that changes when the script does. A site loads
// it with each of its pages, so a browser keeps it and asks whether it is still the same. It asks each time, so that a link
// that was revoked shows nothing any more; and no cache that others share may keep it, because its address holds the token.
import { hash } from 'node:crypto'
import { promisify } from 'node:util'
import { brotliCompress, gzip } from 'node:zlib'
import { matchesEtag, negotiateEncoding } from '../../lib/http/content-negotiation.ts'
import { buildWidgetScript } from './page.ts'

export interface ScriptRequest {
  readonly acceptEncoding: string | undefined
  readonly ifNoneMatch: string | undefined
}

export interface ScriptResponse {
  readonly status: 200 | 304
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array | undefined
}

const CODINGS = ['br', 'gzip'] as const

/** Answers requests for the script. `name` is what the agent is called. */
export function createWidgetScriptHandler(name: string): (request: ScriptRequest) => Promise<ScriptResponse> {
  let packed: ReturnType<typeof pack> | undefined
  return async ({ acceptEncoding, ifNoneMatch }) => {
    packed ??= pack(name)
    const { version, headers, bodies } = await packed
    const coding = negotiateEncoding(acceptEncoding, CODINGS)
    const tag = `"${version}${coding === undefined ? '' : `-${coding}`}"`
    const about = { ETag: tag, Vary: 'Accept-Encoding', 'Cache-Control': 'private, no-cache' }
    if (matchesEtag(ifNoneMatch, tag)) return { status: 304, headers: { ...headers, ...about }, body: undefined }
    const coded: Record<string, string> = coding === undefined ? {} : { 'Content-Encoding': coding }
    return { status: 200, headers: { ...headers, ...about, ...coded }, body: bodies[coding ?? 'identity'] }
  }
}

async function pack(name: string) {
  const { headers, body } = buildWidgetScript(name)
  const identity = Buffer.from(body)
  const [br, zipped] = await Promise.all([promisify(brotliCompress)(identity), promisify(gzip)(identity)])
  const version = hash('sha256', identity, 'hex').slice(0, 32)
  return { version, headers, bodies: { identity, br, gzip: zipped } }
}
