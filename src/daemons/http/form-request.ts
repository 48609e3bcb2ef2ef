// Forms of our pages: same-origin check, CSRF token and parsing.
import type { Context } from 'hono'
import { readBodyBytes } from '../../lib/http/http.ts'
import { refuse } from '../../lib/refusal.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { requestSource } from './request-source.ts'
import { isFormToken } from './session-cookie.ts'

const FORM_MAX = 64 * 1024

/** Fields of a form. A field that is given twice is refused. */
export type FormFields = ReadonlyMap<string, string>

/** Refuses requests of other sites before it reads the body. Browsers send Origin with every form. */
export function mustBeOwnOriginForm({ webBase }: Pick<InstanceHost, 'webBase'>, c: Context): void {
  const [origin, host, site] = [c.req.header('Origin'), c.req.header('Host'), c.req.header('Sec-Fetch-Site')]
  const isOwn = requestSource({ webBase }, { origin, host, 'sec-fetch-site': site }) === 'own'
  if (!isOwn) refuse('forbidden', 'this form was sent from another site', 'open the page on this server and try again')
}

/** A file that a form has sent. */
export interface FormFile {
  /** As the person's machine has it. */
  readonly name: string
  readonly bytes: Uint8Array
}

export function isMultipart(c: Context): boolean {
  return /^multipart\/form-data\b/i.test(c.req.header('Content-Type') ?? '')
}

/** A form that may have files. */
export async function readFormWithFiles(
  c: Context,
  maxBytes: number,
): Promise<{ readonly fields: FormFields; readonly files: ReadonlyMap<string, FormFile> }> {
  if (!isMultipart(c)) return { fields: await readForm(c, maxBytes), files: new Map() }
  const headers = { 'Content-Type': c.req.header('Content-Type') ?? '' }
  const body = new Response(Buffer.from(await readBodyBytes(c.req.raw, maxBytes)), { headers })
  const form = await body.formData().catch(() => refuse('invalid', 'the form cannot be read'))
  const texts = new URLSearchParams()
  const files = new Map<string, FormFile>()
  for (const [name, value] of form) {
    if (typeof value === 'string') texts.append(name, value)
    // A browser sends an empty file for a field without one.
    else if (value.name !== '' || value.size > 0) files.set(name, { name: value.name, bytes: await value.bytes() })
  }
  return { fields: parseFormFields(texts), files }
}

export async function readForm(c: Context, maxBytes: number = FORM_MAX): Promise<FormFields> {
  const type = c.req.header('Content-Type') ?? ''
  if (!/^application\/x-www-form-urlencoded\b/i.test(type))
    refuse('wrong_type', 'a form must be sent as application/x-www-form-urlencoded')
  return parseFormFields(new URLSearchParams(Buffer.from(await readBodyBytes(c.req.raw, maxBytes)).toString()))
}

/** Fields of a form or of a query. */
export function parseFormFields(parameters: URLSearchParams): FormFields {
  const fields = new Map<string, string>()
  for (const [name, value] of parameters) {
    if (fields.has(name)) refuse('invalid', `the field ${JSON.stringify(name.slice(0, 40))} is given twice`)
    fields.set(name, value)
  }
  return fields
}

/** Reads a form that a page of `session` has sent. */
export async function readSessionForm(
  host: InstanceHost,
  c: Context,
  session: string,
  maxBytes?: number,
): Promise<FormFields> {
  mustBeOwnOriginForm(host, c)
  const fields = await readForm(c, maxBytes)
  if (!isFormToken(host, session, fields.get('csrf')))
    refuse('forbidden', 'this form has expired', 'reload the page and try again')
  return fields
}
