// Client of `svc model` for endpoints with OpenAI's protocol: detects them, lists their models and makes a test call. No error
// message contains a key.
import { z } from 'zod'
import { cell } from '../../lib/command-line/print.ts'
import { rootCauseOf } from '../../lib/http/error-cause.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { parseJson } from '../../lib/text/json.ts'
import { trimTrailing } from '../../lib/text/trimming.ts'
import { fetchPublic, PRIVATE_ADDRESS } from './public-fetch.ts'

interface ModelApiEndpoint {
  readonly baseUrl: string
  readonly key?: string | undefined
  /** Set for people who are not operators: the endpoint must be public, and errors do not quote it. */
  readonly isPublicOnly?: boolean | undefined
}

const LIST_TIMEOUT_MS = 15_000
const DETECT_TIMEOUT_MS = 800
/** A local server may have to load the model first. */
export const CALL_TIMEOUT_MS = 120_000
/** Some endpoints list hundreds of models with dozens of fields each. */
const VALUES_MAX = 500_000
const MESSAGE_MAX = 300
/** Administrators of a folder choose the endpoint, so its response must not fill the memory. */
const RESPONSE_MAX = 16 * 1024 * 1024

export const TEST_PROMPT = 'Say hello in one short sentence.'

/** Local model servers with their default addresses. */
export const LOCAL_SERVERS = [
  { name: 'Ollama', baseUrl: 'http://127.0.0.1:11434/v1' },
  { name: 'LM Studio', baseUrl: 'http://127.0.0.1:1234/v1' },
  { name: 'vLLM', baseUrl: 'http://127.0.0.1:8000/v1' },
  { name: 'llama.cpp', baseUrl: 'http://127.0.0.1:8080/v1' },
] as const

/** The models by base URL of each server that responds. Skips ports on which another program, such as svc, listens. */
export async function detectServers(
  servers: readonly { readonly baseUrl: string }[] = LOCAL_SERVERS,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const found = await Promise.all(
    servers.map(async ({ baseUrl }) => {
      const models = await listModels({ baseUrl }, DETECT_TIMEOUT_MS).catch((error) => {
        if (error instanceof Refusal) return undefined
        throw error
      })
      return models ? [[baseUrl, models] as const] : []
    }),
  )
  return new Map(found.flat())
}

const Models = z.object({ data: z.array(z.object({ id: z.string().min(1) })) })

/** Returns sorted names. */
export async function listModels(endpoint: ModelApiEndpoint, timeoutMs = LIST_TIMEOUT_MS): Promise<readonly string[]> {
  const parsed = Models.safeParse(await fetchJson(endpoint, { path: '/models', timeoutMs }))
  if (!parsed.success) refuse('unprocessable', `the response of ${endpoint.baseUrl} is not a list of models`, URL_HINT)
  return [...new Set(parsed.data.data.map(({ id }) => id))].sort()
}

const Completion = z.object({
  choices: z
    .array(
      z.object({
        message: z.object({ content: z.string().nullish(), tool_calls: z.array(z.unknown()).nullish() }),
      }),
    )
    .min(1),
})

export interface ModelTestResult {
  readonly answer: string
  readonly ms: number
}

/** Every call of a turn has tools, so a model without tool support must fail the test. */
const TEST_TOOL = {
  type: 'function',
  function: {
    name: 'reply',
    description: 'Answer the person who asked.',
    parameters: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
  },
}

export async function callModel(
  endpoint: ModelApiEndpoint,
  model: string,
  timeoutMs: number = CALL_TIMEOUT_MS,
): Promise<ModelTestResult> {
  const startedMs = performance.now()
  const messages = [{ role: 'user', content: TEST_PROMPT }]
  const body = { model, messages, tools: [TEST_TOOL], stream: false }
  const parsed = Completion.safeParse(await fetchJson(endpoint, { path: '/chat/completions', body, timeoutMs, model }))
  if (!parsed.success) refuse('unprocessable', `the response of ${endpoint.baseUrl} has no choices`, URL_HINT)
  const { content, tool_calls } = parsed.data.choices[0]?.message ?? {}
  const text = (content ?? '').replace(/^<think>.*?<\/think>/s, '').trim()
  const answer = text || (tool_calls?.length ? '(a tool call)' : '(nothing)')
  return { answer, ms: Math.round(performance.now() - startedMs) }
}

interface ModelApiRequest {
  readonly path: string
  readonly body?: object
  readonly timeoutMs: number
  /** For error messages. */
  readonly model?: string
}

const URL_HINT = 'the URL usually ends with /v1'

