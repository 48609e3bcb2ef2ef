// Requests a completion from an OpenAI-compatible endpoint, reads its stream, and retries after temporary failures.
import { setTimeout as pause } from 'node:timers/promises'
import { trimTrailing } from '../../lib/text/trimming.ts'
import { ANSWER_MAX, oversizedAnswer, RunFault } from '../runtime.ts'
import { LINE_MAX, TextLineSplitter } from '../text-line-splitter.ts'
import { type Completion, CompletionAssembler, type ModelToolCall } from './completion-assembler.ts'
import { isBlind, isTooLong, parseErrorBody } from './provider-error.ts'
import type { OpenaiEndpoint } from './task.ts'

export type ContentPart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image_url'; readonly image_url: { readonly url: string } }

export type CompletionMessage =
  | { readonly role: 'system'; readonly content: string }
  | { readonly role: 'user'; readonly content: string | readonly ContentPart[] }
  | { readonly role: 'assistant'; readonly content: string | null; readonly tool_calls?: readonly ModelToolCall[] }
  | { readonly role: 'tool'; readonly tool_call_id: string; readonly content: string }

export interface CompletionRequest {
  readonly messages: readonly CompletionMessage[]
  readonly tools: readonly object[]
  /** In the last round the model may not call tools. */
  readonly isLast: boolean
}

const TRIES_MAX = 5
const FIRST_PAUSE_MS = 250
const PAUSE_MAX_MS = 60_000
const ERROR_MAX = 2000
const BAD_REQUEST: ReadonlySet<number> = new Set([400, 413, 422])

/** A failed attempt that may be repeated. */
class RetryableError extends Error {
  readonly retryAfterMs: number | undefined

  constructor(message: string, afterMs?: number) {
    super(message)
    this.retryAfterMs = afterMs
  }
}

/** The endpoint rejects the request; a retry of the same request would fail too. */
export class BadRequestFault extends RunFault {
  /** Whether the model cannot see images. */
  readonly isBlind: boolean

  constructor(message: string, isBlind = false) {
    super('terminal', message)
    this.name = 'BadRequest'
    this.isBlind = isBlind
  }
}

export interface CompletionProgress {
  /** Called for the response headers and every chunk, with the characters of the answer so far. */
  onActivity(length: number): void
  /** Text of the answer; null if it begins again. */
  onText(text: string | null): void
}

export async function requestCompletion(
  endpoint: OpenaiEndpoint,
  request: CompletionRequest,
  progress: CompletionProgress,
): Promise<Completion> {
  for (let attempt = 1; ; attempt++) {
    try {
      progress.onText(null)
      return await attemptCompletion(endpoint, request, progress)
    } catch (error) {
      if (!(error instanceof RetryableError)) throw error
      if (attempt >= TRIES_MAX) throw new RunFault('retryable', error.message)
      process.stderr.write(`${error.message}; retrying\n`)
      await pause(Math.min(error.retryAfterMs ?? FIRST_PAUSE_MS * 2 ** (attempt - 1), PAUSE_MAX_MS))
    }
  }
}

async function attemptCompletion(
  endpoint: OpenaiEndpoint,
  request: CompletionRequest,
  progress: CompletionProgress,
): Promise<Completion> {
  const { baseUrl, apiKey, model, reportsCost } = endpoint
  const { messages, tools, isLast } = request
  let response: Response
  try {
    response = await fetch(`${trimTrailing(baseUrl, '/')}/chat/completions`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'text/event-stream, application/json',
        ...(apiKey ? { authorization: `Bearer ${apiKey}` } : {}),
      },
      body: JSON.stringify({
        model,
        messages,
        stream: true,
        stream_options: { include_usage: true },
        ...(reportsCost ? { usage: { include: true } } : {}),
        ...(tools.length > 0 ? { tools, ...(isLast ? { tool_choice: 'none' } : {}) } : {}),
      }),
    })
  } catch (error) {
    throw new RetryableError(`the model's endpoint cannot be reached: ${describeCause(error)}`)
  }
  progress.onActivity(0)
  const hasImages = messages.some(({ content }) => Array.isArray(content))
  if (!response.ok) return throwErrorResponse(response, hasImages)
  return readCompletion(response, progress, hasImages)
}

async function readCompletion(
  response: Response,
  progress: CompletionProgress,
  hasImages: boolean,
): Promise<Completion> {
  const assembly = new CompletionAssembler((text) => progress.onText(text))
  const add = (json: string): void => {
    assembly.push(json)
    if (assembly.length > ANSWER_MAX) throw oversizedAnswer()
  }
  const lines = new TextLineSplitter((line, isPiece) => {
    if (isPiece) throw oversizedAnswer()
    const [, json = ''] = /^data: ?(.*)$/.exec(line) ?? []
    if (json !== '') add(json)
  })
  const isStream = (response.headers.get('content-type') ?? '').includes('event-stream')
  let whole = ''
  try {
    const decoder = new TextDecoder()
    for await (const chunk of response.body ?? []) {
      progress.onActivity(assembly.length)
      const text = decoder.decode(chunk, { stream: true })
      if (isStream) lines.push(text)
      else whole += text
      if (whole.length > LINE_MAX) throw oversizedAnswer()
    }
    if (isStream) lines.end()
    else add(whole)
  } catch (error) {
    if (error instanceof RunFault) throw error
    throw new RetryableError(`the model's response ended early: ${describeCause(error)}`)
  }
  if (assembly.error && isTooLong(assembly.error)) throw createTooLongFault()
  if (assembly.error && hasImages && isBlind(assembly.error)) throw new BadRequestFault(assembly.error.message, true)
  if (assembly.error) throw new RetryableError(`the model failed: ${assembly.error.message}`)
  if (!assembly.isDone) throw new RetryableError("the model's response ended early")
  return assembly.completion()
}

async function throwErrorResponse(response: Response, hasImages: boolean): Promise<never> {
  const { status, headers } = response
  const text = (await response.text().catch(() => '')).slice(0, ERROR_MAX)
  const error = parseErrorBody(text)
  const message = `the model's endpoint answers ${status}: ${error.message}`
  if (status !== 429 && isTooLong(error)) throw createTooLongFault()
  // Servers answer 400, 404, 422 or 500.
  if (hasImages && status !== 429 && isBlind(error)) throw new BadRequestFault(message, true)
  if (status === 408 || status === 409 || status === 429 || status >= 500) {
    // A quota that is used up does not recover within a retry.
    if (error.code === 'insufficient_quota') throw new RunFault('terminal', message)
    throw new RetryableError(message, parseRetryAfter(headers.get('retry-after')))
  }
  throw BAD_REQUEST.has(status) ? new BadRequestFault(message) : new RunFault('terminal', message)
}

function createTooLongFault(): RunFault {
  return new RunFault('session', 'its session is too long for the model')
}

/** Milliseconds to wait: the header contains seconds or a date. */
export function parseRetryAfter(value: string | null, now = Date.now()): number | undefined {
  if (value === null) return undefined
  const seconds = /^\s*\d{1,9}(?:\.\d+)?\s*$/.test(value) ? Number(value) * 1000 : Date.parse(value) - now
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined
}

function describeCause(error: unknown): string {
  const { message, cause } = error instanceof Error ? error : { message: String(error), cause: undefined }
  return cause instanceof Error && cause.message !== '' ? cause.message : message
}
