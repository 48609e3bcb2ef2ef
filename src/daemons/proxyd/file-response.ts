// Sends an open file: content type, caching, conditional and range requests. The CSP sandbox keeps scripts of published pages
// out of the origin that chat links share: otherwise they could read and send messages as their visitor.
import { extname } from 'node:path'
import { Readable } from 'node:stream'
import { type ByteRange, readRange } from '../../lib/http/byte-range.ts'
import { matchesEtag } from '../../lib/http/content-negotiation.ts'
import type { OpenFile } from './published-files.ts'

const TYPES: Readonly<Record<string, string>> = {
  '.avif': 'image/avif',
  '.css': 'text/css; charset=utf-8',
  '.csv': 'text/csv; charset=utf-8',
  '.gif': 'image/gif',
  '.htm': 'text/html; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.ico': 'image/x-icon',
  '.jpeg': 'image/jpeg',
  '.jpg': 'image/jpeg',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.map': 'application/json',
  '.md': 'text/markdown; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.mp3': 'audio/mpeg',
  '.mp4': 'video/mp4',
  '.ogg': 'audio/ogg',
  '.pdf': 'application/pdf',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.wasm': 'application/wasm',
  '.wav': 'audio/wav',
  '.webm': 'video/webm',
  '.webmanifest': 'application/manifest+json',
  '.webp': 'image/webp',
  '.woff': 'font/woff',
  '.woff2': 'font/woff2',
  '.xml': 'application/xml',
  '.zip': 'application/zip',
}

/** Smaller bodies are read at once instead of streamed. */
const STREAM_FROM_BYTES = 65_536

export interface FileResponseOptions {
  readonly method: string
  readonly isPublic: boolean
  header(name: string): string | undefined
}

/** Closes the file, at once or after the body is sent. */
export async function fileResponse(file: OpenFile, options: FileResponseOptions): Promise<Response> {
  const headers = headersOf(file, options.isPublic)
  if (isUnmodified(headers, options)) return closeAndReturn(file, new Response(null, { status: 304, headers }))
  const range = rangeOf(file.size, headers, options)
  if (range === 'beyond') {
    headers.set('Content-Range', `bytes */${file.size}`)
    return closeAndReturn(file, new Response(null, { status: 416, headers }))
  }
  const { start, end } = range ?? { start: 0, end: file.size - 1 }
  if (range) headers.set('Content-Range', `bytes ${start}-${end}/${file.size}`)
  headers.set('Content-Length', String(end - start + 1))
  const status = range ? 206 : 200
  if (options.method === 'HEAD') return closeAndReturn(file, new Response(null, { status, headers }))
  return new Response(await bodyOf(file, start, end), { status, headers })
}

function headersOf({ name, size, modifiedMs }: OpenFile, isPublic: boolean): Headers {
  const type = TYPES[extname(name).toLowerCase()] ?? 'application/octet-stream'
  return new Headers({
    'Content-Type': type,
    ETag: `"${size.toString(16)}-${Math.round(modifiedMs * 1000).toString(16)}"`,
    'Last-Modified': new Date(modifiedMs).toUTCString(),
    'Accept-Ranges': 'bytes',
    // Revalidated each time, because access may be revoked at any moment.
    'Cache-Control': isPublic ? 'public, no-cache' : 'private, no-cache',
    // PDF viewers do not work in a sandbox, and a PDF runs no script of this origin.
    'Content-Security-Policy':
      type === 'application/pdf' ? "default-src 'none'" : 'sandbox allow-scripts allow-forms allow-popups',
    // Sandboxed pages have an opaque origin and must still load their own files.
    ...(isPublic ? { 'Access-Control-Allow-Origin': '*', 'Cross-Origin-Resource-Policy': 'cross-origin' } : {}),
  })
}

function isUnmodified(headers: Headers, options: FileResponseOptions): boolean {
  const tags = options.header('If-None-Match')
  if (tags !== undefined) return matchesEtag(tags, headers.get('ETag') ?? '')
  const since = Date.parse(options.header('If-Modified-Since') ?? '')
  return since >= Date.parse(headers.get('Last-Modified') ?? '')
}

function rangeOf(size: number, headers: Headers, options: FileResponseOptions): ByteRange | 'beyond' | undefined {
  return readRange({
    method: options.method,
    size,
    range: options.header('Range'),
    ifRange: options.header('If-Range'),
    validators: [headers.get('ETag'), headers.get('Last-Modified')],
  })
}

type Body = ConstructorParameters<typeof Response>[0]

async function bodyOf({ handle, size }: OpenFile, start: number, end: number): Promise<Body> {
  if (end - start >= STREAM_FROM_BYTES) return toWebStream(handle.createReadStream({ start, end }))
  try {
    const buffer = Buffer.alloc(Math.max(end - start + 1, 0))
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, start)
    // The Content-Length cannot be kept, so fail visibly.
    if (bytesRead < buffer.length) throw new Error(`a published file shrank below ${size} bytes while it was read`)
    return buffer
  } finally {
    await handle.close()
  }
}

function toWebStream(stream: Readable): Body {
  // Node's type of a web stream and the global one differ only in their declarations.
  return Readable.toWeb(stream) as unknown as Body
}

async function closeAndReturn({ handle }: OpenFile, response: Response): Promise<Response> {
  await handle.close()
  return response
}
