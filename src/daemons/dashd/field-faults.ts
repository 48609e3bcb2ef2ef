// Puts the sentences of a refusal next to the fields that they are about, under the labels of the form.
import { Refusal } from '../../lib/refusal.ts'
import type { FormField } from '../../web/dash/form.ts'
import { toSentence } from '../../web/text/wording.ts'
import { labelOf } from './form-fields.ts'

type Values = Readonly<Record<string, string>>

export interface FieldFaults {
  /** By name of the field. */
  readonly ofFields: ReadonlyMap<string, string>
  /** What is about no single field. */
  readonly rest: readonly string[]
  /** All sentences. */
  readonly text: string
}

/**
 * Messages of schemas are joined by semicolons, and each begins with the name of its field. Others may quote what was typed in a
 * field.
 */
export function placeFaults(refusal: Refusal, fields: readonly FormField[], typed: Values = {}): FieldFaults {
  const { code, message, hint } = refusal
  const ofFields = new Map<string, string>()
  const rest: string[] = []
  let last: FormField | undefined
  const [only, ...others] = fields.filter(({ kind }) => kind !== 'checkbox')
  for (const part of withoutVerb(message).split('; ')) {
    const found = fields.find((field) => isAbout(part, field)) ?? findQuoted(part, fields, typed)
    // A wrong value in a form with one field can only be that one. A message may go on after a semicolon.
    const field = found ?? (code === 'invalid' && others.length === 0 ? only : last)
    last = field
    const sentence = toSentence(field === undefined ? part : withLabel(part, field))
    if (field === undefined) rest.push(sentence)
    else ofFields.set(field.name, [ofFields.get(field.name), sentence].filter(Boolean).join(' '))
  }
  const [name, ...more] = ofFields.keys()
  if (hint !== undefined && name !== undefined && more.length + rest.length === 0)
    ofFields.set(name, `${ofFields.get(name)} ${toSentence(hint)}`)
  else if (hint !== undefined) rest.push(toSentence(hint))
  return { ofFields, rest, text: [...ofFields.values(), ...rest].join(' ') }
}

/** Without a hint that names a command, or with `showCommands` with the command as it can be typed. */
export function withoutCommands(refusal: Refusal, showCommands?: (text: string) => string): Refusal {
  const { code, message, hint } = refusal
  if (hint === undefined || !/(?<![\w/.-])svc [a-z]/.test(hint)) return refusal
  return new Refusal(code, message, showCommands?.(hint))
}

/** Refusals for lack of a right begin with the name of a verb or tool, which is nowhere on the page. */
export function withoutVerb(message: string): string {
  return message.replace(/^[a-z_]+(?:\.[a-z_]+)?: (?=not permitted)/, '')
}

/** The field with a value that the message has as a word, if there is only one. */
function findQuoted(part: string, fields: readonly FormField[], typed: Values): FormField | undefined {
  const words = new Set(part.split(/[\s"(),/]+/).map((word) => word.replace(/[.:]$/, '')))
  const isQuoted = ({ name, kind = 'text' }: FormField): boolean => {
    const value = typed[name]?.trim() ?? ''
    return kind === 'text' && value !== '' && (words.has(value) || (value.includes('/') && part.includes(value)))
  }
  const [found, ...others] = fields.filter(isQuoted)
  return others.length === 0 ? found : undefined
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
