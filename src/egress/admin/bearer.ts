// The secret of the admin listener, and whether a request shows it.
import { hash, timingSafeEqual } from 'node:crypto'

/** Of visible ASCII: any other could not be sent in a header. */
const SHOWN = /^bearer +([\x21-\x7e]+)$/i

/** `headers` are as they came, names and values in turn: of two Authorizations Node would show only the first. */
export function showsSecret(headers: readonly string[], secret: string): boolean {
  const values = headers.filter((_, at) => at % 2 === 1 && headers[at - 1]?.toLowerCase() === 'authorization')
  const shown = values.length === 1 ? SHOWN.exec(values[0] ?? '')?.[1] : undefined
  // Also when nothing was shown, so that all refusals take as long. Digests are of one length, whatever the texts are.
  return timingSafeEqual(digest(shown ?? ''), digest(secret)) && shown !== undefined
}

function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}
