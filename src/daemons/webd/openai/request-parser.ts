// Parses the bodies of both endpoints into one value. Unknown members are ignored: clients send many that mean nothing here.
import type { EarlierMessage } from '../../../core/messages/messages.ts'
import { isObject } from '../../../lib/text/json.ts'
import { refuseParam } from '../../http/openai-errors.ts'
import { readTopic } from '../chat-body.ts'
import { type PartialContent, parseContent } from './content-parts.ts'

export interface OpenaiMessage extends PartialContent {
  readonly role: EarlierMessage['role']
}

/** How the request names its topic. */
export type TopicChoice =
  | { readonly kind: 'named'; readonly topic: string | null }
  | { readonly kind: 'previous'; readonly round: string }
  /** By its last answer, as an item of the input. */
  | { readonly kind: 'referred'; readonly round: string }
  | { readonly kind: 'resent' }

export interface OpenaiRequest {
  readonly model: string | undefined
  readonly isStream: boolean
  /** Whether the stream of chunks ends with one that has the usage. */
  readonly hasUsage: boolean
  readonly user: string
  readonly choice: TopicChoice
  /** Set if it names the topic. */
  readonly previousId: string | undefined
  readonly system: string
  /** Before the message that the agent answers. */
  readonly history: readonly OpenaiMessage[]
  readonly last: OpenaiMessage
  /** Behind the message that the agent answers, such as the beginning of an answer. */
  readonly rest: readonly OpenaiMessage[]
}

type Body = Readonly<Record<string, unknown>>
type RoleOf = OpenaiMessage['role'] | 'system'

const ROLES: Readonly<Record<string, RoleOf>> = {
  ...{ system: 'system', developer: 'system', user: 'user', assistant: 'assistant', tool: 'tool', function: 'tool' },
}
const USER_MAX = 512

interface ParsedMessages {
  /** The member that they are from. */
  readonly param: string
  readonly system: readonly string[]
  readonly messages: readonly OpenaiMessage[]
  readonly referred?: string | undefined
}

/** `topic` is the header X-Topic. */
export function parseChatRequest(body: Body, topic: string | undefined): OpenaiRequest {
  const { messages, n, stream_options: options } = body
  if (n !== undefined && n !== null && n !== 1) refuseParam('n', 'n must be 1: there is one answer')
  if (!Array.isArray(messages)) return refuseParam('messages', 'messages is required, as a list')
  const parsed = { param: 'messages', ...parseMessages(messages, 'messages') }
  return { ...commonMembers(body, topic, parsed), hasUsage: isObject(options) && options.include_usage === true }
}

/** Items of a model's inner work, and references to items, which a client may resend. */
const IGNORED_ITEMS: ReadonlySet<unknown> = new Set(['reasoning', 'item_reference'])

export function parseResponseRequest(body: Body, topic: string | undefined): OpenaiRequest {
  const { input, instructions, background } = body
  if (background === true) refuseParam('background', 'background is not supported: wait for the answer, or stream it')
  const items: unknown = typeof input === 'string' ? [{ role: 'user', content: input }] : input
  if (!Array.isArray(items)) return refuseParam('input', 'input is required, as a string or a list')
  const isIgnored = (item: unknown): boolean => isObject(item) && IGNORED_ITEMS.has(item.type)
  for (const [at, item] of items.entries())
    if (isObject(item) && item.type !== undefined && item.type !== 'message' && !isIgnored(item))
      refuseParam(`input[${at}].type`, `items of type ${JSON.stringify(item.type)} are not supported`)
  const { system, messages } = parseMessages(items, 'input', isIgnored)
  const first = typeof instructions === 'string' ? [instructions] : []
  const parsed = { param: 'input', system: [...first, ...system], messages, referred: findReferredRound(items) }
  return { ...commonMembers(body, topic, parsed), hasUsage: true }
}

const ANSWER_ID = /^msg_([0-9a-f-]{36})$/

