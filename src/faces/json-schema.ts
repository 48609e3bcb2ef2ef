// Converts zod schemas to JSON schemas for the OpenAPI document and the tool list, normalized and with a fixed key order.
import { z } from 'zod'
import { isObject } from '../lib/text/json.ts'

export type JsonSchema = { [key: string]: unknown }

/** Fixed, so that equal schemas are equal bytes. Other keys follow by name. */
const KEY_ORDER = ['$ref', 'type', 'format', 'enum', 'const', 'items', 'properties', 'required', 'additionalProperties']

/** The schema as clients write it (`input`) or read it (`output`, without its write-only members). */
export function toJsonSchema(schema: z.ZodType, io: 'input' | 'output'): JsonSchema {
  const { $schema: _, $defs = {}, ...json } = z.toJSONSchema(schema, { io, unrepresentable: 'any', override: simplify })
  return normalize(json, { io, defs: $defs })
}

type OverrideContext = Parameters<NonNullable<z.core.ToJSONSchemaParams['override']>>[0]

function simplify({ zodSchema, jsonSchema }: OverrideContext): void {
  const { def } = zodSchema._zod
  // Zod omits a default that a transform follows, because it belongs to the output; ours are valid as input too.
  if (def.type === 'default' && typeof def.defaultValue !== 'object') jsonSchema.default = def.defaultValue
  // Zod cannot know the result of a transform; ours normalize a value and keep its type.
  if (def.type === 'pipe' && def.out._zod.def.type === 'transform') {
    const { $schema: _, ...json } = z.toJSONSchema(def.in, { io: 'input', unrepresentable: 'any', override: simplify })
    Object.assign(jsonSchema, json)
  }
  // Redundant beside the format, and ten times as long.
  if (jsonSchema.format === 'date-time') delete jsonSchema.pattern
  // Member names are text in any JSON, and some generators fail on this key.
  delete jsonSchema.propertyNames
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum
}

interface NormalizeOptions {
  readonly io: 'input' | 'output'
  readonly defs: JsonSchema
}

function normalize(json: JsonSchema, options: NormalizeOptions): JsonSchema {
  const definition = typeof json.$ref === 'string' ? options.defs[json.$ref.replace('#/$defs/', '')] : undefined
  // Inline zod's references: `openapi.ts` finds equal schemas and makes its own.
  if (isObject(definition)) return normalize(definition, options)
  const shown = options.io === 'output' ? withoutInputRules(json) : json
  const parts = Object.entries(shown).map(([key, value]) => [key, normalizePart(key, value, options)])
  return sortKeys(Object.fromEntries(parts))
}

function normalizePart(key: string, value: unknown, options: NormalizeOptions): unknown {
  const normalizeSchema = (part: unknown): unknown => (isObject(part) ? normalize(part, options) : part)
  if (key === 'properties' && isObject(value))
    return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, normalizeSchema(part)]))
  if (Array.isArray(value)) return value.map(normalizeSchema)
  return key === 'items' || key === 'additionalProperties' ? normalizeSchema(value) : value
}

/** Rules for input only: readers must accept rows that an earlier version stored. */
const INPUT_RULES: ReadonlySet<string> = new Set(['minLength', 'maxLength', 'pattern', 'not'])

/** The schema of an output: without write-only members, and with additional members allowed, because readers must accept new ones. */
function withoutInputRules(json: JsonSchema): JsonSchema {
  const isClosed = json.additionalProperties === false
  const shown = Object.fromEntries(
    Object.entries(json).filter(([key]) => !INPUT_RULES.has(key) && !(isClosed && key === 'additionalProperties')),
  )
  if (!isObject(json.properties)) return shown
  const hidden = Object.entries(json.properties).filter(([, part]) => isObject(part) && part.writeOnly === true)
  return withoutProperties(
    shown,
    hidden.map(([name]) => name),
  )
}

/** An object schema without these members. */
export function withoutProperties(json: JsonSchema, names: readonly string[]): JsonSchema {
  const properties = isObject(json.properties) ? json.properties : {}
  const required = Array.isArray(json.required) ? json.required.filter((name) => !names.includes(name)) : []
  const { required: _, ...rest } = json
  return sortKeys({
    ...rest,
    properties: Object.fromEntries(Object.entries(properties).filter(([name]) => !names.includes(name))),
    ...(required.length ? { required } : {}),
  })
}

function sortKeys(json: JsonSchema): JsonSchema {
  const rank = (key: string): number => (KEY_ORDER.includes(key) ? KEY_ORDER.indexOf(key) : KEY_ORDER.length)
  return Object.fromEntries(Object.entries(json).sort(([a], [b]) => rank(a) - rank(b) || (a < b ? -1 : 1)))
}
