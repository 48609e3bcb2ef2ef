// Schemas of the product's value types (folders, JIDs, host names …) with their error messages.
import { z } from 'zod'
import { compileSegments, isGlob } from '../lib/text/glob.ts'
import { findJsonError, tryParseJson } from '../lib/text/json.ts'

const SEGMENT = '[A-Za-z0-9][A-Za-z0-9._-]{0,63}'
const FOLDER_SEGMENT = new RegExp(`^${SEGMENT}$`)
/** The disk layout uses these names. */
const RESERVED_SEGMENTS = new Set(['share', 'gated.sock'])

/** Folders are case-sensitive. See docs/decisions.md#folder-names. */
export function folderFault(text: string): string | undefined {
  if (text === '') return 'must not be empty'
  if (text.length > 255) return 'is longer than 255 characters'
  const segments = text.split('/')
  if (segments.length > 8) return 'has more than 8 segments'
  for (const segment of segments) {
    if (RESERVED_SEGMENTS.has(segment)) return `must not use the reserved name ${segment}`
    if (!FOLDER_SEGMENT.test(segment))
      return 'must be names of letters, digits, ".", "_" and "-" joined by "/", each starting with a letter or digit'
  }
  return undefined
}

/** JSON Schema keywords for the API description. `format` names a rule that no pattern can express. */
interface TextShape {
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
  readonly not?: { readonly pattern: string }
  readonly format?: string
}

/** Returns what is wrong with a value, to be read after its name, such as "must not be empty". */
type FindFault = (value: string) => string | undefined

function refineBy(findFault: FindFault) {
  return (value: string, ctx: z.core.$RefinementCtx<string>): void => {
    const message = findFault(value)
    if (message) ctx.addIssue({ code: 'custom', message })
  }
}

/** A text schema checked by a function; `shape` states the same rule in the API description. */
export function checkedText(findFault: FindFault, shape: TextShape = {}) {
  return z
    .string()
    .superRefine(refineBy(findFault))
    .meta({ ...shape })
}

export function patternText(pattern: RegExp, fault: string, shape: TextShape = {}) {
  return checkedText((value) => (pattern.test(value) ? undefined : fault), { ...shape, pattern: pattern.source })
}

const CONTROL = /[\u0000-\u001f\u007f]/
const PLAIN = '[^\\u0000-\\u001f\\u007f]'

function plainFault(max: number) {
  return (value: string): string | undefined => {
    if (value === '') return 'must not be empty'
    if (codePoints(value) > max) return `is longer than ${max} characters`
    if (CONTROL.test(value)) return 'must not contain control characters'
    return undefined
  }
}

/** C0 without tab and newline, DEL and C1. NUL would end an exec argument; ESC and its C1 forms control terminals. */
const CONTROL_IN_VALUE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/
const ALL_CONTROL_IN_VALUE = new RegExp(CONTROL_IN_VALUE, 'g')

/** Whether a text is safe as a process argument or environment variable. */
export function isPlainValue(text: string): boolean {
  return !CONTROL_IN_VALUE.test(text)
}

export function withoutControl(text: string): string {
  return text.replace(ALL_CONTROL_IN_VALUE, '')
}

export const PLAIN_VALUE_RULE = 'must not contain control characters other than tab and newline'

export const EnvValue = checkedText((value) => (isPlainValue(value) ? undefined : PLAIN_VALUE_RULE), {
  pattern: '^[^\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f]*$',
})

/** Length limits count code points, not bytes or UTF-16 units. See docs/decisions.md#unknown-fields-and-limits. */
export function codePoints(value: string): number {
  let count = 0
  for (const _ of value) count++
  return count
}

export const Bytes = z.custom<Uint8Array>((value) => value instanceof Uint8Array, 'must be bytes')

/** One line of text without control characters. */
export const line = (max: number) =>
  checkedText(plainFault(max), { minLength: 1, maxLength: max, pattern: `^${PLAIN}+$` })

const contents = z.registry<{ readonly isContent: true }>()