/** The round of the answer before the last message, if the client refers to it instead of resending it. */
function findReferredRound(items: readonly unknown[]): string | undefined {
  const at = items.findLastIndex((item) => isObject(item) && item.role === 'user')
  const answer = items
    .slice(0, Math.max(at, 0))
    .findLast((item) => isObject(item) && (item.role === 'assistant' || item.type === 'item_reference'))
  if (!isObject(answer) || answer.type !== 'item_reference' || typeof answer.id !== 'string') return undefined
  return ANSWER_ID.exec(answer.id)?.[1]
}

function parseMessages(
  items: readonly unknown[],
  param: string,
  isIgnored: (item: unknown) => boolean = () => false,
): Pick<ParsedMessages, 'system' | 'messages'> {
  const system: string[] = []
  const messages: OpenaiMessage[] = []
  for (const [at, item] of items.entries()) {
    if (isIgnored(item)) continue
    const path = `${param}[${at}]`
    if (!isObject(item)) return refuseParam(path, `${path} must be an object`)
    const role = typeof item.role === 'string' && Object.hasOwn(ROLES, item.role) ? ROLES[item.role] : undefined
    if (role === undefined)
      return refuseParam(`${path}.role`, `${path}.role must be one of ${Object.keys(ROLES).join(', ')}`)
    const content = parseContent(item.content, `${path}.content`)
    if (role === 'system') system.push(content.text)
    else messages.push({ role, ...content })
  }
  return { system, messages }
}

function commonMembers(body: Body, header: string | undefined, { param, system, messages, referred }: ParsedMessages) {
  const { model, stream, tools, functions, user, conversation, previous_response_id: previous } = body
  for (const [name, given] of Object.entries({ tools, functions }))
    if (Array.isArray(given) && given.length > 0)
      refuseParam(
        name,
        `${name} of the client are not supported: the agent has its own; send the request without ${name}`,
      )
  if (model !== undefined && model !== null && typeof model !== 'string') refuseParam('model', 'model must be a string')
  if (stream !== undefined && stream !== null && typeof stream !== 'boolean')
    refuseParam('stream', 'stream must be true or false')
  if (user !== undefined && user !== null && (typeof user !== 'string' || user.length > USER_MAX))
    refuseParam('user', `user must be a string of at most ${USER_MAX} characters`)
  const at = messages.findLastIndex(({ role }) => role === 'user')
  const last = messages[at]
  if (!last) return refuseParam(param, 'there is no message of the user')
  if (!/\S/.test(last.text) && last.files.length === 0) refuseParam(param, 'the last message of the user is empty')
  const given = typeof previous === 'string' ? previous : undefined
  const named = topicChoice(header, conversation, given)
  const choice = named ?? (referred === undefined ? { kind: 'resent' } : { kind: 'referred', round: referred })
  return {
    model: typeof model === 'string' ? model : undefined,
    isStream: stream === true,
    user: typeof user === 'string' ? user : '',
    choice,
    previousId: choice.kind === 'previous' ? given : undefined,
    system: system.filter((each) => /\S/.test(each)).join('\n\n'),
    history: messages.slice(0, at),
    last,
    rest: messages.slice(at + 1),
  }
}

const ROUND_ID = /^(?:resp_|chatcmpl-)?([0-9a-f-]{36})$/

function topicChoice(
  header: string | undefined,
  conversation: unknown,
  previous: string | undefined,
): TopicChoice | undefined {
  if (header !== undefined) return { kind: 'named', topic: readTopic(decodeTopic(header)) }
  const given = isObject(conversation) ? conversation.id : conversation
  if (given !== undefined && given !== null) {
    if (typeof given !== 'string' || given === '')
      refuseParam('conversation', 'conversation must be the name of a topic')
    return { kind: 'named', topic: readTopic(given) }
  }
  // An id of another form is not found either.
  if (previous !== undefined) return { kind: 'previous', round: ROUND_ID.exec(previous)?.[1] ?? '' }
  return undefined
}

/** A header has only ASCII, so other characters of a topic are written as in a URL. */
export function encodeTopic(topic: string | null): string {
  return (topic ?? '').replace(/[^\x21-\x24\x26-\x7e]+/g, (text) => encodeURIComponent(text.toWellFormed()))
}

function decodeTopic(header: string): string {
  try {
    return decodeURIComponent(header)
  } catch {
    return header
  }
}
