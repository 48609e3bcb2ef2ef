// The part of JSON Schema that our API descriptions use: validation and generation of values.
import fc from 'fast-check'

export type JsonSchema = { readonly [keyword: string]: unknown }

type Check = (rule: never, value: unknown, schema: JsonSchema) => boolean

const CHECKS: Record<string, Check> = {
  type: (type: string, value) => hasType(type, value),
  enum: (values: readonly unknown[], value) => values.includes(value),
  const: (only: unknown, value) => value === only,
  minimum: (least: number, value) => typeof value !== 'number' || value >= least,
  maximum: (most: number, value) => typeof value !== 'number' || value <= most,
  exclusiveMinimum: (bound: number, value) => typeof value !== 'number' || value > bound,
  minLength: (least: number, value) => typeof value !== 'string' || [...value].length >= least,
  maxLength: (most: number, value) => typeof value !== 'string' || [...value].length <= most,
  pattern: (source: string, value) => typeof value !== 'string' || new RegExp(source).test(value),
  maxItems: (most: number, value) => !Array.isArray(value) || value.length <= most,
  items: (each: JsonSchema, value) => !Array.isArray(value) || value.every((item) => fits(each, item)),
  minProperties: (least: number, value) => !isObject(value) || Object.keys(value).length >= least,
  required: (names: readonly string[], value) => !isObject(value) || names.every((name) => Object.hasOwn(value, name)),
  properties: (parts: Record<string, JsonSchema>, value) =>
    !isObject(value) || Object.entries(value).every(([name, part]) => !parts[name] || fits(parts[name], part)),
  additionalProperties: (open: boolean, value, { properties = {} }) =>
    open || !isObject(value) || Object.keys(value).every((name) => Object.hasOwn(properties as object, name)),
  not: (other: JsonSchema, value) => !fits(other, value),
  if: (condition: JsonSchema, value, { then: yes = {}, else: no = {} }) =>
    fits((fits(condition, value) ? yes : no) as JsonSchema, value),
}

/** Keywords without a constraint, or covered by another keyword. */
const SILENT = new Set(['description', 'default', 'writeOnly', 'readOnly', 'format', 'then', 'else'])

export function fits(schema: JsonSchema, value: unknown): boolean {
  return Object.entries(schema).every(([keyword, rule]) => {
    if (SILENT.has(keyword)) return true
    const check = CHECKS[keyword] ?? fail(`this test does not know the keyword ${keyword}`)
    return check(rule as never, value, schema)
  })
}

/** Texts that match a format which no pattern can express. */
export type Formats = Readonly<Record<string, fc.Arbitrary<string> | undefined>>

/** Generates valid values. Texts include `known` ones, so that some refer to existing rows. */
export function valuesOf(schema: JsonSchema, formats: Formats, known: readonly string[]): fc.Arbitrary<unknown> {
  return branchesOf(schema, formats, known).filter((value) => fits(schema, value))
}

function branchesOf(schema: JsonSchema, formats: Formats, known: readonly string[]): fc.Arbitrary<unknown> {
  const { if: condition, then: yes, else: no, ...plain } = schema
  if (condition === undefined) return anyOf(plain, formats, known)
  return fc.oneof(...[merged(plain, condition, yes), merged(plain, no)].map((one) => anyOf(one, formats, known)))
}

function anyOf(schema: JsonSchema, formats: Formats, known: readonly string[]): fc.Arbitrary<unknown> {
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (Array.isArray(schema.enum)) return fc.constantFrom(...schema.enum)
  switch (schema.type) {
    case 'boolean':
      return fc.boolean()
    case 'integer':
      return fc.integer({ min: leastOf(schema), max: Number(schema.maximum ?? 2 ** 31 - 1) })
    case 'array':
      return fc.array(valuesOf(schema.items as JsonSchema, formats, known), { maxLength: 3 })
    case 'object':
      return membersOf(schema, formats, known)
    default:
      return textsOf(schema, formats, known)
  }
}

function membersOf(schema: JsonSchema, formats: Formats, known: readonly string[]): fc.Arbitrary<object> {
  const { properties = {}, required = [] } = schema as { properties?: Record<string, JsonSchema>; required?: string[] }
  const members = Object.entries(properties).map(([name, part]) => [name, valuesOf(part, formats, known)])
  const record: Record<string, fc.Arbitrary<unknown>> = Object.fromEntries(members)
  return fc.record(record, { requiredKeys: required, noNullPrototype: true })
}

function textsOf(schema: JsonSchema, formats: Formats, known: readonly string[]): fc.Arbitrary<string> {
  const { format, pattern, minLength = 0, maxLength = 200 } = schema
  if (typeof format === 'string') return formats[format] ?? fail(`there is no generator for the format ${format}`)
  const drawn =
    typeof pattern === 'string'
      ? fc.stringMatching(new RegExp(pattern), { size: 'small' })
      : fc.string({ unit: 'binary', minLength: Number(minLength), maxLength: Math.min(Number(maxLength), 200) })
  const fitting = known.filter((text) => fits(schema, text))
  return fitting.length === 0 ? drawn : fc.oneof(drawn, fc.constantFrom(...fitting))
}

function leastOf({ minimum, exclusiveMinimum }: JsonSchema): number {
  return Number(minimum ?? (exclusiveMinimum === undefined ? -(2 ** 31) : Number(exclusiveMinimum) + 1))
}

/** Merges these into one object schema. */
function merged(...schemas: unknown[]): JsonSchema {
  const all = schemas.filter(isObject)
  const properties: Record<string, object> = {}
  for (const [name, part] of all.flatMap((schema) => Object.entries((schema.properties ?? {}) as object)))
    properties[name] = { ...properties[name], ...part }
  const required = [...new Set(all.flatMap((schema) => (schema.required ?? []) as string[]))]
  return { ...all[0], properties, required }
}

function hasType(type: string, value: unknown): boolean {
  if (type === 'integer') return Number.isInteger(value)
  if (type === 'array') return Array.isArray(value)
  return type === 'object' ? isObject(value) : typeof value === type
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function fail(sentence: string): never {
  throw new Error(sentence)
}
