// One streamed answer of an OpenAI-compatible endpoint: asked for, read to its end, and asked for again where that may help.
import { setTimeout as pause } from 'node:timers/promises'
import { RunFault } from '../runtime.ts'
import { TextLineSplitter } from '../text-line-splitter.ts'
import { CompletionAssembler } from './completion-assembler.ts'
import { errorOf, isTooLong } from './provider-error.ts'
import type { OpenaiEndpoint } from './task.ts'

export interface ModelToolCall {
  readonly id: string
  readonly type: 'function'
  readonly function: { readonly name: string; readonly arguments: string }
}

export type CompletionMessage =
  | { readonly role: 'system' | 'user'; readonly content: string }
  | { readonly role: 'assistant'; readonly content: string | null; readonly tool_calls?: readonly ModelToolCall[] }
  | { readonly role: 'tool'; readonly tool_call_id: string; readonly content: string }

export interface CompletionRequest {
  readonly messages: readonly CompletionMessage[]
  readonly tools: readonly object[]
  /** The last round: it must answer in words. */
  readonly isLast: boolean
}

export interface Completion {
  /** What the model said, or why it refuses to answer. */
  readonly text: string
  /** `cut` by the model's limit, or the rest `withheld` by the provider's filter. */
  readonly end: 'whole' | 'cut' | 'withheld'
  readonly calls: readonly ModelToolCall[]
  readonly input: number
  readonly output: number
}

const TRIES_MAX = 5
const FIRST_PAUSE_MS = 250
const PAUSE_MAX_MS = 60_000
const ERROR_MAX = 2000
const BAD_REQUEST: ReadonlySet<number> = new Set([400, 413, 422])

/** A try that may go better the next time. */
class RetryableError extends Error {
  readonly afterMs: number | undefined

  constructor(message: string, afterMs?: number) {
    super(message)
    this.afterMs = afterMs
  }
}

/** The endpoint does not take the request: the same one is refused again. */
export class BadRequestFault extends RunFault {
  constructor(message: string) {
    super('terminal', message)
    this.name = 'BadRequest'
  }
}

/** `onSign` is called whenever something has come. */
export async function requestCompletion(
  endpoint: OpenaiEndpoint,
  question: CompletionRequest,
  onSign: () => void,
): Promise<Completion> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await attemptOne(endpoint, question, onSign)
    } catch (error) {
      if (!(error instanceof RetryableError)) throw error
      if (attempt >= TRIES_MAX) throw new RunFault('again', error.message)
      process.stderr.write(`${error.message}; asking again\n`)
      await pause(Math.min(error.afterMs ?? FIRST_PAUSE_MS * 2 ** (attempt - 1), PAUSE_MAX_MS))
    }
  }
}

async function attemptOne(
  endpoint: OpenaiEndpoint,
  question: CompletionRequest,
  onSign: () => void,
): Promise<Completion> {
  const { baseUrl, apiKey, model } = endpoint
  const { messages, tools, isLast } = question
  let response: Response
  try {
    response = await fetch(`${baseUrl.replace(/\/+$/, '')}/chat/completions`, {
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
        ...(tools.length > 0 ? { tools, ...(isLast ? { tool_choice: 'none' } : {}) } : {}),
      }),
    })
  } catch (error) {
    throw new RetryableError(`the model's endpoint was not reached: ${causeOf(error)}`)
  }
  onSign()
  if (!response.ok) return refused(response)
  return read(response, onSign)
}

async function read(response: Response, onSign: () => void): Promise<Completion> {
  const assembly = new CompletionAssembler()
  const lines = new TextLineSplitter((line) => {
    const [, json = ''] = /^data: ?(.*)$/.exec(line) ?? []
    if (json !== '') assembly.push(json)
  })
  try {
    if (!(response.headers.get('content-type') ?? '').includes('event-stream')) assembly.push(await response.text())
    else {
      const decoder = new TextDecoder()
      for await (const chunk of response.body ?? []) {
        onSign()
        lines.push(decoder.decode(chunk, { stream: true }))
      }
      lines.end()
    }
  } catch (error) {
    throw new RetryableError(`the model's answer broke off: ${causeOf(error)}`)
  }
  if (assembly.error && isTooLong(assembly.error)) throw tooLong()
  if (assembly.error) throw new RetryableError(`the model failed: ${assembly.error.message}`)
  if (!assembly.isDone) throw new RetryableError("the model's answer broke off")
  return assembly.completion()
}

async function refused(response: Response): Promise<never> {
  const { status, headers } = response
  const text = (await response.text().catch(() => '')).slice(0, ERROR_MAX)
  const error = errorOf(text)
  const sentence = `the model's endpoint answers ${status}: ${error.message}`
  if (status !== 429 && isTooLong(error)) throw tooLong()
  if (status === 408 || status === 409 || status === 429 || status >= 500) {
    // Money that is used up does not come back by waiting.
    if (error.code === 'insufficient_quota') throw new RunFault('terminal', sentence)
    throw new RetryableError(sentence, retryAfter(headers.get('retry-after')))
  }
  throw BAD_REQUEST.has(status) ? new BadRequestFault(sentence) : new RunFault('terminal', sentence)
}

function tooLong(): RunFault {
  return new RunFault('session', 'its session has become too long for the model')
}

/** Seconds, or a date. */
export function retryAfter(value: string | null, now = Date.now()): number | undefined {
  if (value === null) return undefined
  const seconds = /^\s*\d{1,9}(?:\.\d+)?\s*$/.test(value) ? Number(value) * 1000 : Date.parse(value) - now
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined
}

function causeOf(error: unknown): string {
  const { message, cause } = error instanceof Error ? error : { message: String(error), cause: undefined }
  return cause instanceof Error && cause.message !== '' ? cause.message : message
}
