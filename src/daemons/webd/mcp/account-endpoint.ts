// MCP with a bearer token: the tools of a link, for all groups of a person. See docs/decisions.md#mcp-at-a-link.
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
import { createToolList } from '../../../faces/tool-list.ts'
import { problemResponse, readBodyBytes } from '../../../lib/http/http.ts'
import { Refusal, refuse } from '../../../lib/refusal.ts'
import type { InstanceHost, RequestContext } from '../../../registry/context.ts'
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
  const list = createToolList(messagingTools((call: PersonCall) => accountMessaging(call, quotas)))
  const { exchange, close } = openMcpExchanges((call: PersonCall) =>
    createMcpServer(
      { list, requestContext: () => call, admit: ({ caller }) => rateLimiters.take(caller.sub), onError },
      () => list.definitions,
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

/** Checks against the current policy. See docs/decisions.md#rights-are-read-at-every-call. */
async function interactionCheck({ host, caller }: PersonCall, tx: Tx): Promise<(folder: string) => boolean> {
  const policy = await host.policies.read(tx)
  const subject = { principal: caller.sub, claims: claimsOf(caller) }
  return (scope) => checkAccess(policy, subject, { action: 'interact', scope }).allow
}

function accountMessaging(call: PersonCall, quotas: StorageQuotas): GroupMessaging {
  const { host, caller } = call
  const { engine, signals } = host
  const writeContext = writeContextOf(host)

  /** Checks access before existence, so that a refusal does not reveal whether the group exists. */
  async function mustReach(tx: Tx, target: string | undefined): Promise<string> {
    const folder = target ?? caller.folder ?? refuse('invalid', 'folder is required', 'list_groups shows the groups')
    if (!(await interactionCheck(call, tx))(folder)) refuse('forbidden', `you may not interact with ${folder}`)
    if (!(await groups.find(tx, { folder }))) refuse('not_found', `there is no group ${folder}`)
    return folder
  }

  return {
    groups: () =>
      engine.read(async (tx) => {
        const mayInteract = await interactionCheck(call, tx)
        const all = await groups.list(tx, {}, [['folder', 'asc']])
        const reachable = all.filter(({ folder }) => mayInteract(folder))
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