/** Marks a schema as message content: audit rows record only its length. */
export function markContent<S extends z.ZodType>(schema: S): S {
  contents.add(schema, { isContent: true })
  return schema
}

export function containsContent(schema: z.core.$ZodType): boolean {
  if (contents.get(schema)) return true
  return partsOf(schema).some(containsContent)
}

function partsOf(schema: z.core.$ZodType): readonly z.core.$ZodType[] {
  if (schema instanceof z.ZodObject) return Object.values(schema.shape)
  if (schema instanceof z.ZodArray) return [schema.element]
  if (schema instanceof z.ZodRecord) return [schema.valueType]
  if (schema instanceof z.ZodUnion) return schema.options
  if (schema instanceof z.ZodPipe) return [schema.in, schema.out]
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault)
    return [schema.unwrap()]
  return []
}

/** Multi-line text, marked as content. PostgreSQL cannot store NUL. */
export const multilineText = (max: number) =>
  markContent(
    checkedText(
      (value) => {
        if (codePoints(value) > max) return `is longer than ${max} characters`
        if (value.includes('\u0000')) return 'must not contain a NUL character'
        return undefined
      },
      { maxLength: max, pattern: '^[^\\u0000]*$' },
    ),
  )

/** Bytes as text in base64. */
export const base64Bytes = (max: number) =>
  markContent(
    checkedText((value) => {
      if (value.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(value)) return 'must be base64'
      return Buffer.byteLength(value, 'base64') > max ? `must be at most ${max} bytes` : undefined
    }),
  )

export const nonBlankText = (max: number) =>
  multilineText(max)
    .refine((value) => value.trim() !== '', 'must not be empty')
    .meta({ minLength: 1, pattern: '^[^\\u0000]*[^\\s\\u0000][^\\u0000]*$' })

export const MessageText = nonBlankText(65_536)

export const FOLDER_SHAPE = {
  minLength: 1,
  maxLength: 255,
  pattern: `^${SEGMENT}(/${SEGMENT}){0,7}$`,
  not: { pattern: '(^|/)(share|gated\\.sock)(/|$)' },
}

export const Folder = checkedText(folderFault, FOLDER_SHAPE).describe('Folder path of a group, such as team/support')

