// An open file as an answer: its type, what a browser may keep of it, and as much of it as was asked for. A page that runs
// scripts does so without the origin that links live at: one that could read them could speak for whoever opened it.
import { extname } from 'node:path'
import { Readable } from 'node:stream'
import { knowsTag } from '../../lib/representation.ts'
import type { OpenFile } from './files.ts'

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

/** Up to here a file is read in one go. */
const SMALL = 65_536

export interface Wanted {
  readonly method: string
  readonly isPublic: boolean
  header(name: string): string | undefined
}

/** Closes the file, now or when the answer is out. */
export async function answerFile(file: OpenFile, wanted: Wanted): Promise<Response> {
  const headers = headersOf(file, wanted.isPublic)
  if (isKnown(headers, wanted)) return closed(file, new Response(null, { status: 304, headers }))
  const range = rangeOf(file.size, headers, wanted)
  if (range === 'beyond') {
    headers.set('Content-Range', `bytes */${file.size}`)
    return closed(file, new Response(null, { status: 416, headers }))
  }
  const { start, end } = range ?? { start: 0, end: file.size - 1 }
  if (range) headers.set('Content-Range', `bytes ${start}-${end}/${file.size}`)
  headers.set('Content-Length', String(end - start + 1))
  const status = range ? 206 : 200
  if (wanted.method === 'HEAD') return closed(file, new Response(null, { status, headers }))
  return new Response(await bodyOf(file, start, end), { status, headers })
}

function headersOf({ name, size, modifiedMs }: OpenFile, isPublic: boolean): Headers {
  const type = TYPES[extname(name).toLowerCase()] ?? 'application/octet-stream'
  return new Headers({
    'Content-Type': type,
    ETag: `"${size.toString(16)}-${Math.round(modifiedMs * 1000).toString(16)}"`,
    'Last-Modified': new Date(modifiedMs).toUTCString(),
    'Accept-Ranges': 'bytes',
    // Asked for again each time: who may see it can change at any moment.
    'Cache-Control': isPublic ? 'public, no-cache' : 'private, no-cache',
    // The viewer for these does not open in a sandbox, and they run nothing of ours.
    'Content-Security-Policy':
      type === 'application/pdf' ? "default-src 'none'" : 'sandbox allow-scripts allow-forms allow-popups',
    // Its own pages have no origin any more, and must still load it.
    ...(isPublic ? { 'Access-Control-Allow-Origin': '*', 'Cross-Origin-Resource-Policy': 'cross-origin' } : {}),
  })
}

function isKnown(headers: Headers, wanted: Wanted): boolean {
  const tags = wanted.header('If-None-Match')
  if (tags !== undefined) return knowsTag(tags, headers.get('ETag') ?? '')
  const since = Date.parse(wanted.header('If-Modified-Since') ?? '')
  return since >= Date.parse(headers.get('Last-Modified') ?? '')
}

type Range = { readonly start: number; readonly end: number } | 'beyond' | undefined

/** One range; of several, and of one about another version, the whole file is the answer. */
function rangeOf(size: number, headers: Headers, wanted: Wanted): Range {
  const [, from = '', to = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(wanted.header('Range') ?? '') ?? []
  const about = wanted.header('If-Range')
  if ((from === '' && to === '') || wanted.method !== 'GET') return undefined
  if (about !== undefined && about !== headers.get('ETag') && about !== headers.get('Last-Modified')) return undefined
  const start = from === '' ? Math.max(size - Number(to), 0) : Number(from)
  const end = from === '' || to === '' ? size - 1 : Math.min(Number(to), size - 1)
  if (from !== '' && to !== '' && Number(to) < Number(from)) return undefined
  return start < size && start <= end ? { start, end } : 'beyond'
}

type Body = ConstructorParameters<typeof Response>[0]

async function bodyOf({ handle, size }: OpenFile, start: number, end: number): Promise<Body> {
  if (end - start >= SMALL) return streamed(handle.createReadStream({ start, end }))
  try {
    const buffer = Buffer.alloc(Math.max(end - start + 1, 0))
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, start)
    // Cut short while we read: the length that was promised cannot be kept, and a stream breaks off visibly.
    if (bytesRead < buffer.length) throw new Error(`a published file shrank below ${size} bytes while it was read`)
    return buffer
  } finally {
    await handle.close()
  }
}

function streamed(stream: Readable): Body {
  // The same stream by another name: Node's and the web's types of it were written apart.
  return Readable.toWeb(stream) as unknown as Body
}

async function closed({ handle }: OpenFile, response: Response): Promise<Response> {
  await handle.close()
  return response
}
