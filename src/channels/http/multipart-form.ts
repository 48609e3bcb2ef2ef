// A file with some fields, as multipart/form-data: the file is sent as it lies on the disk, whatever its size.
import { stat } from 'node:fs/promises'
import { ChannelError } from '../../core/delivery/channel.ts'
import type { FileBody } from './adapter-request.ts'

export interface MultipartForm {
  readonly headers: Readonly<Record<string, string>>
  readonly body: FileBody
}

export interface FormFile {
  readonly path: string
  readonly filename: string
  readonly mime?: string | undefined
}

export async function buildMultipartForm(
  fields: Readonly<Record<string, string | undefined>>,
  { path, filename, mime }: FormFile,
  boundary: string,
): Promise<MultipartForm> {
  const size = await sizeOf(path, filename)
  const parts = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`)
  const type = /^[\w.+-]+\/[\w.+-]+$/.test(mime ?? '') ? mime : 'application/octet-stream'
  const opening = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="${quoted(filename)}"\r\n`
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

async function sizeOf(path: string, filename: string): Promise<number> {
  try {
    const stats = await stat(path)
    if (stats.isFile()) return stats.size
  } catch {
    // Said below, for all that is no file.
  }
  throw new ChannelError('permanent', `there is no file ${filename}`)
}

/** As browsers write it. */
function quoted(name: string): string {
  return name.replaceAll('"', '%22').replaceAll('\r', '%0D').replaceAll('\n', '%0A')
}
