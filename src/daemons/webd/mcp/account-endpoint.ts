// MCP with a bearer token: the messaging tools for all groups of a person, and the tools for proxyd routes for operators.
import type { Handler } from 'hono'
import { CallRateLimiters } from '../../../core/access/call-rate-limit.ts'
import { claimsOf } from '../../../core/access/caller.ts'
import { checkAccess } from '../../../core/access/policy.ts'
import { readChatHistory } from '../../../core/chats/chat-history.ts'
import { groups } from '../../../core/groups/groups.ts'
import { routeTokens } from '../../../core/links/route-tokens.ts'
import { mustHaveStorage, type StorageQuotas } from '../../../core/links/storage-use.ts'
import { recordInbound } from '../../../core/messages/inbound.ts'
import { lockMessageOrder } from '../../../core/messages/messages.ts'
import { writeContextOf } from '../../../core/turns/rounds.ts'
import { createMcpServer } from '../../../faces/mcp.ts'
import { createToolList, resourceTools } from '../../../faces/tool-list.ts'
import { problemResponse, readBodyBytes } from '../../../lib/http/http.ts'
import { Refusal, refuse } from '../../../lib/refusal.ts'
import { INSTANCE_SCOPE } from '../../../registry/authorization.ts'
import type { InstanceHost, RequestContext } from '../../../registry/context.ts'
import { type Tool, ToolNotListed } from '../../../registry/tool.ts'
import { proxydRoutesResource } from '../../../resources/proxyd-routes.ts'
import type { Tx } from '../../../store/engine.ts'
import { requestAuthenticator } from '../../http/credentials.ts'
import { mcpAudience, mcpChallenge } from '../../http/mcp-resource.ts'
import { incomingOf } from '../../http/request-middleware.ts'
import { noSession, openMcpExchanges, SESSION_HEADER } from './http-exchange.ts'
import { type GroupMessaging, messagingTools } from './messaging-tools.ts'
import { mustBeOwnOrigin } from './origin-check.ts'

export interface AccountMcpOptions {
  readonly host: InstanceHost
  bodyMax(): number
  readonly quotas: StorageQuotas
  /** Called for unexpected errors. */
  readonly onError: (error: unknown, tool: string) => void
}

export interface OpenAccountMcp {
  readonly handle: Handler
  close(): Promise<void>
}

type Person = Extract<RequestContext['caller'], { kind: 'person' }>
type PersonCall = RequestContext & { readonly caller: Person }

const GROUPS_MAX = 1000

export function openAccountMcp({ host, bodyMax, quotas, onError }: AccountMcpOptions): OpenAccountMcp {
  const authenticate = requestAuthenticator(host, [mcpAudience(host)])
  const rateLimiters = new CallRateLimiters(() => host.limits.toolCallsPerSecond, host.clock, host.metrics)
  const messaging = messagingTools((call: PersonCall) => accountMessaging(call, quotas))
  const routes = resourceTools([proxydRoutesResource]).map(hideFromNonOperators)
  const list = createToolList<PersonCall>([...messaging, ...routes])
  const listTools = async (call: PersonCall) => {
    const hasAccess = await accessCheckFor(call)
    const hidden = new Set(
      routes.filter(({ name }) => !hasAccess(`mcp:${name}`, INSTANCE_SCOPE)).map(({ name }) => name),
    )
    return list.definitions.filter(({ name }) => !hidden.has(name))
  }
  const { exchange, close } = openMcpExchanges((call: PersonCall) =>
    createMcpServer(
      { list, requestContext: () => call, admit: ({ caller }) => rateLimiters.take(caller.sub), onError },
      listTools,
    ),
  )
  const handle: Handler = async (c) => {
    const authenticated = await Promise.resolve(authenticate(c)).catch(onlyUnauthenticated)
    if (authenticated instanceof Refusal) {
      c.error = authenticated
      const hasBearer = c.req.header('Authorization') !== undefined
      const challenge = mcpChallenge(host, hasBearer ? 'invalid_token' : undefined)
      return problemResponse(authenticated, { 'WWW-Authenticate': challenge })
    }
    const { caller, ...context } = authenticated
    if (caller.kind !== 'person') {
      const refusal = new Refusal('forbidden', 'these tools are for people, not for services')
      return problemResponse(refusal, { 'WWW-Authenticate': mcpChallenge(host, 'insufficient_scope') })
    }
    const header = (name: string): string | undefined => c.req.header(name)
    const local = incomingOf(c)?.socket.localAddress
    await mustBeOwnOrigin(host, { origin: header('origin'), host: header('host'), local })
    if (header(SESSION_HEADER) !== undefined) throw noSession()
    if (c.req.method !== 'POST')
      return problemResponse(new Refusal('not_allowed', 'this path allows only POST'), { Allow: 'POST' })
    const body = await readBodyBytes(c.req.raw, bodyMax())
    return exchange({ header, body, signal: c.req.raw.signal }, { ...context, caller, face: 'tool' })
  }
  return { handle, close }
}

