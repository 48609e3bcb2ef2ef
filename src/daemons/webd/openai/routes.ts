// The interface for OpenAI clients: /chat/<token>/v1/… with the agent of the link as the model, and /openai/v1/… with a bearer, where
// the models are the folders that the person may talk to. See docs/decisions.md#openai-clients.
import type { z } from 'zod'
import { CallRateLimiters } from '../../../core/access/call-rate-limit.ts'
import { claimsOf } from '../../../core/access/caller.ts'
import { checkAccess } from '../../../core/access/policy.ts'
import { type Group, groups } from '../../../core/groups/groups.ts'
import { createTokenProof } from '../../../core/links/link-token.ts'
import { personChatJid } from '../../../core/links/person-chats.ts'
import { routeTokens } from '../../../core/links/route-tokens.ts'
import { Refusal, refuse } from '../../../lib/refusal.ts'
import { openPersonChat } from '../../../resources/route-tokens.ts'
import type { Tx } from '../../../store/engine.ts'
import { authenticate } from '../../http/credentials.ts'
import { openaiErrorOf, ParamRefusal } from '../../http/openai-errors.ts'
import { type CachedLink, latin1 } from '../link-cache.ts'
import type { LinkPath } from '../link-path.ts'
import { findLink, mustPostAsOwner } from '../link-post.ts'
import type { LinkRequest } from '../link-request.ts'
import { type LinkVisitor, NO_LINK } from '../link-visitor.ts'
import { readRequest } from './accept.ts'
import { CHAT_COMPLETIONS } from './chat-completions.ts'
import { type AnswerEndpoint, acceptPost, type Exchange, type OpenaiContext, sendAnswer } from './post.ts'
import { parseChatRequest, parseResponseRequest } from './request-parser.ts'
import { RESPONSES } from './responses.ts'

const MODELS_MAX = 1000
const MODELS = /^v1\/models(?:\/(.+))?$/

const ENDPOINTS: Readonly<Record<string, AnswerEndpoint>> = {
  'v1/chat/completions': { parse: parseChatRequest, form: CHAT_COMPLETIONS },
  'v1/responses': { parse: parseResponseRequest, form: RESPONSES },
}

export function isOpenaiPath({ kind, rest = '' }: LinkPath): boolean {
  return kind === 'openai' || (kind === 'chat' && /^v1(?:\/|$)/.test(rest))
}

type OpenaiHandler = (request: LinkRequest) => Promise<void>

export function openOpenaiRoutes(options: OpenaiContext): OpenaiHandler {
  const { host } = options
  const calls = new CallRateLimiters(() => host.limits.toolCallsPerSecond, host.clock, host.metrics)
  return async (request) => {
    request.formatProblems(openaiErrorOf)
    const { method = '' } = request.incoming
    const { kind, rest = '' } = request.path
    const endpoint = Object.hasOwn(ENDPOINTS, rest) ? ENDPOINTS[rest] : undefined
    const models = MODELS.exec(rest)
    const allow = endpoint ? 'POST, OPTIONS' : 'GET, HEAD, OPTIONS'
    if (method === 'OPTIONS') return request.sendPreflight(allow, askedHeaders(request))
    const caller = kind === 'openai' ? await findPerson(options, request) : await findLinkCaller(options, request)
    if (!endpoint && !models) refuse('not_found', 'there is nothing at this path')
    if (!allow.split(', ').includes(method))
      return request.refuse(new Refusal('not_allowed', `this path allows only ${allow}`), { Allow: allow })
    calls.take(caller.kind === 'link' ? caller.link.key : caller.person.caller.sub, 'requests')
    if (endpoint) return sendAnswer(await accept(options, request, endpoint, caller))
    await sendModels(options, request, caller, models?.[1])
  }
}

/** Official clients send a dozen headers of their own, and more with each version. */
function askedHeaders(request: LinkRequest): string | undefined {
  const asked = request.header('access-control-request-headers')
  return asked !== undefined && /^[\w, -]{1,2000}$/.test(asked) ? asked : undefined
}

/** Who calls: the holder of a link, or a person with a bearer. */
type OpenaiCaller =
  | { readonly kind: 'link'; readonly link: CachedLink; readonly visitor: LinkVisitor | undefined }
  | { readonly kind: 'person'; readonly person: LinkVisitor }

async function findLinkCaller(context: OpenaiContext, request: LinkRequest): Promise<OpenaiCaller> {
  const cached = await findLink(context, request)
  // A cached link may have been revoked, and only an append would notice it.
  const link = cached && (await context.links.find(cached.key))
  if (!link) throw NO_LINK
  if (link.isHook) refuse('not_found', 'there is nothing at this path')
  const visitor = link.owner && (await mustPostAsOwner(context, request, link.owner))
  return { kind: 'link', link, visitor }
}

