// What a POST to a chat holds (decision L8): JSON or a form of either kind when the content type says so, else the body
// itself.
import { z } from 'zod'
import { Topic } from '../../core/messages.ts'
import { contentType, utf8 } from '../../lib/http.ts'
import { type FormPart, parseMultipart } from '../../lib/multipart.ts'
import { parse } from '../../lib/parse.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { LINK_VALUES, linkJson } from './body.ts'

export interface Spoken {
  readonly content: Uint8Array
  readonly topic: string | null
  readonly content_type: string | null
}

const Said = z.object({ topic: Topic })
const PLAIN = 'text/plain; charset=utf-8'

interface Members {
  readonly content: unknown
  readonly topic: unknown
}

/** How a body of this type is read; none for what is the message itself. */
const READERS: Readonly<Record<string, (body: Uint8Array, header: string) => Members>> = {
  'application/json': jsonMembers,
  'application/x-www-form-urlencoded': formMembers,
  'multipart/form-data': multipartMembers,
}

/** `isHook`: what a machine sends without `content` is not meant for us, and is the message as it stands. */
export function readChatBody(body: Uint8Array, header: string | undefined, isHook: boolean): Spoken {
  const { type, charset } = contentType(header ?? '')
  const read = Object.hasOwn(READERS, type) ? READERS[type] : undefined
  if (!read) return opaque(body, header, isHook)
  if (!isHook && charset !== 'utf-8') refuse('wrong_type', `the body must be in UTF-8, not in ${charset}`)
  try {
    return readSaid(read(body, header ?? ''))
  } catch (error) {
    if (isHook && error instanceof Refusal && !(error instanceof FileRefusal)) return opaque(body, header, isHook)
    throw error
  }
}

/** What a header says of the content, if it can be kept as text. */
export function keptType(header: string | undefined): string | null {
  return header !== undefined && /^[\x20-\x7e]{1,255}$/.test(header) ? header : null
}

/** A machine may have nothing to say but that something happened. */
function opaque(content: Uint8Array, header: string | undefined, isHook: boolean): Spoken {
  if (content.byteLength === 0 && !isHook) refuse('invalid', 'content must not be empty')
  return { content, topic: null, content_type: keptType(header) }
}

function jsonMembers(body: Uint8Array): Members {
  const value = linkJson(body)
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    refuse('invalid', 'the body must be a JSON object with the member content')
  const own = (name: string): unknown => (Object.hasOwn(value, name) ? Reflect.get(value, name) : undefined)
  return { content: own('content'), topic: own('topic') }
}

/** Of a field that is sent twice the first counts. */
function formMembers(body: Uint8Array): Members {
  const fields = new URLSearchParams(utf8(body))
  return { content: fields.get('content') ?? undefined, topic: fields.get('topic') ?? undefined }
}

/** A message with a file: refused to machines, too, because the file would be lost. */
class FileRefusal extends Refusal {}

function multipartMembers(body: Uint8Array, header: string): Members {
  const parts = parseMultipart(body, header, LINK_VALUES)
  const field = (name: string): string | undefined => {
    const part = parts.find((one) => one.name === name && !one.isFile)
    return part && textOfField(part)
  }
  const members = { content: field('content'), topic: field('topic') }
  if (!parts.some(({ isFile }) => isFile)) return members
  const Refused = members.content === undefined ? Refusal : FileRefusal
  throw new Refused('wrong_type', 'this link takes no files', 'send text alone, in the field content')
}

function textOfField({ name, content, headers }: FormPart): string {
  const { charset } = contentType(headers.get('content-type') ?? '')
  const coding = headers.get('content-transfer-encoding')
  if (charset !== 'utf-8') refuse('wrong_type', `the field ${name} must be in UTF-8, not in ${charset}`)
  if (coding !== undefined && !/^(7bit|8bit|binary)\s*$/i.test(coding))
    refuse('wrong_type', `the field ${name} must not have a Content-Transfer-Encoding`)
  return utf8(content)
}

/** The two members of a message, wherever they were written. */
export function readSaid({ content, topic }: { content: unknown; topic?: unknown }): Spoken {
  if (content === undefined) refuse('invalid', 'content is required')
  if (typeof content !== 'string') refuse('invalid', 'content must be a string')
  if (!/\S/.test(content)) refuse('invalid', 'content must not be empty')
  return { content: Buffer.from(content), topic: readTopic(topic), content_type: PLAIN }
}

/** Absent or empty: the main topic. */
export function readTopic(topic: unknown): string | null {
  if (topic === undefined || topic === null || topic === '') return null
  return parse(Said, { topic }).topic
}
