// Reads fields of forms that a page handles itself.
import { refuse } from '../../lib/refusal.ts'
import type { FormFields } from '../http/form-request.ts'

/** An empty field is not given. Browsers send line breaks as CR LF. Blanks around a copied line are not part of it. */
export function optionalField(fields: FormFields, name: string): string | undefined {
  const text = fields.get(name)?.replaceAll('\r\n', '\n') ?? ''
  return (text.includes('\n') ? text : text.trim()) || undefined
}

export function requiredField(fields: FormFields, name: string): string {
  return optionalField(fields, name) ?? refuse('invalid', `${name} must not be empty`)
}

export function numberField(fields: FormFields, name: string): number | undefined {
  const text = optionalField(fields, name)
  if (text === undefined) return undefined
  const value = Number(text)
  return Number.isInteger(value) ? value : refuse('invalid', `${name} must be a whole number`)
}
