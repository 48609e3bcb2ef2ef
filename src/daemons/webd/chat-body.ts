// Parses the body of a POST to a chat: JSON or a form by its Content-Type, otherwise the body is the message.
// See docs/decisions.md#request-bodies.
import { z } from 'zod'
import { fitClientContext } from '../../core/messages/client-context.ts'
import { type ClientContext, Topic } from '../../core/messages/messages.ts'
import { contentType, utf8 } from '../../lib/http/http.ts'
import { type FormPart, parseMultipart } from '../../lib/http/multipart.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { parse } from '../../lib/text/schema-parser.ts'
import { readMetadata } from '../../web/text/metadata.ts'
import { LINK_JSON_VALUES_MAX, parseLinkJson } from './request-body.ts'

export interface MessageInput {
  readonly content: Uint8Array
  readonly topic: string | null
  readonly content_type: string | null
  /** Message that it replaces in a new branch. If the content is empty, that of this message is used. */
  readonly branch_of?: string | undefined
  /** Sent beside the message. */
  readonly client_context?: ClientContext | undefined
}

const TopicInput = z.object({ topic: Topic })
const PLAIN = 'text/plain; charset=utf-8'

interface MessageFields {
  readonly content: unknown
  readonly topic: unknown
  readonly branch_of: unknown
  /** What the page around the chat says about the visitor: an object, or its JSON in a form. */
  readonly metadata: unknown
}

const PARSERS: Readonly<Record<string, (body: Uint8Array, header: string) => MessageFields>> = {
  'application/json': jsonFields,
  'application/x-www-form-urlencoded': formFields,
  'multipart/form-data': multipartFields,
}

/** `isHook`: a webhook's body that does not parse as a message is stored as it came. */
export function readChatBody(body: Uint8Array, header: string | undefined, isHook: boolean): MessageInput {
  const { type, charset } = contentType(header ?? '')
  const parseBody = Object.hasOwn(PARSERS, type) ? PARSERS[type] : undefined
  if (!parseBody) {
    if (body.byteLength === 0 && !isHook) refuse('invalid', 'content must not be empty')
    return rawMessage(body, header)
  }
  if (!isHook) mustBeUtf8(charset)
  try {
    const fields = parseBody(body, header ?? '')
    return isHook ? readMessageInput(fields) : readChatMessage(fields)
  } catch (error) {
    if (isHook && error instanceof Refusal && !(error instanceof FileRefusal)) return rawMessage(body, header)
    throw error
  }
}

function mustBeUtf8(charset: string): void {
  if (charset !== 'utf-8') refuse('wrong_type', `the body must be in UTF-8, not in ${charset}`)
}

/** Whether a chat link receives the body as an upload. */
export function isForm(header: string | undefined): header is string {
  const { type, charset } = contentType(header ?? '')
  if (type !== 'multipart/form-data') return false
  mustBeUtf8(charset)
  return true
}

/** A Content-Type that can be stored as text. */
export function storableContentType(header: string | undefined): string | null {
  return header !== undefined && /^[\x20-\x7e]{1,255}$/.test(header) ? header : null
}

/** The body as the message. It may be empty: some webhooks only report that something happened. */
export function rawMessage(content: Uint8Array, header: string | undefined): MessageInput {
  return { content, topic: null, content_type: storableContentType(header) }
}

function jsonFields(body: Uint8Array): MessageFields {
  const value = parseLinkJson(body)
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    refuse('invalid', 'the body must be a JSON object with the field content')
  const own = (name: string): unknown => (Object.hasOwn(value, name) ? Reflect.get(value, name) : undefined)
  return {
    content: own('content'),
    topic: own('topic'),
    branch_of: own('branch_of'),
    metadata: own('metadata'),
  }
}

/** The first of two fields with the same name counts. */
function formFields(body: Uint8Array): MessageFields {
  const fields = new URLSearchParams(utf8(body))
  const field = (name: string): string | undefined => fields.get(name) ?? undefined
  return fieldsOf(field)
}

/** Of a form. */
function fieldsOf(field: (name: string) => string | undefined): Record<keyof MessageFields, string | undefined> {
  return {
    content: withLineFeeds(field('content')),
    topic: field('topic'),
    branch_of: field('branch_of'),
    metadata: field('metadata'),
  }
}

