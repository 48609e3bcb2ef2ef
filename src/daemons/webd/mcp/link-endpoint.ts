// MCP at a link: the tools for the one group of the link. See docs/decisions.md#mcp-at-a-link.
import { once } from 'node:events'
import { CallRateLimiters } from '../../../core/access/call-rate-limit.ts'
import { folderBaseName } from '../../../core/access/tiers.ts'
import { readChatHistory } from '../../../core/chats/chat-history.ts'
import { groups } from '../../../core/groups/groups.ts'
import { routeTokens } from '../../../core/links/route-tokens.ts'
import { createMcpServer } from '../../../faces/mcp.ts'
import { createToolList } from '../../../faces/tool-list.ts'
import { clientNetwork } from '../../../lib/http/client-network.ts'
import { SSE_CONTENT_TYPE } from '../../../lib/http/sse-writer.ts'
import { publicRefusal, Refusal, refuse } from '../../../lib/refusal.ts'
import type { InstanceHost } from '../../../registry/context.ts'
import type { Tool } from '../../../registry/tool.ts'
import { latin1, linkFolder } from '../link-cache.ts'
import { type LinkPostContext, mustBeLink, postMessage } from '../link-post.ts'
import type { LinkRequest } from '../link-request.ts'
import { chatOwnerOf, findChatVisitor, mustBeOwner, NO_LINK } from '../link-visitor.ts'
import { mustBeWithinLimit, readBody } from '../request-body.ts'
import type { EventFeed, StreamGuard, Streams } from '../streams.ts'
import { ofVisitor } from '../visitor-key.ts'
import { type McpExchange, noSession, openMcpExchanges, SESSION_HEADER } from './http-exchange.ts'
import { type GroupMessaging, messagingTools, type NamedGroup } from './messaging-tools.ts'
import { mustBeOwnPage } from './origin-check.ts'

export type LinkMcp = (request: LinkRequest) => Promise<void>

export interface LinkMcpOptions {
  readonly posting: LinkPostContext
  readonly streams: Streams
  /** Called for unexpected errors. */
  readonly onError: (error: unknown, tool: string) => void
}

export interface OpenLinkMcp {
  readonly handle: LinkMcp
  close(): Promise<void>
}

const ALLOW = 'GET, POST, OPTIONS'
/** From this protocol version on, clients open no stream with GET. */
const FIRST_STATELESS_VERSION = '2026-07-28'

/** A request and its link. */
interface LinkToolCall {
  readonly request: LinkRequest
  readonly hash: Uint8Array
  readonly jid: string
  readonly group: NamedGroup
  readonly guard: StreamGuard | undefined
}

export function openLinkMcp({ posting, streams, onError }: LinkMcpOptions): OpenLinkMcp {
  const { host } = posting
  const rateLimiters = new CallRateLimiters(() => host.limits.toolCallsPerSecond, host.clock, host.metrics)
  const list = createToolList(
    messagingTools((call: LinkToolCall) => linkMessaging(posting, call)).map((tool) => hideInternals(tool, onError)),
  )
  const { exchange, close } = openMcpExchanges((call: LinkToolCall) =>
    createMcpServer(
      { list, requestContext: () => call, admit: ({ hash }) => rateLimiters.take(latin1(hash)), onError },
      () => list.definitions,
    ),
  )
  const handle: LinkMcp = async (request) => {
    // Checks the token before the protocol: without a link there is no group to talk to.
    const call = await findCall(host, request)
    await mustBeOwnPage(host, request)
    const { headers, method } = request.incoming
    if (headers[SESSION_HEADER] !== undefined) throw noSession()
    if (method === 'GET') await openEmptyStream(streams, call)
    else await handlePost(posting, exchange, call)
  }
  return { handle, close }
}

/** Wraps a tool so that its refusals reveal no internal detail to clients. */
function hideInternals(tool: Tool<LinkToolCall>, onError: LinkMcpOptions['onError']): Tool<LinkToolCall> {
  return {
    ...tool,
    run: async (call, args) => {
      try {
        return await tool.run(call, args)
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        if (error.code === 'unavailable') onError(error, tool.name)
        throw publicRefusal(error)
      }
    },
  }
}

