// Reduces a reply to the members of its output schema that are not write-only. It validates nothing, so that rows which an
// older version wrote can still be read.
import { z } from 'zod'
import { isMarked } from '../registry/crud.ts'

export type ResponseFilter = (reply: unknown) => unknown

/** Compiled once per schema, because a list may have a thousand rows, and at its first use, because most are never used. */
export function createResponseFilter(schema: z.core.$ZodType): ResponseFilter {
  let filter: ResponseFilter | undefined
  return (reply) => {
    filter ??= compileFilter(schema)
    return filter(reply)
  }
}

function compileFilter(schema: z.core.$ZodType): ResponseFilter {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault) return compileFilter(schema.unwrap())
  if (schema instanceof z.ZodArray) {
    const filter = compileFilter(schema.element)
    return (reply) => (Array.isArray(reply) ? reply.map(filter) : reply)
  }
  return schema instanceof z.ZodObject ? compileObjectFilter(schema) : (reply) => reply
}

function compileObjectFilter(schema: z.ZodObject): ResponseFilter {
  const filters = Object.entries(schema.shape)
    .filter(([name]) => !isMarked(schema, name, 'writeOnly'))
    .map(([name, field]) => [name, compileFilter(field)] as const)
  return (reply) => {
    if (typeof reply !== 'object' || reply === null) return reply
    const members: Record<string, unknown> = { ...reply }
    const kept: Record<string, unknown> = {}
    for (const [name, filter] of filters) if (Object.hasOwn(members, name)) kept[name] = filter(members[name])
    return kept
  }
}
