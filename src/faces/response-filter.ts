// What leaves the house: exactly what the output schema has, without its write-only members. It checks nothing, so that a
// row which an older version wrote can still be read.
import { z } from 'zod'
import { isMarked } from '../registry/crud.ts'

export type ResponseFilter = (reply: unknown) => unknown

/** Compiled once for a schema, because a list may have a thousand rows; at its first use, because most are never used. */
export function responseFilter(schema: z.core.$ZodType): ResponseFilter {
  let show: ResponseFilter | undefined
  return (reply) => {
    show ??= compile(schema)
    return show(reply)
  }
}

function compile(schema: z.core.$ZodType): ResponseFilter {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault) return compile(schema.unwrap())
  if (schema instanceof z.ZodArray) return each(compile(schema.element))
  if (schema instanceof z.ZodObject) return members(schema)
  return (reply) => reply
}

function each(show: ResponseFilter): ResponseFilter {
  return (reply) => (Array.isArray(reply) ? reply.map(show) : reply)
}

function members(schema: z.ZodObject): ResponseFilter {
  const shown = Object.entries(schema.shape)
    .filter(([name]) => !isMarked(schema, name, 'writeOnly'))
    .map(([name, field]) => [name, compile(field)] as const)
  return (reply) => {
    if (typeof reply !== 'object' || reply === null) return reply
    const known: Record<string, unknown> = { ...reply }
    const kept: Record<string, unknown> = {}
    for (const [name, show] of shown) if (Object.hasOwn(known, name)) kept[name] = show(known[name])
    return kept
  }
}
