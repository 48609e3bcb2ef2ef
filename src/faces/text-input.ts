// Texts to typed input, by schema: query, path and argv know only text. What does not fit stays text, so that `parse`
// refuses it with its own sentence.
import type { z } from 'zod'
import { refuse } from '../lib/refusal.ts'

type Texts = Readonly<Record<string, string>>

/** JSON's own numbers: no blanks, no hexadecimal, no leading zeros, so that a number has few spellings. */
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

/** Numbers and booleans where the schema asks for them; members that it does not know are kept, for `parse` to refuse. */
export function parseTextInput(schema: z.ZodObject, texts: Texts): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(texts).map(([name, text]) => {
      const field = Object.hasOwn(schema.shape, name) ? schema.shape[name] : undefined
      return [name, field ? typedValue(field, text) : text]
    }),
  )
}

function typedValue(field: z.core.$ZodType, text: string): unknown {
  const kind = baseTypeOf(field)
  if (kind === 'number' && NUMBER.test(text)) return Number(text)
  if (kind === 'boolean' && (text === 'true' || text === 'false')) return text === 'true'
  return text
}

/** The type at the heart of a field: what it takes when nothing wraps it and before anything transforms it. */
export function baseTypeOf(field: z.core.$ZodType): z.core.$ZodTypeDef['type'] {
  // Every schema that zod makes is one of this union; its base type hides the definition's members.
  const { def } = (field as z.core.$ZodTypes)._zod
  if ('innerType' in def) return baseTypeOf(def.innerType)
  if (def.type !== 'pipe') return def.type
  return def.in._zod.def.type === 'transform' ? baseTypeOf(def.out) : baseTypeOf(def.in)
}

/** The parameters of a query, with or without its "?". One name, one value: a second one is a mistake or a trick. */
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
