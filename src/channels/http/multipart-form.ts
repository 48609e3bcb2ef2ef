// Builds a multipart/form-data request with fields and one file, which is streamed from the disk.
import { stat } from 'node:fs/promises'
import { ChannelError } from '../../core/delivery/channel.ts'
import type { FileBody } from '../adapter-request.ts'

interface MultipartForm {
  readonly headers: Readonly<Record<string, string>>
  readonly body: FileBody
}

interface FormFile {
  readonly path: string
  readonly filename: string
  readonly mime?: string | undefined
}

export async function buildMultipartForm(
  fields: Readonly<Record<string, string | undefined>>,
  { path, filename, mime }: FormFile,
  boundary: string,
): Promise<MultipartForm> {
  const size = await requireFileSize(path, filename)
  const parts = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`)
  const type = /^[\w.+-]+\/[\w.+-]+$/.test(mime ?? '') ? mime : 'application/octet-stream'
  const opening = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${escapeName(filename)}"\r\n`
  const head = Buffer.from(`${parts.join('')}${opening}Content-Type: ${type}\r\n\r\n`)
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`)
  return {
    headers: {
      'Content-Type': `multipart/form-data; boundary=${boundary}`,
      'Content-Length': String(head.length + size + tail.length),
    },
    body: { head, path, size, tail },
  }
}

async function requireFileSize(path: string, filename: string): Promise<number> {
  try {
    const stats = await stat(path)
    if (stats.isFile()) return stats.size
  } catch {
    // Reported below.
  }
  throw new ChannelError('permanent', `there is no file ${filename}`)
}

/** Escapes as browsers do. */
function escapeName(name: string): string {
  return name.replaceAll('"', '%22').replaceAll('\r', '%0D').replaceAll('\n', '%0A')
}
