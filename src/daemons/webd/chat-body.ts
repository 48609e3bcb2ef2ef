// What a POST to a chat holds (decision L8): JSON or a form when the content type says so, else the body itself.
import { z } from 'zod'
import { Topic } from '../../core/messages.ts'
import { contentType, utf8 } from '../../lib/http.ts'
import { parseJson } from '../../lib/json.ts'
import { parse } from '../../lib/parse.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { LINK_VALUES } from './body.ts'

export interface Spoken {
  readonly content: Uint8Array
  readonly topic: string | null
  readonly content_type: string | null
}

const Said = z.object({ topic: Topic })
const PLAIN = 'text/plain; charset=utf-8'

/** `isHook`: a machine's JSON without `content` is not meant for us, and is the message as it stands. */
export function readChatBody(body: Uint8Array, header: string | undefined, isHook: boolean): Spoken {
  const { type, charset } = contentType(header ?? '')
  const isJson = type === 'application/json'
  if (!isJson && type !== 'application/x-www-form-urlencoded') return opaque(body, header)
  if (!isHook && charset !== 'utf-8') refuse('wrong_type', `the body must be in UTF-8, not in ${charset}`)
  try {
    return readSaid(isJson ? jsonMembers(body) : formMembers(body))
  } catch (error) {
    if (isHook && error instanceof Refusal) return opaque(body, header)
    throw error
  }
}

/** What a header says of the content, if it can be kept as text. */
export function keptType(header: string | undefined): string | null {
  return header !== undefined && /^[\x20-\x7e]{1,255}$/.test(header) ? header : null
}

function opaque(content: Uint8Array, header: string | undefined): Spoken {
  if (content.byteLength === 0) refuse('invalid', 'content must not be empty')
  return { content, topic: null, content_type: keptType(header) }
}

function jsonMembers(body: Uint8Array): { content: unknown; topic: unknown } {
  const value = parseJson(utf8(body), LINK_VALUES)
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    refuse('invalid', 'the body must be a JSON object with the member content')
  const own = (name: string): unknown => (Object.hasOwn(value, name) ? Reflect.get(value, name) : undefined)
  return { content: own('content'), topic: own('topic') }
}

/** Of a field that is sent twice the first counts. */
function formMembers(body: Uint8Array): { content: unknown; topic: unknown } {
  const fields = new URLSearchParams(utf8(body))
  return { content: fields.get('content') ?? undefined, topic: fields.get('topic') ?? undefined }
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
