// An endpoint that speaks OpenAI's protocol, as `svc model` meets it: whether it is there, which models it has, and whether one
// of them answers. No message contains a key.
import { z } from 'zod'
import { cell } from '../../lib/command-line/print.ts'
import { rootCauseOf } from '../../lib/http/error-cause.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { parseJson } from '../../lib/text/json.ts'

export interface ModelApiEndpoint {
  readonly baseUrl: string
  readonly key?: string | undefined
}

const LIST_MS = 15_000
const DETECT_MS = 800
/** A server on this machine may have to load the model first. */
const CALL_MS = 120_000
/** Some endpoints list hundreds of models with dozens of members each. */
const VALUES_MAX = 500_000
const MESSAGE_MAX = 300

/** Servers for one's own machine, with the address that they listen on unless told otherwise. */
export const LOCAL_SERVERS = [
  { name: 'Ollama', baseUrl: 'http://127.0.0.1:11434/v1' },
  { name: 'LM Studio', baseUrl: 'http://127.0.0.1:1234/v1' },
  { name: 'vLLM', baseUrl: 'http://127.0.0.1:8000/v1' },
  { name: 'llama.cpp', baseUrl: 'http://127.0.0.1:8080/v1' },
] as const

/** The models of each server that answers like one. Another program on the port, such as svc itself, is none. */
export async function detectServers(
  servers: readonly { readonly baseUrl: string }[] = LOCAL_SERVERS,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const found = await Promise.all(
    servers.map(async ({ baseUrl }) => {
      const models = await listModels({ baseUrl }, DETECT_MS).catch((error) => {
        if (error instanceof Refusal) return undefined
        throw error
      })
      return models ? [[baseUrl, models] as const] : []
    }),
  )
  return new Map(found.flat())
}

const Models = z.object({ data: z.array(z.object({ id: z.string().min(1) })) })

