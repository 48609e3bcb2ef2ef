// The fields of a form, derived from the input schema of a verb.
import type { z } from 'zod'
import { type JsonSchema, toJsonSchema } from '../../faces/json-schema.ts'
import type { FormField } from '../../web/dash/form.ts'

/** The longest text of a field, in a script of which each character has nine bytes in a form. */
export const FORM_MAX = 1024 * 1024

/** Members of a form that are not input of the verb. */
export const CONTROL_FIELDS: ReadonlySet<string> = new Set([
  'csrf',
  'action',
  'form',
  'form_key',
  'confirmed',
  // Names of fields that may be emptied.
  'clears',
  // Names of fields for passwords.
  'secrets',
])
const INPUT_PREFIX = 'input-'

/** The name of a field in its form: an input may have the name of a control field. */
export function formNameOf(name: string): string {
  return CONTROL_FIELDS.has(name) ? `${INPUT_PREFIX}${name}` : name
}

/** The input of a form, without control fields. */
export function inputValues(fields: Iterable<readonly [string, string]>): Record<string, string> {
  const input = [...fields].filter(([name]) => !CONTROL_FIELDS.has(name))
  return Object.fromEntries(input.map(([name, value]) => [name.replace(INPUT_PREFIX, ''), value]))
}

/** Longer texts get a field of several lines. */
const LINE_MAX = 300

/** The fields of a verb's input, without those in `omit`. `overrides` replaces parts of a field. */
export function fieldsOf(
  input: z.ZodObject,
  options: {
    readonly omit?: readonly string[]
    readonly values?: Readonly<Record<string, unknown>>
    readonly overrides?: Readonly<Record<string, Partial<FormField>>>
  } = {},
): FormField[] {
  const { omit = [], values = {}, overrides = {} } = options
  const schema = toJsonSchema(input, 'input')
  const required = new Set(Array.isArray(schema.required) ? schema.required : [])
  const members = Object.entries((schema.properties ?? {}) as Record<string, JsonSchema>)
  return members.flatMap(([name, member]) =>
    omit.includes(name)
      ? []
      : [{ ...fieldOf(name, member, required.has(name)), ...storedValue(values[name]), ...overrides[name] }],
  )
}

function storedValue(value: unknown): Pick<FormField, 'value'> {
  if (value === undefined || value === null) return {}
  return { value: typeof value === 'object' ? JSON.stringify(value) : String(value) }
}

function fieldOf(name: string, member: JsonSchema, isRequired: boolean): FormField {
  const text = (key: string): string | undefined => (typeof member[key] === 'string' ? member[key] : undefined)
  const number = (key: string): number | undefined => (typeof member[key] === 'number' ? member[key] : undefined)
  const initial = member.default === undefined ? {} : { value: String(member.default) }
  return {
    name,
    label: labelOf(name),
    hint: text('description'),
    isRequired,
    maxLength: number('maxLength'),
    min: number('minimum'),
    max: number('maximum'),
    ...kindOf(member, isRequired),
    ...initial,
  }
}

function kindOf(member: JsonSchema, isRequired: boolean): Partial<FormField> {
  const none: readonly (readonly [string, string])[] = isRequired ? [] : [['', 'not set']]
  if (Array.isArray(member.enum)) return { kind: 'select', options: [...none, ...member.enum.map(String)] }
  if (member.writeOnly === true) return { kind: 'password' }
  switch (member.type) {
    case 'boolean':
      return { kind: 'select', options: [...none, ['false', 'no'], ['true', 'yes']] }
    case 'integer':
    case 'number':
      return { kind: 'number' }
    case 'object':
    case 'array':
      return { kind: 'multiline', rows: 3, placeholder: member.type === 'object' ? '{}' : '[]' }
    default:
      return typeof member.maxLength === 'number' && member.maxLength > LINE_MAX ? { kind: 'multiline' } : {}
  }
}

/** `next_run` becomes `Next run`. */
export function labelOf(name: string): string {
  const words = name.replaceAll('_', ' ')
  return words.slice(0, 1).toUpperCase() + words.slice(1)
}