/** The challenge tells clients where to sign in; other errors are left to the error handler. */
function onlyUnauthenticated(error: unknown): Refusal {
  if (error instanceof Refusal && error.code === 'unauthenticated') return error
  throw error
}

type AccessCheck = (action: string, scope: string) => boolean

/** Checks against the current policy. See docs/decisions.md#rights-are-read-at-every-call. */
async function accessCheckFor({ host, caller }: PersonCall, tx?: Tx): Promise<AccessCheck> {
  const read = (within: Tx) => host.policies.read(within)
  const policy = tx ? await read(tx) : await host.engine.read(read)
  const subject = { principal: caller.sub, claims: claimsOf(caller) }
  return (action, scope) => checkAccess(policy, subject, { action, scope }).allow
}

/** To callers without the grant, the tool does not exist, whether they call it correctly or not. */
function hideFromNonOperators(tool: Tool): Tool<PersonCall> {
  return {
    ...tool,
    run: async (call, args) => {
      try {
        return await tool.run(call, args)
      } catch (error) {
        if (error instanceof Refusal && !(await accessCheckFor(call))(`mcp:${tool.name}`, INSTANCE_SCOPE))
          throw new ToolNotListed(tool.name)
        throw error
      }
    },
  }
}

function accountMessaging(call: PersonCall, quotas: StorageQuotas): GroupMessaging {
  const { host, caller } = call
  const { engine, signals } = host
  const writeContext = writeContextOf(host)

  /** Checks access before existence, so that a refusal does not reveal whether the group exists. */
  async function mustReach(tx: Tx, target: string | undefined): Promise<string> {
    const folder = target ?? caller.folder ?? refuse('invalid', 'folder is required', 'list_groups shows the groups')
    if (!(await accessCheckFor(call, tx))('interact', folder))
      refuse('forbidden', `you may not interact with ${folder}`)
    if (!(await groups.find(tx, { folder }))) refuse('not_found', `there is no group ${folder}`)
    return folder
  }

  return {
    groups: () =>
      engine.read(async (tx) => {
        const hasAccess = await accessCheckFor(call, tx)
        const all = await groups.list(tx, {}, [['folder', 'asc']])
        const reachable = all.filter(({ folder }) => hasAccess('interact', folder))
        const shown = reachable.slice(0, GROUPS_MAX).map(({ folder, name }) => ({ folder, name }))
        return reachable.length > GROUPS_MAX ? { groups: shown, truncated: true } : { groups: shown }
      }),

    send: async (target, { content, topic, content_type }) => {
      const { folder, received } = await engine.transaction(async (tx) => {
        // Take the lock before reading: rows that were read while waiting for it would be stale.
        await lockMessageOrder(tx, engine.dialect)
        const folder = await mustReach(tx, target)
        await mustOwnChat(tx, folder)
        await mustHaveStorage(tx, quotas, { jid: chatOf(folder), folder, bytes: content.byteLength })
        const received = await recordInbound(tx, writeContext, {
          jid: chatOf(folder),
          target_folder: folder,
          sender: caller.sub,
          topic: topic ?? undefined,
          content,
          // Routing extends it where the person administers the folder.
          reach: 'work',
          content_type: content_type ?? undefined,
          hasRound: true,
        })
        return { folder, received }
      })
      signals.emit(received.keys)
      return { turn_id: received.id, folder }
    },

    history: (target, query) =>
      engine.read(async (tx) => {
        const folder = await mustReach(tx, target)
        return { messages: await readChatHistory(tx, { jid: chatOf(folder), folder, ...query }), folder }
      }),
  }
}

/** Otherwise the holder of that link could read the messages of another folder. */
async function mustOwnChat(tx: Tx, folder: string): Promise<void> {
  const link = await routeTokens.find(tx, { jid: chatOf(folder) })
  if (link && (link.target_folder ?? folder) !== folder)
    refuse('conflict', `the chat of ${folder} belongs to a link of another folder`, 'revoke that link first')
}

function chatOf(folder: string): string {
  return `web:${folder}`
}
