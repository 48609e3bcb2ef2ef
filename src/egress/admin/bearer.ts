// Checks the bearer secret of the admin listener.
import { hash, timingSafeEqual } from 'node:crypto'

/** Visible ASCII: nothing else can be sent in a header. */
const BEARER = /^bearer +([\x21-\x7e]+)$/i

/** `headers` are raw: of two Authorization headers Node would return only the first. */
export function hasValidBearer(headers: readonly string[], secret: string): boolean {
  const values = headers.filter((_, at) => at % 2 === 1 && headers[at - 1]?.toLowerCase() === 'authorization')
  const given = values.length === 1 ? BEARER.exec(values[0] ?? '')?.[1] : undefined
  // Compared even if no secret was sent, so all refusals take equally long. Digests have equal length.
  return timingSafeEqual(digest(given ?? ''), digest(secret)) && given !== undefined
}

function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}