async function fetchJson(endpoint: ModelApiEndpoint, request: ModelApiRequest): Promise<unknown> {
  const { baseUrl, key } = endpoint
  const { path, body, timeoutMs } = request
  const send = endpoint.isPublicOnly ? fetchPublic : fetch
  let response: Response
  let text: string
  try {
    response = await send(`${trimTrailing(baseUrl, '/')}${path}`, {
      method: body ? 'POST' : 'GET',
      // The request has a key, which is for this host only.
      redirect: 'manual',
      headers: {
        accept: 'application/json',
        ...(body ? { 'content-type': 'application/json' } : {}),
        ...(key ? { authorization: `Bearer ${key}` } : {}),
      },
      signal: AbortSignal.timeout(timeoutMs),
      ...(body ? { body: JSON.stringify(body) } : {}),
    })
    text = await readText(response)
  } catch (error) {
    if (error instanceof Refusal) throw error
    return refuse('unavailable', describeConnectionError(baseUrl, error, timeoutMs))
  }
  if (!response.ok) return refuseStatus(endpoint, request, response.status, text)
  try {
    return parseJson(text, VALUES_MAX)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    if (endpoint.isPublicOnly) return refuse('unprocessable', `the response of ${baseUrl} is not JSON`, URL_HINT)
    const type = response.headers.get('content-type') ?? 'no content type'
    return refuse('unprocessable', `the response of ${baseUrl} is not JSON (${cell(type).slice(0, 80)})`, URL_HINT)
  }
}

async function readText(response: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of response.body ?? []) {
    length += chunk.byteLength
    if (length > RESPONSE_MAX) refuse('unprocessable', `the response has more than ${RESPONSE_MAX} bytes`, URL_HINT)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

function describeConnectionError(baseUrl: string, error: unknown, timeoutMs: number): string {
  if (error instanceof DOMException && error.name === 'TimeoutError')
    return `${baseUrl} did not respond within ${timeoutMs / 1000} s`
  const { code, message } = rootCauseOf(error)
  if (message === PRIVATE_ADDRESS) return `cannot reach ${baseUrl}: ${PRIVATE_ADDRESS}`
  if (code === 'ECONNREFUSED') return `${baseUrl} refused the connection: no server is running there`
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return `cannot reach ${baseUrl}: its host name was not found`
  if (message === 'bad port') return `cannot reach ${baseUrl}: this port is not allowed for HTTP`
  // Without a code the message may quote an invalid header, which contains the key.
  return `cannot reach ${baseUrl}${code === undefined ? '' : `: ${message}`}`
}

async function refuseStatus(
  endpoint: ModelApiEndpoint,
  { model }: ModelApiRequest,
  status: number,
  text: string,
): Promise<never> {
  const { baseUrl, key } = endpoint
  // Not repeated: providers quote parts of the key in these messages.
  if (status === 401 || status === 403) return refuseKey(endpoint, status)
  if (endpoint.isPublicOnly)
    return refuse('unprocessable', `${baseUrl} responded with ${status}`, status === 404 ? URL_HINT : undefined)
  const body = cell((key ? text.replaceAll(key, '…') : text).trim()).slice(0, 4 * MESSAGE_MAX)
  const message = extractMessage(body).slice(0, MESSAGE_MAX)
  if (model !== undefined && (status === 404 || /model/i.test(message)) && status < 500) {
    const near = await describeSimilarModels(endpoint, model)
    if (near) refuse('not_found', `${baseUrl} has no model ${JSON.stringify(model)}`, near)
  }
  return refuse(
    'unprocessable',
    `${baseUrl} responded with ${status}${message === '' ? '' : `: ${message}`}`,
    status === 404 ? URL_HINT : undefined,
  )
}

function refuseKey({ baseUrl, key }: ModelApiEndpoint, status: number): never {
  const message = key ? `${baseUrl} rejected the key (${status})` : `${baseUrl} requires a key (${status})`
  refuse('unauthenticated', message, 'svc model prompts for it on a terminal; --key - reads it from stdin')
}

/** The message of an error in a usual format, else the whole text. */
function extractMessage(text: string): string {
  return (
    /"message"\s*:\s*"((?:[^"\\]|\\.)*)"/.exec(text)?.[1] ?? /"error"\s*:\s*"((?:[^"\\]|\\.)*)"/.exec(text)?.[1] ?? text
  )
}

/** Lists similar models; undefined if the endpoint has the model or does not list its models. */
async function describeSimilarModels(endpoint: ModelApiEndpoint, model: string): Promise<string | undefined> {
  const models = await listModels(endpoint).catch(() => undefined)
  if (!models || models.includes(model)) return undefined
  const near = similarNames(model, models)
  if (near.length > 0) return `it has ${near.join(', ')}`
  return models.length === 0
    ? 'it has no models yet'
    : `it has ${models.slice(0, 5).join(', ')}${models.length > 5 ? ', …' : ''}`
}

/** Up to five names that share at least half of the parts of `typed`. */
export function similarNames(typed: string, names: readonly string[]): readonly string[] {
  const split = (name: string): string[] =>
    name
      .toLowerCase()
      .split(/[^a-z0-9]+/)
      .filter(Boolean)
  const wanted = split(typed)
  const scored = names.map((name) => {
    const parts = split(name)
    const shared = wanted.filter((part) => parts.some((other) => other.startsWith(part) || part.startsWith(other)))
    return { name, score: shared.length / Math.max(1, wanted.length) }
  })
  return scored
    .filter(({ score }) => score >= 0.5)
    .sort((a, b) => b.score - a.score)
    .slice(0, 5)
    .map(({ name }) => name)
}
