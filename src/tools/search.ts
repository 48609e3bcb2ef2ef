// Full-text search of messages.
import { z } from 'zod'
import { principalOf } from '../core/access/caller.ts'
import { isToolDenied } from '../core/access/policy.ts'
import { mayReachFolder, ROOT_FOLDER } from '../core/access/tiers.ts'
import { CursorTime, ceilToMillisecond } from '../core/chats/time-cursor.ts'
import { groups } from '../core/groups/groups.ts'
import { quoteHint } from '../core/search/query-hint.ts'
import type { SearchRequest } from '../core/search/search-index.ts'
import { ChatName, checkedText, Folder, line, multilineText, pageLimit } from '../core/values.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import { mustReachChat, otherVisitors } from '../permissions/chat-access.ts'
import {
  adminFilter,
  administeredRoots,
  hasTool,
  INSTANCE_SCOPE,
  requireToolForAgents,
} from '../registry/authorization.ts'
import type { Context, InstanceHost } from '../registry/context.ts'
import type { NamedVerb } from '../registry/resource.ts'
import { defineTool } from '../registry/tool.ts'
import { chatVisibility } from './chat/chat-visibility.ts'

/** Long queries are slow for all users of the index. */
const QUERY_MAX = 2000

const Scope = checkedText(
  (value) => (value.includes(':') ? ChatName : Folder).safeParse(value).error?.issues[0]?.message,
).describe('A chat, such as web:team; or a folder, which includes those below it')

const SearchInput = z.object({
  query: multilineText(QUERY_MAX)
    .refine((value) => value.trim() !== '', 'must not be empty')
    .describe('Full-text syntax: word, "a phrase", a OR b, a NOT b, prefix*, NEAR(a b, 5); at most 32 words'),
  scope: Scope.optional(),
  sender: line(256).optional().describe('Only messages of exactly this sender'),
  since: CursorTime.optional().describe('Only messages of this RFC 3339 time or later'),
  limit: pageLimit(20, 200),
})
type SearchInput = z.output<typeof SearchInput>

/** The part of the index that the caller may search. */
interface SearchScope extends Pick<SearchRequest, 'reach' | 'except'> {
  /** A chat or a folder. */
  readonly scope: string | undefined
  /** Filters the hits by folder and chat, in addition to `reach` and `except`. */
  readonly maySee: (folder: string | undefined, jid: string) => boolean
}

export const searchTools: readonly NamedVerb[] = [
  defineTool({
    name: 'find_messages',
    reach: 'chat',
    tiers: { granted: 2 },
    when: 'Search messages by text: best match first, then newest, with « and » around each hit.',
    activity: 'Searching messages',
    input: SearchInput,
    isAvailable: ({ search }) => search !== undefined,
    authorize: async (ctx, given) => {
      const scope = await scopeOf(ctx, given)
      if (scope?.includes(':')) return mustReachChat(ctx, scope)
      await requireToolForAgents(ctx)
      if (scope !== undefined) await mustReachFolder(ctx, scope)
    },
    isReadOnly: true,
    run: searchScope,
    finish: ({ host, caller }, scope, input) => search(host, principalOf(caller), scope, input),
  }),
]

async function mustReachFolder(ctx: Context, folder: string): Promise<void> {
  const { caller } = ctx
  if (ctx.reach === 'chat')
    refuse('forbidden', `${ctx.tool}: not permitted on ${folder}, because visitors may use it only in their own chat`)
  if (caller.kind === 'agent' && !mayReachFolder(caller.folder, folder))
    refuse('forbidden', `${ctx.tool}: the folder ${folder} is outside ${caller.folder}`)
  if (!(await hasTool(ctx, folder))) refuse('forbidden', `${ctx.tool}: not permitted on ${folder}`)
}

/** A turn of reach `chat` searches its own chat by default. */
async function scopeOf(ctx: Context, { scope }: SearchInput): Promise<string | undefined> {
  return scope ?? (ctx.reach === 'chat' ? (await ctx.turn())?.jid : undefined)
}

async function searchScope(ctx: Context, given: SearchInput): Promise<SearchScope> {
  const scope = await scopeOf(ctx, given)
  if (scope?.includes(':')) {
    const { folders } = await chatVisibility(ctx, scope)
    return { scope, reach: folders, maySee: () => true }
  }
  const [reach, mayAdmin, isOther] = [await administeredRoots(ctx), await adminFilter(ctx), await otherVisitors(ctx)]
  if (await isUnrestricted(ctx)) return { scope, reach, maySee: (_, jid) => !isOther(jid) }
  const denied = (await groups.list(ctx.tx)).map(({ folder }) => folder).filter((folder) => !mayAdmin(folder))
  const maySeeAll = await hasTool(ctx, INSTANCE_SCOPE)
  const maySee = (folder: string | undefined, jid: string): boolean =>
    !isOther(jid) && (folder === undefined ? maySeeAll : mayAdmin(folder))
  return { scope, reach, except: denied, maySee }
}

/** Whether no row denies a part of the subtree. Checked first, because listing all folders is slow. */
async function isUnrestricted({ caller, tool, params, policy }: Context): Promise<boolean> {
  if (caller.kind === 'host') return true
  if (caller.kind !== 'agent') return false
  const scope = caller.folder === ROOT_FOLDER ? '**' : `${caller.folder}/**`
  return !isToolDenied(await policy(), caller.folder, { tool, scope, params })
}

async function search(
  host: InstanceHost,
  requester: string,
  { scope, reach, except, maySee }: SearchScope,
  input: SearchInput,
) {
  const { query, sender, since, limit } = input
  const index = host.search ?? refuse('unavailable', 'this process has no search index')
  const request: SearchRequest = {
    query,
    ...(scope?.includes(':') ? { jid: scope } : { below: scope }),
    sender,
    since: since === undefined ? undefined : ceilToMillisecond(since),
    limit,
    requester,
    reach,
    except,
  }
  try {
    const hits = (await index.search(request)).filter(({ folder, chat_jid }) => maySee(folder, chat_jid))
    const messages = hits.map(({ folder: _, ...hit }) => hit)
    return { messages, count: messages.length, source: 'local-db' }
  } catch (error) {
    if (error instanceof Refusal)
      refuse(
        error.code,
        `find_messages: ${error.message}`,
        error.hint ?? (error.code === 'invalid' ? quoteHint(query) : undefined),
      )
    throw error
  }
}