/** A message with a file: refused to webhooks too, because the file would be lost. */
class FileRefusal extends Refusal {}

/** At the chat URL of a webhook; `upload.ts` receives the forms of chat links. */
function multipartFields(body: Uint8Array, header: string): MessageFields {
  const parts = parseMultipart(body, header, LINK_JSON_VALUES_MAX)
  const fields = fieldsOfParts(parts)
  if (!parts.some(({ isFile }) => isFile)) return fields
  const Refused = fields.content === undefined ? Refusal : FileRefusal
  throw new Refused('wrong_type', 'this link does not accept files', 'send only text, in the field content')
}

function fieldsOfParts(parts: readonly FormPart[]): Record<keyof MessageFields, string | undefined> {
  const field = (name: string): string | undefined => {
    const part = parts.find((candidate) => candidate.name === name && !candidate.isFile)
    return part && textOfField(part)
  }
  return fieldsOf(field)
}

/** Browsers end the lines of a field with CRLF. */
function withLineFeeds(text: string | undefined): string | undefined {
  return text?.replaceAll('\r\n', '\n')
}

/** The message in a form of a chat link. Beside files it may be empty. */
export function readFormMessage(texts: readonly FormPart[], hasFiles: boolean): MessageInput {
  const fields = fieldsOfParts(texts)
  const { content = '', topic, branch_of, metadata } = fields
  if (!hasFiles || /\S/.test(content)) return readChatMessage(fields)
  const beside = { ...branchMember(branch_of), ...contextMember(metadata) }
  return { content: new Uint8Array(), topic: readTopic(topic), content_type: PLAIN, ...beside }
}

function readChatMessage({ branch_of, metadata, ...fields }: MessageFields): MessageInput {
  const message = branch_of === undefined ? readMessageInput(fields) : readBranchInput(fields, branch_of)
  return { ...message, ...contextMember(metadata) }
}

function contextMember(given: unknown): Pick<MessageInput, 'client_context'> {
  if (given === undefined || given === null || given === '') return {}
  const value = typeof given === 'string' ? parseLinkJson(Buffer.from(given)) : given
  const read = readMetadata(value)
  if ('fault' in read) return refuse(read.isTooLarge ? 'too_large' : 'invalid', read.fault)
  return { client_context: fitClientContext(read) }
}

function textOfField({ name, content, headers }: FormPart): string {
  const { charset } = contentType(headers.get('content-type') ?? '')
  const coding = headers.get('content-transfer-encoding')
  if (charset !== 'utf-8') refuse('wrong_type', `the field ${name} must be in UTF-8, not in ${charset}`)
  if (coding !== undefined && !/^(7bit|8bit|binary)\s*$/i.test(coding))
    refuse('wrong_type', `the field ${name} must not have a Content-Transfer-Encoding`)
  return utf8(content)
}

/** Validates the fields of a message from a body or a tool call. */
export function readMessageInput({ content, topic }: { content: unknown; topic?: unknown }): MessageInput {
  if (content === undefined) refuse('invalid', 'content is required')
  if (typeof content !== 'string') refuse('invalid', 'content must be a string')
  if (!/\S/.test(content)) refuse('invalid', 'content must not be empty')
  return { content: Buffer.from(content), topic: readTopic(topic), content_type: PLAIN }
}

function readBranchInput(
  { content, topic }: Pick<MessageFields, 'content' | 'topic'>,
  branch_of: unknown,
): MessageInput {
  const member = branchMember(branch_of)
  if (content !== undefined) return { ...readMessageInput({ content, topic }), ...member }
  return { content: new Uint8Array(), topic: readTopic(topic), content_type: null, ...member }
}

function branchMember(branch_of: unknown): Pick<MessageInput, 'branch_of'> {
  if (branch_of === undefined) return {}
  if (typeof branch_of !== 'string' || !/^[0-9a-f-]{36}$/.test(branch_of))
    refuse('invalid', 'branch_of must be the id of a message')
  return { branch_of }
}

/** Null is the main topic, as is an absent or empty one. */
export function readTopic(topic: unknown): string | null {
  if (topic === undefined || topic === null || topic === '') return null
  return parse(TopicInput, { topic }).topic
}
