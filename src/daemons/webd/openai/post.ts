// Answers a request when its round ends, or as the text is written. Before the message is stored a fault is an error status;
// afterwards it is part of the answer, so that no client runs the agent again.
import { keepResendDigest, readTokensOfRound } from '../../../core/turns/resent-conversations.ts'
import { clientNetwork } from '../../../lib/http/client-network.ts'
import { SSE_COMMENT, SSE_CONTENT_TYPE } from '../../../lib/http/sse-writer.ts'
import type { OpenaiError } from '../../http/openai-errors.ts'
import { roundFeed } from '../event-feeds.ts'
import type { CachedLink } from '../link-cache.ts'
import { countRefusal } from '../link-post.ts'
import { chargeRate } from '../link-rate.ts'
import type { LinkRequest } from '../link-request.ts'
import type { StreamGuard, Streams } from '../streams.ts'
import {
  type AcceptContext,
  type AcceptedRequest,
  acceptRequest,
  type BodyParser,
  type ReadRequest,
  readRequest,
} from './accept.ts'
import type { AnswerEnd, AnswerForm } from './answer-form.ts'
import { type AnswerOutcome, openAnswerReader } from './answer-reader.ts'
import { AnswerText } from './answer-text.ts'

export interface OpenaiContext extends AcceptContext {
  readonly streams: Streams
}

export interface AnswerEndpoint {
  readonly parse: BodyParser
  readonly form: AnswerForm
}

export interface AnsweringChat {
  readonly link: CachedLink
  readonly guard: StreamGuard | undefined
  /** The start of the URLs of files. */
  readonly filesUrl: string
}

/** Without the body of the request: an answer may take hours. */
export interface Exchange {
  readonly context: OpenaiContext
  readonly request: LinkRequest
  readonly chat: AnsweringChat
  readonly form: AnswerForm
  readonly accepted: AcceptedRequest
}

interface GivenPost {
  readonly endpoint: AnswerEndpoint
  readonly chat: AnsweringChat
  /** Set if the request is read already. */
  readonly read?: ReadRequest
}

export async function acceptPost(
  context: OpenaiContext,
  request: LinkRequest,
  { endpoint: { parse, form }, chat, read }: GivenPost,
): Promise<Exchange> {
  const accepted = await accept(context, request, { parse, link: chat.link, given: read }).catch(async (error) => {
    throw await countRefusal(context, chat.link, error)
  })
  return { context, request, chat, form, accepted }
}

export async function sendAnswer(exchange: Exchange): Promise<void> {
  if (exchange.accepted.isStream) await sendStream(exchange)
  else await sendWhole(exchange)
}

interface UnreadPost {
  readonly parse: BodyParser
  readonly link: CachedLink
  readonly given: ReadRequest | undefined
}

async function accept(
  context: OpenaiContext,
  request: LinkRequest,
  { parse, link, given }: UnreadPost,
): Promise<AcceptedRequest> {
  try {
    // Also for a request that is refused in the end: a large body takes time that other links need.
    chargeRate(link, context.host.clock.now())
    context.streams.mustHaveCapacity(link.key, clientNetwork(request.client))
  } catch (error) {
    given?.release()
    throw error
  }
  const { body, release } = given ?? (await readRequest(context, request, parse))
  try {
    return await acceptRequest(context, request, link, body)
  } finally {
    release()
  }
}

async function sendStream(exchange: Exchange): Promise<void> {
  const { request, form, accepted } = exchange
  const { response } = request
  const events = form.stream(accepted.head)
  request.startStream({ ...accepted.headers, 'Content-Type': SSE_CONTENT_TYPE, 'X-Accel-Buffering': 'no' })
  response.write(events.start())
  const write = (text: string): Promise<void> | undefined => {
    if (response.write(text)) return undefined
    return new Promise((resolve) => response.once('drain', resolve))
  }
  const ended = await readAnswer(exchange, (added) => write(added === undefined ? SSE_COMMENT : events.text(added)))
  if (response.destroyed) return
  response.end('end' in ended ? events.end(ended.end) : events.fail(ended.error, ended.text))
}

async function sendWhole(exchange: Exchange): Promise<void> {
  const { request, form, accepted } = exchange
  const { head, headers } = accepted
  const ended = await readAnswer(exchange)
  if ('end' in ended) return request.sendJson(200, form.body(head, ended.end), headers)
  const { status, error } = ended
  // After 503 an equal request waits for the same answer.
  const retry: { [name: string]: string } = status === 503 ? { 'Retry-After': '1' } : { 'X-Should-Retry': 'false' }
  request.sendJson(status, { error }, { ...headers, ...retry })
}

type AnswerResult =
  | { readonly end: AnswerEnd }
  | { readonly status: number; readonly error: OpenaiError; readonly text: string }

/** `send` gets the text that was added; undefined keeps the connection open. */
async function readAnswer(
  { context, request, chat, accepted }: Exchange,
  send?: (added: string | undefined) => Promise<void> | undefined,
): Promise<AnswerResult> {
  const { host, streams } = context
  const { link, guard, filesUrl } = chat
  const { response } = request
  const { round } = accepted.head
  const text = new AnswerText((id) => filesUrl + id)
  const { sink, outcome } = openAnswerReader(text, send)
  const stop = host.faults.guard('stream', () => void sink.destroy())
  // The agent goes on: a client that lost its connection sends the request again.
  response.once('close', stop)
  if (response.destroyed) stop()
  const place = { link: { key: link.key, hash: link.hash }, network: clientNetwork(request.client), guard }
  const subscriber = { ...place, response: sink, after: 0, hasDrafts: send !== undefined }
  await streams.subscribe(roundFeed(round), subscriber).catch(host.faults.handler('stream'))
  const result = await outcome
  response.off('close', stop)
  return endAnswer(context, accepted, { text: text.sent, isCut: text.isCut, outcome: result })
}

interface ReadAnswer {
  readonly text: string
  readonly isCut: boolean
  readonly outcome: AnswerOutcome | undefined
}

async function endAnswer(
  { host }: OpenaiContext,
  { head: { round, topic }, digestWith }: AcceptedRequest,
  { text, isCut, outcome }: ReadAnswer,
): Promise<AnswerResult> {
  const isStopped = outcome?.error === 'stopped'
  if (!outcome) {
    const message = 'the connection to the answer ended, and the agent goes on: send the same request again'
    return { status: 503, text, error: { message, type: 'server_error', param: null, code: 'unavailable' } }
  }
  if (outcome.status === 'failed' && !isStopped) {
    const message = outcome.error ?? 'the agent could not answer'
    return { status: 500, text, error: { message, type: 'server_error', param: null, code: 'turn_failed' } }
  }
  const { engine } = host
  const isPartial = isStopped || isCut
  try {
    if (topic !== null && text !== '') await engine.transaction((tx) => keepResendDigest(tx, round, digestWith(text)))
    const tokens = await engine.read((tx) => readTokensOfRound(tx, round))
    return { end: { text, isPartial, tokens } }
  } catch (error) {
    // The answer is complete; the next request starts a topic with the history as data.
    host.faults.report('stream', error)
    return { end: { text, isPartial, tokens: { input: 0, output: 0 } } }
  }
}
