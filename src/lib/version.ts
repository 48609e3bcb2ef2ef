// The version of the package, as its manifest states it.
import { readFileSync } from 'node:fs'

let read: string | undefined

/** Read when first asked: most commands never are. */
export function packageVersion(): string {
  // From `src/lib` and from `dist/lib` alike.
  read ??= String(JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')).version)
  return read
}
