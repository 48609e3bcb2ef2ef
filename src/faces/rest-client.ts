// The same verbs over HTTP, typed: how one daemon uses what another serves. What the other refuses is refused here too.
import type { z } from 'zod'
import { Problem } from '../lib/http/http.ts'
import { REFUSALS, Refusal, type RefusalCode, refuse } from '../lib/refusal.ts'
import type { NamedVerb, Resource } from '../registry/resource.ts'
import { encodeKey } from '../registry/url-key.ts'
import { httpOperations, type Operation } from './operations.ts'

export interface RestClientOptions {
  /** Scheme and host of the daemon, such as http://127.0.0.1:8081. */
  url: string
  /** Asked before every call where it is a function, because bearers expire. */
  bearer: string | (() => string | Promise<string>)
  /** What may be called. */
  resources: readonly Resource[]
  fetch?: typeof fetch
  timeoutMs?: number
}

export interface RestClient {
  call<I extends z.ZodObject, O>(verb: NamedVerb<I, O>, input: z.input<I>): Promise<O>
}

const TIMEOUT_MS = 30_000

export function createRestClient(options: RestClientOptions): RestClient {
  const known = new Map(options.resources.flatMap(httpOperations).map((operation) => [operation.verb.id, operation]))
  return {
    call: async (verb, input) => {
      const operation = known.get(verb.id)
      if (!operation) throw new Error(`${verb.id} has no REST face`)
      const answer = await send(options, operation, input)
      if (!answer.ok) throw await refusalOf(answer, operation)
      return readReply(answer, verb)
    },
  }
}

async function send(
  options: RestClientOptions,
  operation: Operation,
  input: Record<string, unknown>,
): Promise<Response> {
  const { url, bearer, fetch: send = fetch, timeoutMs = TIMEOUT_MS } = options
  const { pathAndQuery, body } = encodeRequest(operation, input)
  const token = typeof bearer === 'string' ? bearer : await bearer()
  try {
    return await send(new URL(pathAndQuery, url), {
      method: operation.method,
      headers: { Authorization: `Bearer ${token}`, ...(body ? { 'Content-Type': 'application/json' } : {}) },
      ...(body ? { body } : {}),
      // Followed, a redirect would take the bearer elsewhere.
      redirect: 'error',
      signal: AbortSignal.timeout(timeoutMs),
    })
  } catch (error) {
    throw new Refusal('unavailable', `${operation.verb.id}: ${url} does not answer`, reason(error))
  }
}

function reason(error: unknown): string | undefined {
  const { cause = error } = error instanceof Error ? error : {}
  return cause instanceof Error ? cause.message : undefined
}

/** Where the members of an input stand in the request: the counterpart of what the REST face reads. */
export function encodeRequest(
  operation: Operation,
  input: Record<string, unknown>,
): { pathAndQuery: string; body?: string } {
  const { path, parameters, inputLocation } = operation
  const carried = parameters.flatMap(({ members }) => members)
  const others = Object.entries(input).filter(([name, value]) => value !== undefined && !carried.includes(name))
  const filled = parameters.reduce((text, { name, members }) => {
    const key = encodeKey(members.map((member) => String(input[member] ?? refuse('invalid', `${member} is required`))))
    // A URL takes these for steps in the path, encoded or not.
    if (key === '' || key === '.' || key === '..') refuse('invalid', `${name} cannot be "${key}" in a path`)
    return text.replace(`{${name}}`, () => encodeURIComponent(key))
  }, path)
  if (inputLocation === 'body') return { pathAndQuery: filled, body: JSON.stringify(Object.fromEntries(others)) }
  const query = new URLSearchParams(others.map(([name, value]) => [name, String(value)])).toString()
  return { pathAndQuery: query ? `${filled}?${query}` : filled }
}

async function readReply<I extends z.ZodObject, O>(answer: Response, verb: NamedVerb<I, O>): Promise<O> {
  const reply: unknown = verb.output ? await answer.json().catch(() => undefined) : undefined
  const read = verb.output?.safeParse(reply)
  if (read && !read.success) refuse('unavailable', `${verb.id}: the answer is not what this version knows`)
  // A verb without output answers nothing, which is what its type says.
  return read ? read.data : (undefined as O)
}

async function refusalOf(answer: Response, { verb }: Operation): Promise<Error> {
  const problem = Problem.safeParse(await answer.json().catch(() => undefined)).data
  if (problem && problem.code !== 'internal') return new Refusal(problem.code, problem.detail, problem.hint)
  // Not of our making: a front door that is down, or a bug on the other side, which our own log should name.
  if (answer.status >= 500 && !problem) return new Refusal('unavailable', `${verb.id}: answered ${answer.status}`)
  const code = codeOf(answer.status)
  if (code) return new Refusal(code, `${verb.id}: answered ${answer.status}`)
  return new Error(`${verb.id}: answered ${answer.status}${problem?.incident ? `, incident ${problem.incident}` : ''}`)
}

function codeOf(status: number): RefusalCode | undefined {
  // From a table of our own, so the keys are exactly the codes.
  const codes = Object.keys(REFUSALS) as RefusalCode[]
  return codes.find((code) => REFUSALS[code].http === status)
}
