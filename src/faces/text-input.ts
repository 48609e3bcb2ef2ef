// Converts the texts of a query string, path or command line to typed input, by schema. Text that does not fit stays text, so
// that `parse` refuses it with its own message.
import type { z } from 'zod'
import { refuse } from '../lib/refusal.ts'

/** The numbers of JSON: no spaces, no hexadecimal, no leading zeros. */
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

/** Converts numbers and booleans. Keeps unknown members, for `parse` to refuse. */
export function parseTextInput(schema: z.ZodObject, texts: Readonly<Record<string, string>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(texts).map(([name, text]) => {
      const field = Object.hasOwn(schema.shape, name) ? schema.shape[name] : undefined
      return [name, field ? convertText(field, text) : text]
    }),
  )
}

function convertText(field: z.core.$ZodType, text: string): unknown {
  const type = inputTypeOf(field)
  if (type === 'number' && NUMBER.test(text)) return Number(text)
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true'
  return text
}

/** The type that a field takes, without wrappers and before transforms. */
function inputTypeOf(field: z.core.$ZodType): z.core.$ZodTypeDef['type'] {
  // Every zod schema is one of this union; `$ZodType` hides the members of the definition.
  const { def } = (field as z.core.$ZodTypes)._zod
  if ('innerType' in def) return inputTypeOf(def.innerType)
  if (def.type !== 'pipe') return def.type
  return inputTypeOf(def.in._zod.def.type === 'transform' ? def.out : def.in)
}

/** The parameters of a query string, with or without its "?". Refuses a name that is given twice. */
export function parseQueryString(query: string): Record<string, string> {
  try {
    decodeURIComponent(query)
  } catch {
    refuse('invalid', 'the query is not properly URL-encoded')
  }
  const texts = new Map<string, string>()
  for (const [name, text] of new URLSearchParams(query)) {
    if (texts.has(name)) refuse('invalid', `${name} is given twice`)
    texts.set(name, text)
  }
  return Object.fromEntries(texts)
}
