// The field lines of HTTP/1.1, of requests, answers and trailers. What two readers could read in two ways is not read at
// all: no folded line, no line feed alone, no blank before the colon, no control character.

export interface Field {
  /** As it was sent. */
  readonly name: string
  /** The name in lower case. */
  readonly key: string
  /** As it was sent, without the blanks around it. Latin-1: a byte is a character. */
  readonly value: string
}

/** Far more than anybody needs; 2000 short ones are an attack on whoever keeps them. */
const FIELDS_MAX = 1000

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

const TAB = 0x09
const SPACE = 0x20

export const TOO_MANY_FIELDS = 'too many fields'

/** The lines from `start` to the end of `text`, which each end in CRLF; or the sentence that says what is wrong. */
export function readFields(text: string, start: number): readonly Field[] | string {
  const fields: Field[] = []
  for (let at = start; at < text.length; ) {
    const end = text.indexOf('\r\n', at)
    if (end < 0) return 'a line without an end'
    const colon = text.indexOf(':', at)
    if (colon < 0 || colon > end) return 'a line that is no field'
    const field = readField(text.slice(at, colon), text, colon + 1, end)
    if (typeof field === 'string') return field
    if (fields.push(field) > FIELDS_MAX) return TOO_MANY_FIELDS
    at = end + 2
  }
  return fields
}

function readField(name: string, text: string, start: number, end: number): Field | string {
  if (!TOKEN.test(name)) return 'a field whose name is no name'
  let from = start
  let to = end
  while (from < to && isBlank(text.charCodeAt(from))) from++
  while (to > from && isBlank(text.charCodeAt(to - 1))) to--
  const value = text.slice(from, to)
  if (!VALUE.test(value)) return `a control character in the field ${name.slice(0, 64)}`
  const key = name.toLowerCase()
  if (!isFraming(key)) return { name, key, value }
  // Blanks that are allowed in any other field have hidden these two from one reader and not from the next.
  const isPlain = to === end && (from === start || (from === start + 1 && text.charCodeAt(start) === SPACE))
  return isPlain ? { name, key, value } : `blanks around the value of ${name}`
}

function isFraming(key: string): boolean {
  return key === 'content-length' || key === 'transfer-encoding'
}

function isBlank(code: number): boolean {
  return code === SPACE || code === TAB
}

/** Each field is looked for among them: more would be work for nothing but to keep us busy. */
export const NAMES_MAX = 64

/** The members of a list such as that of `Connection`, in lower case; nothing when one of them is no name, or for too many. */
export function readNames(value: string): readonly string[] | undefined {
  const names: string[] = []
  const members = value.split(',', NAMES_MAX + 1)
  if (members.length > NAMES_MAX) return undefined
  for (const member of members) {
    const name = member.trim().toLowerCase()
    if (name === '') continue
    if (!TOKEN.test(name)) return undefined
    names.push(name)
  }
  return names
}

export function findField(fields: readonly Field[], key: string): string | undefined {
  for (const field of fields) if (field.key === key) return field.value
  return undefined
}
