// A key as one URL parameter: the encoded parts of a composite key are joined by "/", and the URL encodes the result once
// more like every parameter. See docs/decisions.md#composite-keys.
import { refuse } from '../lib/refusal.ts'

export function encodeKey(parts: readonly string[]): string {
  return parts.length === 1 ? (parts[0] ?? '') : parts.map(encodeURIComponent).join('/')
}

/** The parts by name; `text` is the parameter after URL decoding. */
export function decodeKey(names: readonly string[], text: string): Record<string, string> {
  if (names.length === 1) return { [names[0] ?? '']: text }
  const parts = text.split('/')
  if (parts.length !== names.length)
    refuse('not_found', `nothing is at this path: the key has ${names.length} parts: ${describeKey(names)}`)
  return Object.fromEntries(names.map((name, index) => [name, decodePart(parts[index] ?? '')]))
}

/** For the API description. */
export function describeKey(names: readonly string[]): string {
  if (names.length === 1) return `The ${names[0]}, URL-encoded`
  return `${names.join(', ')}: each URL-encoded, joined by "/", and the whole URL-encoded once more`
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return refuse('not_found', 'nothing is at this path: the key is not properly URL-encoded')
  }
}
