// What leaves the house: exactly what the output schema has, without its write-only members. It checks nothing, so that a
// row which an older version wrote can still be read.
import { z } from 'zod'
import { isMarked } from '../registry/crud.ts'

export type Show = (reply: unknown) => unknown

/** Compiled once for a schema: a list of a thousand rows is shown for every request. */
export function showAs(schema: z.core.$ZodType): Show {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault) return showAs(schema.unwrap())
  if (schema instanceof z.ZodArray) return each(showAs(schema.element))
  if (schema instanceof z.ZodObject) return members(schema)
  return (reply) => reply
}

function each(show: Show): Show {
  return (reply) => (Array.isArray(reply) ? reply.map(show) : reply)
}

function members(schema: z.ZodObject): Show {
  const shown = Object.entries(schema.shape)
    .filter(([name]) => !isMarked(schema, name, 'writeOnly'))
    .map(([name, field]) => [name, showAs(field)] as const)
  return (reply) => {
    if (typeof reply !== 'object' || reply === null) return reply
    const known: Record<string, unknown> = { ...reply }
    const kept: Record<string, unknown> = {}
    for (const [name, show] of shown) if (Object.hasOwn(known, name)) kept[name] = show(known[name])
    return kept
  }
}