function folderGlobFault(value: string): string | undefined {
  if (value === '' || value.length > 255) return 'must be a folder or a folder glob of 1 to 255 characters'
  // Characters of folder names and of globs only: any other could match no folder.
  if (!/^[A-Za-z0-9._/*?[\]!^\\-]+$/.test(value) || !compileSegments(value)) return 'is not a folder glob'
  const plain = value.split('/').filter((segment) => !isGlob(segment))
  const fault = plain.length ? folderFault(plain.join('/')) : undefined
  return fault === undefined ? undefined : `has a segment that ${fault}`
}

export const FolderGlob = checkedText(folderGlobFault, {
  minLength: 1,
  maxLength: 255,
  pattern: '^[A-Za-z0-9._/*?[\\]!^\\\\-]+$',
  format: 'folder-glob',
})

/** A folder, or '' for the instance's root. */
export const FolderOrRoot = checkedText((value) => (value === '' ? undefined : folderFault(value)), {
  ...FOLDER_SHAPE,
  minLength: 0,
  pattern: `^(${SEGMENT}(/${SEGMENT}){0,7})?$`,
})

export const Jid = checkedText(
  (value) => {
    if (!/^[a-z][a-z0-9_-]*:.+$/s.test(value)) return 'must look like platform:room'
    return plainFault(512)(value)
  },
  { maxLength: 512, pattern: `^[a-z][a-z0-9_-]*:${PLAIN}+$` },
).describe('Name of a chat, such as web:team or discord:1/2')

/** A chat, or a bare folder for messages within the instance. */
export const ChatName = checkedText((value) => {
  if (value.includes(':')) return Jid.safeParse(value).success ? undefined : 'must look like platform:room'
  return folderFault(value)
}).describe('Name of a chat, such as web:team or discord:1/2, or a bare folder')

export const Timestamp = z.iso.datetime({
  offset: true,
  error: 'must be an RFC 3339 time, such as 2026-01-31T08:00:00Z',
})

export const SecretKey = checkedText(
  (value) => {
    if (!/^[A-Z][A-Z0-9_]*$/.test(value)) return 'must match ^[A-Z][A-Z0-9_]*$, such as API_KEY'
    return value.length > 128 ? 'is longer than 128 characters' : undefined
  },
  { minLength: 1, maxLength: 128, pattern: '^[A-Z][A-Z0-9_]*$' },
)

/** `jid_suffix` and `source_label`. */
export const LabelSegment = patternText(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, "_" or "-"', {
  minLength: 1,
  maxLength: 64,
})

export const SUB_SHAPE = {
  maxLength: 256,
  pattern: '^[A-Za-z][A-Za-z0-9_-]*:[^\\s:\\u0000-\\u001f\\u007f][^\\u0000-\\u001f\\u007f]*$',
}

/** The subject of an account: `<provider>:<id>`. */
export const Sub = checkedText((value) => {
  if (!/^[A-Za-z][A-Za-z0-9_-]*:[^\s:].*$/s.test(value)) return 'must look like provider:id, such as github:42'
  return plainFault(256)(value)
}, SUB_SHAPE)

/** The last label of an IPv4 address, in decimal, octal or hexadecimal. No top-level domain is a number. */
const NUMERIC_LABEL = /^(?:\d+|0x[0-9a-f]*)$/

/** For network rules. The caller has already lower-cased the host and removed a trailing dot. */
export function hostFault(host: string): string | undefined {
  if (host === '') return 'must not be empty'
  if (/[\u0000-\u0020\u007f-\u009f]/.test(host)) return 'must not contain spaces or control characters'
  if (isAddress(host)) return 'must be a host name, not an IP address'
  if (host.includes('/')) return 'must be a host name, not a URL'
  if (host.includes('*')) return 'must not contain a wildcard: a host already covers its subdomains'
  if (host.includes(':')) return 'must not contain a port'
  if (host.length > 253) return 'is longer than 253 characters'
  const label = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/
  if (!host.split('.').every((part) => label.test(part))) {
    return /[^\u0000-\u007f]/.test(host)
      ? 'must be in its ASCII form (xn--…)'
      : 'must be labels of letters, digits and "-" joined by "."'
  }
  return undefined
}

/** Any spelling that some resolver accepts: `127.1`, `0x7f000001`, `::1`, `[::1]:443`, with or without port or prefix length. */
function isAddress(host: string): boolean {
  if (/^\[|^[0-9a-f]*:[0-9a-f]*:/.test(host)) return true
  const [name = ''] = host.split(/[:/]/, 1)
  return NUMERIC_LABEL.test(name.slice(name.lastIndexOf('.') + 1))
}

export const HostName = z
  .string()
  // ASCII only: `toLowerCase` would turn the Kelvin sign into a plain k.
  .transform((value) => value.replace(/[A-Z]+/g, (letters) => letters.toLowerCase()).replace(/\.$/, ''))
  .superRefine(refineBy(hostFault))
  .describe('Host name; its subdomains are covered too')

/** A page size outside 1..max is clamped, not rejected. */
export const pageLimit = (initial: number, max: number) =>
  z
    .number()
    .refine(Number.isInteger, 'must be a whole number')
    .transform((value) => Math.min(Math.max(value, 1), max))
    .default(initial)
    .meta({
      type: 'integer',
      minimum: 1,
      maximum: max,
      description: `Page size; values outside 1 to ${max} are clamped`,
    })

/** JSON text with a value of this schema, for tools whose argument is text where the verb takes an object. */
export function jsonText<S extends z.ZodType>(schema: S) {
  return z
    .string()
    .transform((value, ctx): unknown => {
      const read = tryParseJson(value)
      if (read !== undefined) return read
      ctx.addIssue({ code: 'custom', message: findJsonError(value) ?? 'must be JSON' })
      return z.NEVER
    })
    .pipe(schema)
}
