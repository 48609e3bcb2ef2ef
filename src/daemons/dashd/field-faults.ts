// Puts the sentences of a refusal next to the fields that they are about, under the labels of the form.
import type { Refusal } from '../../lib/refusal.ts'
import type { FormField } from '../../web/dash/form.ts'
import { toSentence } from '../../web/text/wording.ts'
import { labelOf } from './form-fields.ts'

export interface FieldFaults {
  /** By name of the field. */
  readonly ofFields: ReadonlyMap<string, string>
  /** What is about no single field. */
  readonly rest: readonly string[]
  /** All sentences. */
  readonly text: string
}

/** Messages of schemas are joined by semicolons, and each begins with the name of its field. */
export function placeFaults({ code, message, hint }: Refusal, fields: readonly FormField[]): FieldFaults {
  const ofFields = new Map<string, string>()
  const rest: string[] = []
  const [only, ...others] = fields.filter(({ kind }) => kind !== 'checkbox')
  for (const part of message.split('; ')) {
    const found = fields.find((field) => isAbout(part, field))
    // A wrong value in a form with one field can only be that one.
    const field = found ?? (code === 'invalid' && others.length === 0 ? only : undefined)
    const sentence = toSentence(field === undefined ? part : withLabel(part, field))
    if (field === undefined) rest.push(sentence)
    else ofFields.set(field.name, [ofFields.get(field.name), sentence].filter(Boolean).join(' '))
  }
  if (hint !== undefined) rest.push(toSentence(hint))
  return { ofFields, rest, text: [...ofFields.values(), ...rest].join(' ') }
}

function namesOf({ name, inputNames = [] }: FormField): string[] {
  return [name, labelOf(name), ...inputNames]
}

function isAbout(part: string, field: FormField): boolean {
  const start = part.replace(/^(?:the|invalid) /, '')
  return namesOf(field).some((name) => start.startsWith(name) && !/^[\w.]/.test(start.slice(name.length)))
}

function withLabel(part: string, field: FormField): string {
  const name = namesOf(field).find((one) => part.startsWith(`${one} `))
  return name === undefined ? part : `${field.label}${part.slice(name.length)}`
}
