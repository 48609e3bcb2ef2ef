// The tools at a link: whoever has the link has its one group (decision L17).
import { once } from 'node:events'
import { CallRates } from '../../core/call-rate.ts'
import { groups } from '../../core/groups.ts'
import { readHistory } from '../../core/history.ts'
import { oldReading } from '../../core/resolve.ts'
import { routeTokens } from '../../core/route-tokens.ts'
import { nameOf } from '../../core/tiers.ts'
import { serverOf, toolList } from '../../faces/mcp.ts'
import { EVENT_STREAM } from '../../lib/event-stream.ts'
import { publicRefusal, Refusal, refuse } from '../../lib/refusal.ts'
import type { Host } from '../../registry/context.ts'
import type { Tool } from '../../registry/tool.ts'
import { declaredFault, readBody } from './body.ts'
import { latin1 } from './link-book.ts'
import type { LinkMcp } from './mcp.ts'
import { type Exchange, noSession, openExchanges, SESSION } from './mcp-exchange.ts'
import { mustBeOwnPage } from './mcp-origin.ts'
import { type NamedGroup, type Speaker, speakingTools } from './mcp-tools.ts'
import { mustBeLink, NO_LINK, type PostOffice, postSpoken } from './post.ts'
import type { Followed, Streams } from './streams.ts'
import type { Visit } from './visit.ts'

export interface LinkMcpOptions {
  readonly office: PostOffice
  readonly streams: Streams
  /** What nobody refused on purpose. */
  readonly onError: (error: unknown, tool: string) => void
}

export interface OpenLinkMcp {
  readonly answer: LinkMcp
  close(): Promise<void>
}

const ALLOW = 'GET, POST, OPTIONS'
/** From here on there is no stream to be opened by GET. */
const STATELESS = '2026-07-28'

/** One request, and the link that it came by. */
interface Asking {
  readonly visit: Visit
  readonly hash: Uint8Array
  readonly jid: string
  readonly group: NamedGroup
}

export function openLinkMcp({ office, streams, onError }: LinkMcpOptions): OpenLinkMcp {
  const { host } = office
  const calls = new CallRates(host.limits.toolCallsPerSecond, host.clock)
  const list = toolList(
    speakingTools((asking: Asking) => speakerAt(office, asking)).map((tool) => plain(tool, onError)),
  )
  const { exchange, close } = openExchanges((asking: Asking) =>
    serverOf({ list, asking: () => asking, admit: ({ hash }) => calls.take(latin1(hash)), onError }, () => list.shown),
  )
  const answer: LinkMcp = async (visit) => {
    // Before anything of the protocol: without a link there is nobody to speak with.
    const asking = await askingAt(host, visit)
    await mustBeOwnPage(host, visit)
    if (visit.request.headers[SESSION] !== undefined) throw noSession()
    if (visit.request.method === 'GET') await listen(streams, asking)
    else await converse(office, exchange, asking)
  }
  return { answer, close }
}

/** The same tool, whose refusals tell strangers nothing of the inside. */
function plain(tool: Tool<Asking>, onError: LinkMcpOptions['onError']): Tool<Asking> {
  return {
    ...tool,
    run: async (asking, args) => {
      try {
        return await tool.run(asking, args)
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        if (error.code === 'unavailable') onError(error, tool.name)
        throw publicRefusal(error)
      }
    },
  }
}

async function askingAt(host: Host, visit: Visit): Promise<Asking> {
  const hash = mustBeLink(host, visit)
  return host.engine.read(async (tx) => {
    const row = await routeTokens.find(tx, { token_hash: hash })
    if (!row) throw NO_LINK
    const folder = row.target_folder ?? oldReading(row.jid) ?? ''
    const name = (await groups.find(tx, { folder }))?.name ?? nameOf(folder)
    return { visit, hash, jid: row.jid, group: { folder, name } }
  })
}

function speakerAt(office: PostOffice, { visit, hash, jid, group }: Asking): Speaker {
  const { host, book } = office
  const { folder } = group
  const mustBePinned = (named: string | undefined): void => {
    if (named !== undefined && named !== folder) refuse('forbidden', `this link speaks with ${folder} alone`)
  }
  return {
    groups: async () => ({ groups: [group] }),
    send: async (named, spoken) => {
      mustBePinned(named)
      const key = latin1(hash)
      const link = book.known(key) ?? (await book.find(hash, key))
      if (!link) throw NO_LINK
      const { id } = await postSpoken(office, visit, link, spoken)
      return { turn_id: id, folder }
    },
    history: async (named, request) => {
      mustBePinned(named)
      return { messages: await host.engine.read((tx) => readHistory(tx, { jid, folder, ...request })), folder }
    },
  }
}

async function converse({ budget, bodyMax }: PostOffice, exchange: Exchange<Asking>, asking: Asking): Promise<void> {
  const { visit } = asking
  const { request, response } = visit
  // Whoever left while the link was looked for has said all there is to hear of them.
  if (request.destroyed || response.destroyed) return
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  const declared = declaredFault(request, bodyMax)
  if (declared) throw declared
  const body = await readBody(visit, bodyMax, budget)
  try {
    const header = (name: string): string | undefined => visit.header(name)
    await relay(visit, await exchange({ header, body, signal: gone.signal }, asking), gone.signal)
  } finally {
    budget.give(body.byteLength)
  }
}

/** At the pace of whoever reads it. */
async function relay(visit: Visit, { status, headers, body }: Response, gone: AbortSignal): Promise<void> {
  const { response } = visit
  if (gone.aborted) return void visit.noted(status)
  const type = headers.get('content-type')
  const shown = { ...(type === null ? {} : { 'Content-Type': type }), 'X-Accel-Buffering': 'no' }
  if (!body) return visit.empty(status, shown)
  visit.open(shown, status)
  for await (const chunk of body) {
    if (!response.write(chunk)) await once(response, 'drain', { signal: gone }).catch(() => {})
    if (gone.aborted) return
  }
  response.end()
}

/**
 * What clients of the first generation open to be told of what happens between their requests. Nothing does: all that
 * there is to be told is an answer. It ends with the link.
 */
async function listen(streams: Streams, { visit, hash, jid }: Asking): Promise<void> {
  const { response } = visit
  const version = visit.header('mcp-protocol-version') ?? ''
  if (version >= STATELESS || !visit.header('accept')?.includes(EVENT_STREAM))
    return visit.refuse(new Refusal('not_allowed', 'this path takes POST'), { Allow: ALLOW })
  const link = { key: latin1(hash), hash }
  streams.mustHaveRoom(link.key)
  visit.open({ 'Content-Type': EVENT_STREAM, 'X-Accel-Buffering': 'no' })
  await streams.follow(silence(jid), { response, after: 0, link })
}

function silence(jid: string): Followed {
  const nothing = { events: [], until: 0, isMore: false, isOver: false }
  return { kind: 'chat', name: `mcp ${jid}`, read: async () => nothing }
}
