// Parses untrusted JSON. V8 takes 0.5 µs per array and up to 5 µs per object of a new shape, so a body of 1 MiB could block the
// event loop for a second: nesting and number of values are limited before parsing.
import { refuse } from '../refusal.ts'

/** Nesting of arrays and objects. */
export const JSON_DEPTH = 64
/** Members and entries of all arrays and objects together. */
export const JSON_VALUES = 20_000

/** Refuses text that is not JSON, with the position of the error. */
export function parseJson(text: string, maxValues = JSON_VALUES): unknown {
  const fault = findJsonError(text, maxValues)
  if (fault) refuse('invalid', `the body ${fault}`)
  try {
    return JSON.parse(text)
  } catch (error) {
    // V8's message quotes the body, which may contain a secret; the position is enough.
    const position = error instanceof Error ? /position (\d+)/.exec(error.message)?.[1] : undefined
    return refuse('invalid', `the body is not JSON${position === undefined ? '' : ` (at character ${position})`}`)
  }
}

/** Undefined if the text is not JSON or exceeds the limits. */
export function tryParseJson(text: string, maxValues = JSON_VALUES): unknown {
  if (findJsonError(text, maxValues)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Whether a parsed value is an object and not an array. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

const [QUOTE, COMMA, BACKSLASH] = [0x22, 0x2c, 0x5c]
const [ARRAY, ARRAY_END, OBJECT, OBJECT_END] = [0x5b, 0x5d, 0x7b, 0x7d]

/** Completes "the body …" if a limit is exceeded. Does not check the syntax. */
export function findJsonError(text: string, maxValues = JSON_VALUES): string | undefined {
  let depth = 0
  let values = 0
  // Each value has at most one key and one string, so more strings are an error of syntax that need not be read to its end.
  let stringsLeft = 2 * maxValues + 2
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      if (--stringsLeft < 0) return `has more than ${maxValues} values`
      at = endOfString(text, at)
    } else if (code === COMMA) values++
    else if (code === ARRAY || code === OBJECT) {
      depth++
      values++
    } else if (code === ARRAY_END || code === OBJECT_END) depth--
    if (depth > JSON_DEPTH) return `is nested deeper than ${JSON_DEPTH} levels`
    if (values > maxValues) return `has more than ${maxValues} values`
  }
  return undefined
}

/** The position of the closing quote. */
function endOfString(text: string, start: number): number {
  const end = text.indexOf('"', start + 1)
  if (end < 0) return text.length
  if (text.charCodeAt(end - 1) !== BACKSLASH) return end
  // With escapes, a search for each quote would take ten times as long.
  for (let at = start + 1; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === BACKSLASH) at++
    else if (code === QUOTE) return at
  }
  return text.length
}
