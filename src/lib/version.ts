// The version of the package, as its manifest states it.
import { readFileSync } from 'node:fs'
import { tryJson } from './json.ts'

let read: string | undefined

/** Read when first asked: most commands never are. */
export function packageVersion(): string {
  // From `src/lib` and from `dist/lib` alike.
  read ??= versionIn(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  return read
}

function versionIn(manifest: string): string {
  const found = tryJson(manifest)
  return typeof found === 'object' && found !== null && 'version' in found ? String(found.version) : 'unknown'
}
