// Zod schemas as the JSON schemas of an API description: what is true, in one spelling and one order.
import { z } from 'zod'

export type JsonSchema = { [key: string]: unknown }

/** The order of keys, so that the same schema is the same bytes however it was put together. */
const ORDER = ['$ref', 'type', 'format', 'enum', 'const', 'items', 'properties', 'required', 'additionalProperties']

/** A schema as others may write it (`input`) or as they read it (`output`, without its write-only members). */
export function toJsonSchema(schema: z.ZodType, io: 'input' | 'output'): JsonSchema {
  const { $schema: _, $defs = {}, ...json } = z.toJSONSchema(schema, { io, unrepresentable: 'any', override: plain })
  return normalize(json, { io, defs: $defs })
}

type Overridden = Parameters<NonNullable<z.core.ToJSONSchemaParams['override']>>[0]

function plain({ zodSchema, jsonSchema }: Overridden): void {
  const { def } = zodSchema._zod
  // Zod gives no default to what is transformed after it, because it is of the output; ours are of both.
  if (def.type === 'default' && typeof def.defaultValue !== 'object') jsonSchema.default = def.defaultValue
  // What a transform gives, zod cannot know; ours tidy a value and leave its type.
  if (def.type === 'pipe' && def.out._zod.def.type === 'transform') Object.assign(jsonSchema, bare(def.in))
  // What the format says already, at ten times the length.
  if (jsonSchema.format === 'date-time') delete jsonSchema.pattern
  // The names of members are text in any JSON, and some generators stumble over being told.
  delete jsonSchema.propertyNames
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
}

function bare(schema: z.core.$ZodType): JsonSchema {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any', override: plain })
  return json
}

interface NormalizeOptions {
  readonly io: 'input' | 'output'
  readonly defs: JsonSchema
}

function normalize(json: JsonSchema, tidying: NormalizeOptions): JsonSchema {
  const named = typeof json.$ref === 'string' ? tidying.defs[json.$ref.replace('#/$defs/', '')] : undefined
  // Where a row is named and where it is spelled out must come out the same: the description names it in its own way.
  if (isSchema(named)) return normalize(named, tidying)
  const shown = tidying.io === 'output' ? readable(json) : json
  const parts = Object.entries(shown).map(([key, value]) => [key, normalizePart(key, value, tidying)])
  return ordered(Object.fromEntries(parts))
}

function normalizePart(key: string, value: unknown, tidying: NormalizeOptions): unknown {
  if (key === 'properties' && isSchema(value))
    return Object.fromEntries(
      Object.entries(value).map(([name, part]) => [name, isSchema(part) ? normalize(part, tidying) : part]),
    )
  if ((key === 'items' || key === 'additionalProperties') && isSchema(value)) return normalize(value, tidying)
  if (Array.isArray(value)) return value.map((part) => (isSchema(part) ? normalize(part, tidying) : part))
  return value
}

/** Rules for those who write. Those who read must take what an earlier version has stored. */
const OF_WRITING: ReadonlySet<string> = new Set(['minLength', 'maxLength', 'pattern', 'not'])

/** Without what is never sent, and open: a reader must let new members pass. */
function readable(json: JsonSchema): JsonSchema {
  const isClosed = json.additionalProperties === false
  const shown = Object.fromEntries(
    Object.entries(json).filter(([key]) => !OF_WRITING.has(key) && !(isClosed && key === 'additionalProperties')),
  )
  if (!isSchema(json.properties)) return shown
  const isHidden = (part: unknown): boolean => isSchema(part) && part.writeOnly === true
  const hidden = Object.entries(json.properties).filter(([, part]) => isHidden(part))
  return withoutProperties(
    shown,
    hidden.map(([name]) => name),
  )
}

/** An object schema without these members. */
export function withoutProperties(json: JsonSchema, names: readonly string[]): JsonSchema {
  const properties = isSchema(json.properties) ? json.properties : {}
  const required = Array.isArray(json.required) ? json.required.filter((name) => !names.includes(name)) : []
  const { required: _, ...rest } = json
  return ordered({
    ...rest,
    properties: Object.fromEntries(Object.entries(properties).filter(([name]) => !names.includes(name))),
    ...(required.length ? { required } : {}),
  })
}

export function isSchema(value: unknown): value is JsonSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function ordered(json: JsonSchema): JsonSchema {
  const rank = (key: string): number => (ORDER.includes(key) ? ORDER.indexOf(key) : ORDER.length)
  return Object.fromEntries(Object.entries(json).sort(([a], [b]) => rank(a) - rank(b) || (a < b ? -1 : 1)))
}
