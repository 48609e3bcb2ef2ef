// All of stdin as text, within bounds.
import { refuse } from '../lib/refusal.ts'

export async function readStdin(stdin: AsyncIterable<Uint8Array>, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of stdin) {
    length += chunk.length
    if (length > maxBytes) refuse('too_large', `stdin is larger than ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(chunks))
  } catch {
    return refuse('invalid', 'stdin is not UTF-8 text')
  }
}
