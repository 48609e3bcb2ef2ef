// Full-text search for people at the dashboard. The index is asked outside the transaction, with the rights of the person;
// the rows that it found are read, and the rights checked again, in the transaction.
import { principalOf } from '../core/access/caller.ts'
import { isRestrictedWithin } from '../core/access/policy.ts'
import { ceilToMillisecond } from '../core/chats/time-cursor.ts'
import { groups } from '../core/groups/groups.ts'
import type { ListedMessage, MessageListFilter } from '../core/messages/message-list.ts'
import { readListedByIds, readListPosition } from '../core/messages/message-list.ts'
import { quoteHint } from '../core/search/query-hint.ts'
import type { SearchHit } from '../core/search/search-index.ts'
import { refuse } from '../lib/refusal.ts'
import { type AdministrationContext, subjectOf } from '../registry/authorization.ts'
import type { Context, RequestContext } from '../registry/context.ts'
import { writeCursor } from '../store/cursor.ts'
import type { Tx } from '../store/engine.ts'
import { QuerySyntaxRefusal } from '../store/search/full-text.ts'
import { visibleMessages } from './visible-messages.ts'

/** Hits that the index returns at most. The filters that it does not know apply to these. */
const HITS_MAX = 200

const SYNTAX_HINT = 'search for single words, or put the text in quotes: "a phrase"'

export interface MessageQuery {
  readonly query: string
  readonly folder?: string | undefined
  readonly chat?: string | undefined
  readonly sender?: string | undefined
  readonly since?: string | undefined
}

export interface FoundByText extends ListedMessage {
  /** A part of the text with the hits in « and ». */
  readonly snippet: string
}

export async function findMessages(request: RequestContext, tool: string, query: MessageQuery): Promise<SearchHit[]> {
  const { host, caller } = request
  const index =
    host.search ??
    refuse('unavailable', 'this process has no search index', 'it needs the data directory of the instance')
  const policy = await host.engine.read((tx) => host.policies.read(tx))
  const ctx: AdministrationContext = { caller, tool, params: {}, policy: async () => policy }
  const { roots, maySee } = await visibleMessages(ctx)
  const isWhole = caller.kind === 'host' || (!roots && !isRestrictedWithin(policy, subjectOf(caller), '**'))
  const all = isWhole ? [] : await host.engine.read((tx) => listFolders(tx, roots))
  const except = all.filter((folder) => !maySee(folder))
  const { folder: below, chat: jid, sender, since } = query
  try {
    return await index.search({
      ...{ query: query.query, below, jid, sender, limit: HITS_MAX, reach: roots, except },
      since: since === undefined ? undefined : ceilToMillisecond(since),
      requester: principalOf(caller),
    })
  } catch (error) {
    // Only the tool `find_messages` passes on the message of the engine.
    if (error instanceof QuerySyntaxRefusal)
      refuse('invalid', 'the search text has a syntax error', quoteHint(query.query) ?? SYNTAX_HINT)
    throw error
  }
}

async function listFolders(tx: Tx, roots: readonly string[] | undefined): Promise<string[]> {
  const { rows } = await groups.page(tx, {
    order: [['folder', 'asc']],
    below: roots && { column: 'folder', paths: roots },
    limit: Number.MAX_SAFE_INTEGER - 1,
  })
  return rows.map(({ folder }) => folder)
}

/** One page of the hits, best first. `is_capped`: there may be further matches, which a narrower query finds. */
export async function readFoundMessages(
  ctx: Context,
  found: unknown,
  filter: Pick<MessageListFilter, 'until' | 'state' | 'direction'> & {
    readonly limit: number
    readonly after?: string | undefined
  },
): Promise<{ messages: FoundByText[]; next?: string; is_capped: boolean }> {
  // `findMessages` is the `prepare` of the verb.
  const hits = found as readonly SearchHit[]
  const { until = Number.POSITIVE_INFINITY, state, direction, limit, after } = filter
  const from = after === undefined ? 0 : readListPosition(after)
  const snippets = new Map(hits.map(({ id, content }) => [id, content]))
  const { maySee } = await visibleMessages(ctx)
  const listed = await readListedByIds(
    ctx.tx,
    hits.map(({ id }) => id),
  )
  const matching = listed.filter(
    (message) =>
      maySee(message.folder) &&
      Date.parse(message.created_at) < until &&
      (state === undefined || message.state === state) &&
      (direction === 'all' || message.direction === direction),
  )
  const end = from + limit
  return {
    messages: matching.slice(from, end).map((message) => ({ ...message, snippet: snippets.get(message.id) ?? '' })),
    ...(matching.length > end ? { next: writeCursor([end]) } : {}),
    is_capped: hits.length === HITS_MAX,
  }
}
