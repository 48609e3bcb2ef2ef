// JSON from outside. V8 takes half a microsecond for each array and up to five for each object of a new shape, so that a body
// of 1 MiB could hold the event loop for a second: depth and number of values are counted before anything is made of them.
import { refuse } from './refusal.ts'

/** Arrays and objects inside each other. */
export const JSON_DEPTH = 64
/** Members and entries, in all arrays and objects together. */
export const JSON_VALUES = 20_000

/** Text as JSON; refused with the place where it ends to be JSON. */
export function parseJson(text: string, maxValues = JSON_VALUES): unknown {
  const fault = jsonFault(text, maxValues)
  if (fault) refuse('invalid', `the body ${fault}`)
  try {
    return JSON.parse(text)
  } catch (error) {
    // The engine's sentence quotes the body, which may hold a secret; the place is enough.
    const place = error instanceof Error ? /position (\d+)/.exec(error.message)?.[1] : undefined
    return refuse('invalid', `the body is not JSON${place === undefined ? '' : ` (at character ${place})`}`)
  }
}

/** Nothing where the text is no JSON, or has too much in it. */
export function tryJson(text: string): unknown {
  if (jsonFault(text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const [QUOTE, COMMA, BACKSLASH] = [0x22, 0x2c, 0x5c]
const [ARRAY, ARRAY_END, OBJECT, OBJECT_END] = [0x5b, 0x5d, 0x7b, 0x7d]

/** What is too much in a text, to be said of it. Whether it is JSON at all is not looked at. */
export function jsonFault(text: string, maxValues = JSON_VALUES): string | undefined {
  let depth = 0
  let values = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = endOfString(text, at)
    else if (code === COMMA) values++
    else if (code === ARRAY || code === OBJECT) {
      depth++
      values++
    } else if (code === ARRAY_END || code === OBJECT_END) depth--
    if (depth > JSON_DEPTH) return `is nested deeper than ${JSON_DEPTH} levels`
    if (values > maxValues) return `has more than ${maxValues} values`
  }
  return undefined
}

/** Where the quote is that ends the string which begins here. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let before = end
    while (text.charCodeAt(before - 1) === BACKSLASH) before--
    if ((end - before) % 2 === 0) return end
  }
  return text.length
}
