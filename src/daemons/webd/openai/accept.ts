// Reads a request for an answer, finds its topic, and appends its message like any post of a link.
import { fitClientContext } from '../../../core/messages/client-context.ts'
import type { EarlierMessage } from '../../../core/messages/messages.ts'
import { findResentTopic, hasTopicMessages } from '../../../core/turns/resent-conversations.ts'
import { findRound } from '../../../core/turns/rounds.ts'
import { contentType, utf8 } from '../../../lib/http/http.ts'
import { refuse } from '../../../lib/refusal.ts'
import { isObject, parseJson } from '../../../lib/text/json.ts'
import type { Tx } from '../../../store/engine.ts'
import { ParamRefusal } from '../../http/openai-errors.ts'
import type { CachedLink } from '../link-cache.ts'
import { appendWithFiles, type LinkPostContext } from '../link-post.ts'
import type { LinkRequest } from '../link-request.ts'
import { type BodyBudget, mustBeWithinLimit, readBody, tooLarge } from '../request-body.ts'
import { postingVisitor } from '../visitor-key.ts'
import type { AnswerHead } from './answer-form.ts'
import { type ConversationScope, digesterOfAnswer, digestOfHistory, digestOfRequest } from './request-digest.ts'
import { storeRequestFiles } from './request-files.ts'
import { encodeTopic, type OpenaiMessage, type OpenaiRequest } from './request-parser.ts'

const BODY_MAX = 8 * 1024 * 1024
/** A message of a history has three. */
const VALUES_MAX = 50_000
/** A client that got no answer tries again within this time. */
const REPEAT_MS = 60_000

export interface AcceptContext extends LinkPostContext {
  /** Of bodies at this interface, which are larger than those of other posts. */
  readonly largeBodies: BodyBudget
}

export type BodyParser = (body: Readonly<Record<string, unknown>>, topic: string | undefined) => OpenaiRequest

export interface ReadRequest {
  readonly body: OpenaiRequest
  /** Call when the message is stored. */
  release(): void
}

export interface AcceptedRequest {
  readonly head: AnswerHead
  readonly isStream: boolean
  readonly headers: { readonly [name: string]: string }
  /** What the conversation will be known by with this answer. */
  readonly digestWith: (answer: string) => Uint8Array
}

export async function readRequest(
  { largeBodies }: AcceptContext,
  request: LinkRequest,
  parseBody: BodyParser,
): Promise<ReadRequest> {
  const { type, charset } = contentType(request.header('content-type') ?? '')
  if (type !== 'application/json' || charset !== 'utf-8') refuse('wrong_type', 'the body must be JSON in UTF-8')
  mustBeWithinLimit(request.incoming, BODY_MAX)
  const bytes = await readBody(request, BODY_MAX, largeBodies)
  const release = (): void => largeBodies.release(bytes.byteLength)
  try {
    const value = parseJson(utf8(bytes).replace(/^\ufeff/, ''), VALUES_MAX)
    if (!isObject(value)) refuse('invalid', 'the body must be a JSON object')
    return { body: parseBody(value, request.header('x-topic')), release }
  } catch (error) {
    release()
    throw error
  }
}

/** The rate of the link is charged already. */
export async function acceptRequest(
  context: AcceptContext,
  request: LinkRequest,
  link: CachedLink,
  body: OpenaiRequest,
): Promise<AcceptedRequest> {
  const { host, bodyMax } = context
  const visitor = postingVisitor(host, request, link)
  const { part } = visitor
  const scope = { link: link.hash, jid: link.jid + (part ?? '') }
  const content = Buffer.from(body.last.text)
  if (content.byteLength > bodyMax()) throw tooLarge(bodyMax())
  const found = await host.engine.read((tx) => findTopic(tx, body, { ...scope, link, id: request.id }))
  const { system, history, rest, hasUsage, isStream, previousId } = body
  const earlier = [...(found.isKnown ? [] : history), ...rest].map(showEarlier)
  const client_context = fitClientContext({ system, history: earlier })
  const message = { content, topic: found.topic, content_type: 'text/plain; charset=utf-8', client_context }
  const digest = digestOfRequest(body, scope)
  const key = { text: `openai ${Buffer.from(digest).toString('hex')}`, digest, isStrict: false, ttlMs: REPEAT_MS }
  const files = await storeRequestFiles(context, link, body.last.files, part ?? '')
  const options = { message, visitor: part, hasRound: true, bodyHash: () => digest, key, files, isCharged: true }
  const { id, created_at } = await appendWithFiles(context, request, link, options)
  const topic = id === request.id ? found.topic : await readTopicOf(context, id)
  const created = Math.floor(Date.parse(created_at) / 1000)
  return {
    head: { round: id, model: link.folder ?? link.jid, created, topic, previousId, hasUsage },
    isStream,
    headers: { ...visitor.headers, 'X-Topic': encodeTopic(topic) },
    digestWith: digesterOfAnswer(body, scope),
  }
}

/** Of an equal request that was accepted before. */
async function readTopicOf({ host }: AcceptContext, id: string): Promise<string | null> {
  return (await host.engine.read((tx) => findRound(tx, id)))?.topic ?? null
}

interface TopicScope extends Omit<ConversationScope, 'link'> {
  readonly link: CachedLink
  /** Name of a new topic. */
  readonly id: string
}

/** `isKnown`: whether the agent has its history. */
async function findTopic(
  tx: Tx,
  request: OpenaiRequest,
  { jid, link, id }: TopicScope,
): Promise<{ readonly topic: string | null; readonly isKnown: boolean }> {
  const { choice } = request
  switch (choice.kind) {
    case 'named': {
      const { topic } = choice
      return { topic, isKnown: topic === null || (await hasTopicMessages(tx, jid, topic)) }
    }
    case 'previous':
    case 'referred': {
      const round = await findRound(tx, choice.round, jid)
      const isOwn = round && (round.target_folder === undefined || round.target_folder === link.folder)
      if (isOwn) return { topic: round.topic ?? null, isKnown: true }
      if (choice.kind === 'referred')
        throw new ParamRefusal('input', `there is no item msg_${choice.round} in this chat`, { code: 'not_found' })
      const codes = { code: 'not_found', openaiCode: 'previous_response_not_found' } as const
      throw new ParamRefusal('previous_response_id', 'there is no such response in this chat', codes)
    }
    case 'resent': {
      const digest = digestOfHistory(request, { link: link.hash, jid })
      const topic = digest && (await findResentTopic(tx, jid, digest))
      return topic === undefined ? { topic: id, isKnown: false } : { topic, isKnown: true }
    }
  }
}

/** Files of earlier messages are not stored again. */
function showEarlier({ role, text, files }: OpenaiMessage): EarlierMessage {
  const names = files.map(({ name }) => `[${name ?? 'file'}]`)
  return { role, content: [text, ...names].filter((part) => part !== '').join('\n') }
}