async function findCall(host: InstanceHost, request: LinkRequest): Promise<LinkToolCall> {
  const hash = mustBeLink(host, request)
  const visitor = await findChatVisitor(host, request)
  return host.engine.read(async (tx) => {
    const row = await routeTokens.find(tx, { token_hash: hash })
    if (!row) throw NO_LINK
    const owner = chatOwnerOf(row)
    await mustBeOwner(host, tx, owner, visitor)
    const folder = linkFolder(row) ?? ''
    const name = (await groups.find(tx, { folder }))?.name ?? folderBaseName(folder)
    const { jid } = ofVisitor(host, request, row)
    return { request, hash, jid, group: { folder, name }, guard: owner && visitor && { owner, visitor } }
  })
}

function linkMessaging(posting: LinkPostContext, { request, hash, jid, group }: LinkToolCall): GroupMessaging {
  const { host, links } = posting
  const { folder } = group
  const mustBeLinkFolder = (target: string | undefined): void => {
    if (target !== undefined && target !== folder) refuse('forbidden', `this link is only for ${folder}`)
  }
  return {
    groups: async () => ({ groups: [group] }),
    send: async (target, message) => {
      mustBeLinkFolder(target)
      const key = latin1(hash)
      const link = links.cached(key) ?? (await links.find(key))
      if (!link) throw NO_LINK
      const { id } = await postMessage(posting, request, link, message)
      return { turn_id: id, folder }
    },
    history: async (target, query) => {
      mustBeLinkFolder(target)
      return { messages: await host.engine.read((tx) => readChatHistory(tx, { jid, folder, ...query })), folder }
    },
  }
}

async function handlePost(
  { budget, bodyMax }: LinkPostContext,
  exchange: McpExchange<LinkToolCall>,
  call: LinkToolCall,
): Promise<void> {
  const { request } = call
  const { incoming, response } = request
  // The client may have disconnected during the link lookup.
  if (incoming.destroyed || response.destroyed) return
  const disconnect = new AbortController()
  response.once('close', () => disconnect.abort())
  const max = bodyMax()
  mustBeWithinLimit(incoming, max)
  const body = await readBody(request, max, budget)
  try {
    const header = (name: string): string | undefined => request.header(name)
    const { signal } = disconnect
    await relay(request, await exchange({ header, body, signal }, call), signal)
  } finally {
    budget.release(body.byteLength)
  }
}

/** Sends the response at the pace of the client. */
async function relay(request: LinkRequest, { status, headers, body }: Response, signal: AbortSignal): Promise<void> {
  const { response } = request
  if (signal.aborted) return void request.logResponse(status)
  const type = headers.get('content-type')
  const shownHeaders = { ...(type === null ? {} : { 'Content-Type': type }), 'X-Accel-Buffering': 'no' }
  if (!body) return request.sendEmpty(status, shownHeaders)
  request.startStream(shownHeaders, status)
  for await (const chunk of body) {
    if (!response.write(chunk)) await once(response, 'drain', { signal }).catch(() => {})
    if (signal.aborted) return
  }
  response.end()
}

/** Clients of older protocol versions open a stream for server messages. There are none; the stream ends with the link. */
async function openEmptyStream(streams: Streams, { request, hash, jid, guard }: LinkToolCall): Promise<void> {
  const { response } = request
  const version = request.header('mcp-protocol-version') ?? ''
  if (version >= FIRST_STATELESS_VERSION || !request.header('accept')?.includes(SSE_CONTENT_TYPE))
    return request.refuse(new Refusal('not_allowed', 'this path allows only POST'), { Allow: ALLOW })
  const link = { key: latin1(hash), hash }
  const network = clientNetwork(request.client)
  streams.mustHaveCapacity(link.key, network)
  request.startStream({ 'Content-Type': SSE_CONTENT_TYPE, 'X-Accel-Buffering': 'no' })
  await streams.subscribe(emptyFeed(jid), { response, after: 0, link, network, guard })
}

function emptyFeed(jid: string): EventFeed {
  const emptyPage = { events: [], until: 0, isMore: false, isOver: false }
  return { kind: 'chat', name: `mcp ${jid}`, read: async () => emptyPage }
}
