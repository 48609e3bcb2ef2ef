// Reads all of stdin, up to a size limit.
import { refuse } from '../../lib/refusal.ts'

export async function readStdinBytes(stdin: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of stdin) {
    length += chunk.length
    if (length > maxBytes) refuse('too_large', `stdin is larger than ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** A byte order mark stays part of the text. */
export async function readStdinText(stdin: AsyncIterable<Uint8Array>, maxBytes: number): Promise<string> {
  const bytes = await readStdinBytes(stdin, maxBytes)
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return refuse('invalid', 'stdin is not UTF-8 text')
  }
}
