// Sends a file of a chat: GET /chat/<token>/files/<id>. Anyone may have uploaded it, so no browser may run anything in it.
import type { FileHandle } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { mustShareFiles } from '../../core/files/chat-file-writer.ts'
import { type ChatFile, storedFileName } from '../../core/files/chat-files.ts'
import { contentDisposition, showableFileName } from '../../core/files/file-names.ts'
import { chatFilesDir, type Layout } from '../../core/layout.ts'
import { Directory } from '../../lib/files/directory.ts'
import { readRange } from '../../lib/http/byte-range.ts'
import { matchesEtag } from '../../lib/http/content-negotiation.ts'
import { refuse } from '../../lib/refusal.ts'
import type { LinkRequest } from './link-request.ts'

const INLINE_AUDIO: ReadonlySet<string> = new Set([
  'audio/aac',
  'audio/flac',
  'audio/mp4',
  'audio/mpeg',
  'audio/ogg',
  'audio/wav',
  'audio/webm',
])

export async function sendChatFile(layout: Layout | undefined, request: LinkRequest, file: ChatFile): Promise<void> {
  if (!layout) refuse('unavailable', 'this process has no access to the files')
  await using handle = await openStored(layout, file)
  const { method = '' } = request.incoming
  const headers = headersOf(file)
  const { ETag } = headers
  if (matchesEtag(request.header('if-none-match'), ETag)) return request.sendEmpty(304, headers)
  const { size } = await handle.stat()
  const [range, ifRange] = [request.header('range'), request.header('if-range')]
  const part = readRange({ method, size, range, ifRange, validators: [ETag] })
  if (part === 'beyond') return request.sendEmpty(416, { ...headers, 'Content-Range': `bytes */${size}` })
  const { start, end } = part ?? { start: 0, end: size - 1 }
  const contentRange = part ? { 'Content-Range': `bytes ${start}-${end}/${size}` } : {}
  request.startStream({ ...headers, ...contentRange, 'Content-Length': String(end - start + 1) }, part ? 206 : 200)
  if (method === 'HEAD' || end < start) return void request.response.end()
  // A client that disconnects ends the stream, and a file that shrank the connection.
  await pipeline(handle.createReadStream({ start, end, autoClose: false }), request.response).catch(() =>
    request.response.destroy(),
  )
}

async function openStored(layout: Layout, file: ChatFile): Promise<FileHandle> {
  await using directory = await Directory.open(chatFilesDir(layout, file))
  const handle = await directory?.openFile(storedFileName(file))
  if (handle) return handle
  await mustShareFiles(layout)
  return refuseMissingFile()
}

export function refuseMissingFile(): never {
  return refuse('not_found', 'there is no such file')
}

function headersOf(file: ChatFile): { readonly [name: string]: string; readonly ETag: string } {
  const kind = isInline(file) ? 'inline' : 'attachment'
  return {
    'Content-Type': file.type === 'text/plain' ? 'text/plain; charset=utf-8' : file.type,
    'Content-Disposition': contentDisposition(kind, showableFileName(file.name)),
    // A file never changes, and its id is never used again.
    ETag: `"${file.id}"`,
    'Cache-Control': 'private, max-age=86400, immutable',
    // A browser that has become another visitor asks again.
    Vary: 'Cookie, X-Visitor',
    'Accept-Ranges': 'bytes',
    'Content-Security-Policy': "default-src 'none'; sandbox; frame-ancestors 'none'",
    'Cross-Origin-Resource-Policy': 'cross-origin',
  }
}

/** An image that is too large to show has another type. */
function isInline({ type }: ChatFile): boolean {
  return INLINE_AUDIO.has(type) || type.startsWith('image/')
}
