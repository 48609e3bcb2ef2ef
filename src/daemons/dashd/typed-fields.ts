// Reads fields of forms that a page handles itself.
import { refuse } from '../../lib/refusal.ts'
import type { FormFields } from '../http/form-request.ts'
import { labelOf } from './form-fields.ts'

/** An empty field is not given. Browsers send line breaks as CR LF. */
export function optionalField(fields: FormFields, name: string): string | undefined {
  return fields.get(name)?.replaceAll('\r\n', '\n') || undefined
}

export function requiredField(fields: FormFields, name: string): string {
  return optionalField(fields, name) ?? refuse('invalid', `${labelOf(name)} must not be empty`)
}

export function numberField(fields: FormFields, name: string): number | undefined {
  const text = optionalField(fields, name)
  if (text === undefined) return undefined
  const value = Number(text)
  return Number.isInteger(value) ? value : refuse('invalid', `${labelOf(name)} must be a whole number`)
}
