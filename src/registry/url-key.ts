// A key as one URL parameter (decision R2): composite keys are joined by "/" after each part is encoded. The URL encodes the
// whole once more, as it does with every parameter.
import { refuse } from '../lib/refusal.ts'

export function encodeKey(parts: readonly string[]): string {
  return parts.length === 1 ? (parts[0] ?? '') : parts.map(encodeURIComponent).join('/')
}

/** The parts by name; `text` is the parameter after the URL's own decoding. */
export function decodeKey(names: readonly string[], text: string): Record<string, string> {
  if (names.length === 1) return { [names[0] ?? '']: text }
  const parts = text.split('/')
  if (parts.length !== names.length)
    refuse('not_found', `nothing is at this path: the key has ${names.length} parts: ${describeKey(names)}`)
  return Object.fromEntries(names.map((name, index) => [name, decoded(parts[index] ?? '')]))
}

/** The sentence that the API description needs. */
export function describeKey(names: readonly string[]): string {
  if (names.length === 1) return `The ${names[0]}, URL-encoded`
  return `${names.join(', ')}: each URL-encoded, joined by "/", and the whole URL-encoded once more`
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return refuse('not_found', 'nothing is at this path: the key is not properly URL-encoded')
  }
}