/** Cookies do not count, so any page may use the interface with a bearer that it was given. */
async function findPerson({ host }: OpenaiContext, request: LinkRequest): Promise<OpenaiCaller> {
  const { authorization } = request.incoming.headers
  if (authorization === undefined)
    refuse('unauthenticated', 'an API key is required', 'svc bearer prints one for a person')
  const { caller, fault } = await authenticate(host, { authorization })
  if (!caller) throw fault ?? new Refusal('unauthenticated', 'this API key is not valid')
  if (caller.kind !== 'person') return refuse('forbidden', 'this interface is for people, not for services')
  request.caller = caller.sub
  return { kind: 'person', person: { caller, authorization } }
}

async function accept(
  context: OpenaiContext,
  request: LinkRequest,
  endpoint: AnswerEndpoint,
  caller: OpenaiCaller,
): Promise<Exchange> {
  if (caller.kind === 'link') {
    const { link, visitor } = caller
    const guard = link.owner && visitor && { owner: link.owner, visitor }
    const filesUrl = `${context.host.webBase}/chat/${request.path.token}/files/`
    return acceptPost(context, request, { endpoint, chat: { link, guard, filesUrl } })
  }
  const read = await readRequest(context, request, endpoint.parse)
  const { person } = caller
  const chat = await findChatOf(context, request, { person, model: read.body.model }).catch((error) => {
    read.release()
    throw error
  })
  return acceptPost(context, request, { endpoint, chat, read })
}

/** The person's own chat with the folder that the request names. */
async function findChatOf(
  { host, links }: OpenaiContext,
  { id: requestId, client: sourceIp }: LinkRequest,
  { person, model }: { readonly person: LinkVisitor; readonly model: string | undefined },
) {
  if (model === undefined) throw new ParamRefusal('model', 'model is required: the folder to talk to')
  const { caller } = person
  const { sub } = caller
  const find = async (tx: Tx) => {
    await mustFindModel(tx, { host, person }, model)
    return routeTokens.find(tx, { jid: personChatJid(model, sub) })
  }
  let row = await host.engine.read(find)
  if (!row) {
    await openPersonChat({ host, caller, face: 'rest', requestId, ...(sourceIp ? { sourceIp } : {}) }, model)
    row = await host.engine.read(find)
  }
  const link = row && (await links.find(latin1(row.token_hash)))
  if (!link || link.owner?.sub !== sub) return refuse('conflict', `the chat with ${model} belongs to another link`)
  const filesUrl = `${host.webBase}/chat/${createTokenProof(link.hash, host.keyring)}/files/`
  return { link, guard: { owner: link.owner, visitor: person }, filesUrl }
}

interface PersonContext extends Pick<OpenaiContext, 'host'> {
  readonly person: LinkVisitor
}

async function mayTalkTo(tx: Tx, { host, person: { caller } }: PersonContext): Promise<(folder: string) => boolean> {
  const policy = await host.policies.read(tx)
  const subject = { principal: caller.sub, claims: claimsOf(caller) }
  return (scope) => checkAccess(policy, subject, { action: 'interact', scope }).allow
}

/** The same refusal for a folder that does not exist: the names of folders are not for everyone. */
async function mustFindModel(tx: Tx, context: PersonContext, model: string): Promise<void> {
  const isAllowed = (await mayTalkTo(tx, context))(model)
  if (!isAllowed || !(await groups.find(tx, { folder: model }))) throw noModel(model)
}

function noModel(model: string): Refusal {
  const message = `the model ${JSON.stringify(model)} does not exist, or you may not use it`
  return new ParamRefusal('model', message, { code: 'not_found', openaiCode: 'model_not_found' })
}

async function sendModels(
  { host }: OpenaiContext,
  request: LinkRequest,
  caller: OpenaiCaller,
  encoded: string | undefined,
): Promise<void> {
  const listed = await host.engine.read(async (tx) => {
    if (caller.kind === 'link') {
      const folder = caller.link.folder ?? ''
      const group = await groups.find(tx, { folder })
      return [modelOf({ folder, added_at: group?.added_at ?? new Date(0).toISOString() })]
    }
    const isAllowed = await mayTalkTo(tx, { host, person: caller.person })
    const all = await groups.list(tx, {}, [['folder', 'asc']])
    return all.filter(({ folder }) => isAllowed(folder)).map(modelOf)
  })
  if (encoded === undefined) return request.sendJson(200, { object: 'list', data: listed.slice(0, MODELS_MAX) })
  const id = decodeModel(encoded)
  request.sendJson(200, listed.find((model) => model.id === id) ?? refuseModel(id))
}

function refuseModel(id: string): never {
  throw noModel(id)
}

function modelOf({ folder, added_at }: Pick<z.output<typeof Group>, 'folder' | 'added_at'>) {
  return { id: folder, object: 'model', created: Math.floor(Date.parse(added_at) / 1000), owned_by: 'svc' }
}

/** Folders have slashes, which clients encode. */
function decodeModel(encoded: string): string {
  try {
    return decodeURIComponent(encoded)
  } catch {
    return encoded
  }
}
