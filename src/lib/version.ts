// The version in package.json.
import { readFileSync } from 'node:fs'
import { lazy } from './lazy.ts'
import { tryParseJson } from './text/json.ts'

/** Lazy, since most commands never need it. The path holds for `src/lib` and `dist/lib` alike. */
export const packageVersion = lazy(() =>
  versionIn(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')),
)

function versionIn(manifest: string): string {
  const found = tryParseJson(manifest)
  return typeof found === 'object' && found !== null && 'version' in found ? String(found.version) : 'unknown'
}