/** The names in the order of the alphabet. */
export async function listModels(endpoint: ModelApiEndpoint, timeoutMs = LIST_MS): Promise<readonly string[]> {
  const value = await fetchJson(endpoint, { path: '/models', timeoutMs })
  const read = Models.safeParse(value)
  if (!read.success) refuse('unprocessable', `${endpoint.baseUrl} answers JSON that is no list of models`, URL_HINT)
  return [...new Set(read.data.data.map(({ id }) => id))].sort()
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

/** Turns send tools with every call: a model that takes none would fail only later. */
const TEST_TOOL = {
  type: 'function',
  function: {
    name: 'reply',
    description: 'Answer the person who asked.',
    parameters: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
  },
}

/** One real call. */
export async function callModel(
  endpoint: ModelApiEndpoint,
  model: string,
  timeoutMs: number = CALL_MS,
): Promise<ModelTestResult> {
  const began = performance.now()
  const messages = [{ role: 'user', content: 'Say hello in one short sentence.' }]
  const body = { model, messages, tools: [TEST_TOOL], stream: false }
  const value = await fetchJson(endpoint, { path: '/chat/completions', body, timeoutMs, model })
  const read = Completion.safeParse(value)
  if (!read.success) refuse('unprocessable', `${endpoint.baseUrl} answers JSON without choices`, URL_HINT)
  const { content, tool_calls } = read.data.choices[0]?.message ?? {}
  const answer = (content ?? '').replace(/^<think>.*?<\/think>/s, '').trim()
  const said = answer || (tool_calls?.length ? '(a tool call)' : '(nothing)')
  return { answer: said, ms: Math.round(performance.now() - began) }
}

interface ModelApiRequest {
  readonly path: string
  readonly body?: object
  readonly timeoutMs: number
  /** Named in a refusal of it. */
  readonly model?: string
}

const URL_HINT = 'the URL usually ends with /v1'

async function fetchJson(endpoint: ModelApiEndpoint, request: ModelApiRequest): Promise<unknown> {
  const { baseUrl, key } = endpoint
  const { path, body, timeoutMs } = request
  let response: Response
  let text: string
  try {
    response = await fetch(`${baseUrl.replace(/\/+$/, '')}${path}`, {
      method: body ? 'POST' : 'GET',
      headers: {
        accept: 'application/json',
        ...(body ? { 'content-type': 'application/json' } : {}),
        ...(key ? { authorization: `Bearer ${key}` } : {}),
      },
      signal: AbortSignal.timeout(timeoutMs),
      ...(body ? { body: JSON.stringify(body) } : {}),
    })
    text = await response.text()
  } catch (error) {
    return refuse('unavailable', describeConnectionError(baseUrl, error, timeoutMs))
  }
  if (!response.ok) return refuseStatus(endpoint, request, response.status, text)
  try {
    return parseJson(text, VALUES_MAX)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const type = response.headers.get('content-type') ?? 'no content type'
    return refuse(
      'unprocessable',
      `${baseUrl} answers something that is not JSON (${cell(type).slice(0, 80)})`,
      URL_HINT,
    )
  }
}

function describeConnectionError(baseUrl: string, error: unknown, timeoutMs: number): string {
  if (error instanceof DOMException && error.name === 'TimeoutError')
    return `${baseUrl} did not answer within ${timeoutMs / 1000} s`
  const { code, message } = rootCauseOf(error)
  if (code === 'ECONNREFUSED') return `${baseUrl} refused the connection: no server runs there`
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return `${baseUrl} was not reached: its host name was not found`
  if (message === 'bad port') return `${baseUrl} was not reached: this port is not allowed for HTTP`
  // fetch itself repeats header values in what it throws for a bad one.
  return `${baseUrl} was not reached${code === undefined ? '' : `: ${message}`}`
}

async function refuseStatus(
  endpoint: ModelApiEndpoint,
  { model }: ModelApiRequest,
  status: number,
  text: string,
): Promise<never> {
  const { baseUrl, key } = endpoint
  // Providers repeat parts of the key in this sentence.
  if (status === 401 || status === 403) return refuseKey(endpoint, status)
  const message = cell((key ? text.replaceAll(key, '…') : text).trim()).slice(0, 4 * MESSAGE_MAX)
  const said = extractMessage(message).slice(0, MESSAGE_MAX)
  if (model !== undefined && (status === 404 || /model/i.test(said)) && status < 500) {
    const near = await describeSimilarModels(endpoint, model)
    if (near) refuse('not_found', `${baseUrl} has no model ${JSON.stringify(model)}`, near)
  }
  return refuse(
    'unprocessable',
    `${baseUrl} answers ${status}${said === '' ? '' : `: ${said}`}`,
    status === 404 ? URL_HINT : undefined,
  )
}

function refuseKey({ baseUrl, key }: ModelApiEndpoint, status: number): never {
  const sentence = key ? `${baseUrl} does not accept the key (${status})` : `${baseUrl} wants a key (${status})`
  refuse('unauthenticated', sentence, 'svc model asks for it on a terminal; --key - reads it from stdin')
}

/** Of the usual shape of an error, else the text itself. */
function extractMessage(text: string): string {
  return (
    /"message"\s*:\s*"((?:[^"\\]|\\.)*)"/.exec(text)?.[1] ?? /"error"\s*:\s*"((?:[^"\\]|\\.)*)"/.exec(text)?.[1] ?? text
  )
}

/** Which models there are that are called like it; nothing where the endpoint has it, or does not list models. */
async function describeSimilarModels(endpoint: ModelApiEndpoint, model: string): Promise<string | undefined> {
  const models = await listModels(endpoint).catch(() => undefined)
  if (!models || models.includes(model)) return undefined
  const near = similarNames(model, models)
  if (near.length > 0) return `it has ${near.join(', ')}`
  return models.length === 0
    ? 'it has no models yet'
    : `it has ${models.slice(0, 5).join(', ')}${models.length > 5 ? ', …' : ''}`
}

/** Up to five names that share most of their parts with what was typed. */
export function similarNames(typed: string, names: readonly string[]): readonly string[] {
  const partsOf = (name: string): string[] =>
    name
      .toLowerCase()
      .split(/[^a-z0-9]+/)
      .filter(Boolean)
  const wanted = partsOf(typed)
  const scored = names.map((name) => {
    const parts = partsOf(name)
    const shared = wanted.filter((part) => parts.some((other) => other.startsWith(part) || part.startsWith(other)))
    return { name, score: shared.length / Math.max(1, wanted.length) }
  })
  return scored
    .filter(({ score }) => score >= 0.5)
    .sort((a, b) => b.score - a.score)
    .slice(0, 5)
    .map(({ name }) => name)
}
