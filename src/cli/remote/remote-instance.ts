// An instance on another machine: calls verbs over REST as the person who signed in with `svc login --url`.
import type { z } from 'zod'
import { httpOperations, type Operation } from '../../faces/operations.ts'
import type { Clock } from '../../lib/clock.ts'
import { REFUSALS, type RefusalCode, refuse } from '../../lib/refusal.ts'
import { isObject, tryParseJson } from '../../lib/text/json.ts'
import { parse } from '../../lib/text/schema-parser.ts'
import type { NamedVerb } from '../../registry/resource.ts'
import { encodeKey } from '../../registry/url-key.ts'
import { resources } from '../../resources/index.ts'
import type { InstanceLocation } from '../instance/instance.ts'
import { REST_EQUIVALENTS } from './rest-equivalents.ts'
import { refuseForeignResponse, refuseUnreachable } from './server-address.ts'
import { type RemoteSignIn, readSignIn, writeSignIn } from './sign-in-file.ts'

const TIMEOUT_MS = 30_000
/** A page has up to a thousand rows. */
const JSON_VALUES_MAX = 1_000_000
/** Clocks differ, and a request takes time. */
const EXPIRY_MARGIN_MS = 30_000

export interface RemoteInstance {
  call<I extends z.ZodObject, O>(verb: NamedVerb<I, O>, input: z.input<I>): Promise<O>
  /** For commands that need the store. */
  refuseLocal(): never
}

export async function openRemoteInstance(location: InstanceLocation, clock: Clock): Promise<RemoteInstance> {
  const { name } = location
  let signIn = (await readSignIn(location)) ?? refuseSignedOut(name, '<base>')
  const { base } = signIn
  const refuseLocal = (): never => {
    const { hostname } = new URL(base)
    return refuse(
      'unsupported',
      `this works only on the machine of the instance; ${name} is at ${base}`,
      `run it there, for example: ssh ${hostname} svc …`,
    )
  }
  const refresh = async (): Promise<void> => {
    signIn = (await renewSignIn(location, signIn, clock)) ?? refuseSignedOut(name, base)
  }
  const send = async (request: RestRequest): Promise<Response> => {
    if (clock.now() >= signIn.expires_ms - EXPIRY_MARGIN_MS) await refresh()
    const response = await sendRequest(signIn, request)
    if (response.status !== 401) return response
    await response.body?.cancel()
    await refresh()
    return sendRequest(signIn, request)
  }
  const callOperation = async (verb: NamedVerb, input: Readonly<Record<string, unknown>>): Promise<unknown> => {
    const operation = findOperation(verb) ?? refuseLocal()
    const response = await send(createRequest(operation, parse(verb.input, input)))
    if (response.status === 401) refuseSignedOut(name, base)
    const text = await response.text().catch((error) => refuseUnreachable(base, error))
    if (!response.ok) refuseProblem(base, response.status, tryParseJson(text))
    return text === '' ? undefined : (tryParseJson(text, JSON_VALUES_MAX) ?? refuseForeignResponse(base))
  }
  return {
    refuseLocal,
    call: async (verb, input) => {
      const equivalent = REST_EQUIVALENTS[verb.id]
      // The same refusals of the input as on the machine of the instance.
      const checked = parse(verb.input, input)
      const reply = equivalent
        ? await callOperation(equivalent.verb, equivalent.toInput(checked))
        : await callOperation(verb, input)
      return parseReply(base, verb, equivalent ? equivalent.toReply(reply) : reply)
    },
  }
}

function refuseSignedOut(name: string, base: string): never {
  refuse('unauthenticated', `you are not signed in to ${name} any more`, `svc login ${name} --url ${base}`)
}

/** Undefined if the session has ended. Another command may have renewed it in the meantime. */
async function renewSignIn(
  location: InstanceLocation,
  old: RemoteSignIn,
  clock: Clock,
): Promise<RemoteSignIn | undefined> {
  const { refreshSignIn } = await import('./oauth-client.ts')
  const current = (await readSignIn(location)) ?? old
  if (current.access_token !== old.access_token) return current
  const renewed = await refreshSignIn(current, clock)
  const latest = await readSignIn(location)
  const isReplaced = latest !== undefined && latest.refresh_token !== current.refresh_token
  if (!renewed) return isReplaced ? latest : undefined
  // An older refresh token must not replace a newer one. Parallel refreshes get the same successor.
  if (!isReplaced && latest !== undefined) await writeSignIn(location, renewed)
  return renewed
}

interface RestRequest {
  readonly method: string
  readonly path: string
  readonly body?: string
}

function findOperation(verb: NamedVerb): Operation | undefined {
  const resource = resources.find(({ name }) => name === verb.resource)
  return resource && httpOperations(resource).find((operation) => operation.verb.verb === verb.verb)
}

function createRequest(operation: Operation, input: Readonly<Record<string, unknown>>): RestRequest {
  const { method, path: template, parameters, inputLocation } = operation
  const path = parameters.reduce((text, { name, members }) => {
    const key = encodeKey(members.map((member) => String(input[member])))
    return text.replace(`{${name}}`, () => encodeURIComponent(key))
  }, template)
  const inPath = new Set(parameters.flatMap(({ members }) => members))
  const rest = Object.entries(input).filter(([name, value]) => !inPath.has(name) && value !== undefined)
  if (inputLocation === 'body') return { method, path, body: JSON.stringify(Object.fromEntries(rest)) }
  const query = new URLSearchParams(rest.map(([name, value]) => [name, String(value)])).toString()
  return { method, path: query === '' ? path : `${path}?${query}` }
}

async function sendRequest(
  { base, access_token }: RemoteSignIn,
  { method, path, body }: RestRequest,
): Promise<Response> {
  const headers = {
    Authorization: `Bearer ${access_token}`,
    Accept: 'application/json',
    ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
  }
  try {
    return await fetch(`${base}${path}`, {
      method,
      headers,
      ...(body === undefined ? {} : { body }),
      // A redirect would send the token to another server.
      redirect: 'manual',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    })
  } catch (error) {
    return refuseUnreachable(base, error)
  }
}

/** The refusal of the server, as the verb would refuse on the machine of the instance. */
function refuseProblem(base: string, status: number, problem: unknown): never {
  if (!isObject(problem) || typeof problem.detail !== 'string') refuseForeignResponse(base, `status ${status}`)
  const { detail, code, hint } = problem
  if (!isRefusalCode(code)) refuse('unavailable', `${base} responded with ${status}: ${detail}`)
  refuse(code, detail, typeof hint === 'string' ? hint : undefined)
}

function isRefusalCode(code: unknown): code is RefusalCode {
  return typeof code === 'string' && Object.hasOwn(REFUSALS, code)
}

function parseReply<O>(base: string, { output }: NamedVerb<z.ZodObject, O>, reply: unknown): O {
  // A verb without an output schema has no reply.
  if (!output) return undefined as O
  const parsed = output.safeParse(reply)
  return parsed.success ? parsed.data : refuseForeignResponse(base, 'it may run another version of svc')
}
