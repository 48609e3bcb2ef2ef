// Messages and their states. Only for the command line and the dashboard; agents and people read the history of their chats.
import { z } from 'zod'
import { principalOf } from '../core/access/caller.ts'
import { CursorTime, ceilToMillisecond } from '../core/chats/time-cursor.ts'
import { groups } from '../core/groups/groups.ts'
import { InboxState, inbox } from '../core/messages/inbox.ts'
import { ListedMessage, ListedState, listMessages, MessageDirection } from '../core/messages/message-list.ts'
import { retryMessage, type StartedRetry } from '../core/messages/message-retries.ts'
import { listIdsWithPrefix, listMessageStates, MessageState, readRoutedSeq } from '../core/messages/message-states.ts'
import { findFolderOfMessage, readReceivedStory, readSentStory } from '../core/messages/message-story.ts'
import { readTurnLog } from '../core/turns/turn-log-files.ts'
import { turns } from '../core/turns/turns.ts'
import { ChatName, Folder, line, multilineText, pageLimit } from '../core/values.ts'
import { Refusal, refuse } from '../lib/refusal.ts'
import { findMessages, readFoundMessages } from '../permissions/message-search.ts'
import { hasVisibleMessages, visibleMessages } from '../permissions/visible-messages.ts'
import { listTurnCalls } from '../registry/audit.ts'
import { canOperate, INSTANCE_SCOPE, operatorOn, operatorWho, requireOperator } from '../registry/authorization.ts'
import type { Context, RequestContext } from '../registry/context.ts'
import { Paging } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'
import type { Tx } from '../store/engine.ts'

const TOOL_CALLS_MAX = 200
const SEQS_MAX = 10_000
const RETRIES_MAX = 200
const QUERY_MAX = 2000

const Id = z.object({ id: line(256) })

const Filters = z.object({
  folder: Folder.optional(),
  state: ListedState.optional(),
  chat: ChatName.optional(),
  sender: line(256).optional().describe('Only messages of exactly this sender'),
  direction: MessageDirection.default('in').describe('in: received; out: sent'),
  since: CursorTime.optional().describe('Only messages that arrived at this RFC 3339 time or later'),
  until: CursorTime.optional().describe('Only messages that arrived before this time'),
})

const toMs = (time: string | undefined): number | undefined =>
  time === undefined ? undefined : Date.parse(ceilToMillisecond(time))

/** With a folder, its administrators; without one, everyone who administers a folder, who then sees the messages of it. */
const requireVisibleMessages = operatorWho<{ folder?: string | undefined }>((ctx, { folder }) =>
  folder === undefined ? hasVisibleMessages(ctx) : canOperate(ctx, folder),
)

const Retried = z.object({
  id: z.string(),
  kind: z.enum(['message', 'delivery']),
  state: z.enum(['waiting', 'pending']),
  folder: z.string().optional(),
})

const RetryResult = z.object({ id: z.string(), error: z.string().optional().describe('Why it was not retried') })

export const inboxResource = defineResource({
  of: inbox,
  title: 'Inbox',
  servedBy: [],
  verbs: () => ({
    states: defineVerb({
      isReadOnly: true,
      input: z.object({
        folder: Folder.optional(),
        state: InboxState.optional(),
        limit: pageLimit(50, 1000),
        after: z.int().optional(),
        seqs: z.array(z.int()).max(SEQS_MAX).optional(),
      }),
      output: z.object({ messages: z.array(MessageState), routed: z.int() }),
      authorize: operatorOn(({ folder = INSTANCE_SCOPE }) => folder),
      run: async ({ tx }, request) => {
        const found = await listMessageStates(tx, request)
        const { folder } = request
        if (found.length === 0 && folder !== undefined) await mustBeKnownFolder(tx, folder)
        return { messages: found, routed: await readRoutedSeq(tx) }
      },
    }),

    /** Newest first, with a cursor that goes back in time. */
    list: defineVerb({
      isReadOnly: true,
      input: Filters.extend({ limit: pageLimit(50, 200), after: Paging.shape.after }),
      output: z.object({
        messages: z.array(ListedMessage),
        next: z.string().optional(),
        searched_back_to: z
          .string()
          .optional()
          .describe('Set if the page ended early: earlier messages are on the next'),
      }),
      authorize: requireVisibleMessages,
      run: async (ctx, { since, until, ...filter }) => {
        const visible = await visibleMessages(ctx)
        return listMessages(ctx.tx, { ...filter, since: toMs(since), until: toMs(until), ...visible })
      },
    }),

    /** Full-text search, best match first. */
    search: defineVerb({
      isReadOnly: true,
      input: Filters.extend({
        query: multilineText(QUERY_MAX)
          .refine((value) => value.trim() !== '', 'must not be empty')
          .describe('Full-text syntax: word, "a phrase", a OR b, a NOT b, prefix*, NEAR(a b, 5)'),
        folder: Folder.optional().describe('This folder and those below it'),
        direction: MessageDirection.default('all'),
        limit: pageLimit(50, 200),
        after: Paging.shape.after,
      }),
      authorize: requireVisibleMessages,
      prepare: (request, input) => findMessages(request, 'inbox.search', input),
      run: async (ctx, { until, state, direction, limit, after }, found) =>
        readFoundMessages(ctx, found, { until: toMs(until), state, direction, limit, after }),
    }),

    /** Everything about one message, received or sent. */
    details: defineVerb({
      isReadOnly: true,
      input: Id,
      authorize: operatorOn(({ id }, ctx) => scopeOfMessage(ctx, id)),
      run: readStory,
    }),

    /** The end of the log of the message's last turn. */
    log: defineVerb({
      isReadOnly: true,
      input: Id.extend({ lines: pageLimit(200, 1000) }),
      output: z.object({ lines: z.array(z.string()), is_cut: z.boolean() }).optional(),
      authorize: operatorOn(({ id }, ctx) => scopeOfLog(ctx, id)),
      prepare: (request, { id, lines }) => readLog(request, id, lines),
      run: async (_ctx, _input, tail) => tail as Awaited<ReturnType<typeof readLog>>,
    }),

    /** Message ids with a prefix, so that operators can abbreviate them. */
    ids: defineVerb({
      isReadOnly: true,
      input: z.object({ prefix: line(256), limit: pageLimit(10, 100) }),
      output: z.object({ ids: z.array(z.string()) }),
      authorize: requireOperator,
      run: async ({ tx }, { prefix, limit }) => ({ ids: await listIdsWithPrefix(tx, prefix, limit) }),
    }),

    /** See docs/decisions.md#retries-by-people. */
    retry: defineVerb({
      input: Id,
      output: Retried,
      authorize: operatorOn(({ id }, ctx) => scopeOfMessage(ctx, id)),
      appendsMessages: true,
      run: async (ctx, { id }) => {
        const { jid: _, ...retried } = await retry(ctx, id)
        return retried
      },
    }),

    /** Messages that cannot be retried are reported, the others are retried. */
    retry_all: defineVerb({
      input: z.object({ ids: z.array(line(256)).min(1).max(RETRIES_MAX) }),
      output: z.object({ retried: z.int(), results: z.array(RetryResult) }),
      authorize: operatorWho(async (ctx, { ids }) => {
        const scopes = new Set<string>()
        for (const id of ids) scopes.add(await scopeOfMessage(ctx, id))
        for (const scope of scopes) if (!(await canOperate(ctx, scope))) return false
        return true
      }),
      appendsMessages: true,
      run: async (ctx, { ids }) => {
        const results: z.output<typeof RetryResult>[] = []
        for (const id of new Set(ids)) results.push({ id, ...(await tryRetry(ctx, id)) })
        return { retried: results.filter(({ error }) => error === undefined).length, results }
      },
    }),
  }),
})

async function retry(ctx: Context, id: string): Promise<StartedRetry> {
  const { dialect, clock, routes, signals } = ctx
  const retried = await retryMessage(ctx.tx, { dialect, clock, routes, actor: principalOf(ctx.caller) }, id)
  ctx.afterCommit(() => signals.emit([id, retried.jid], [retried.kind === 'message' ? 'turns' : 'outbox']))
  return retried
}

/** A refusal comes before any change of the message, so the other retries of the transaction are kept. */
async function tryRetry(ctx: Context, id: string): Promise<{ error?: string }> {
  try {
    await retry(ctx, id)
    return {}
  } catch (error) {
    if (error instanceof Refusal && ['conflict', 'not_found'].includes(error.code)) return { error: error.message }
    throw error
  }
}

/** Parts that belong to a folder that the caller does not administer are left out, such as the turn of a delegate. */
async function readStory(ctx: Context, { id }: z.output<typeof Id>) {
  const { tx } = ctx
  const { maySee } = await visibleMessages(ctx)
  const ofVisible = <T extends { readonly folder?: string | undefined }>(rows: readonly T[]): T[] =>
    rows.filter(({ folder }) => maySee(folder))
  const received = await readReceivedStory(tx, ctx.routes, id)
  if (received) {
    const { turn, siblings, ...story } = received
    const isTurnShown = turn === undefined || maySee(turn.folder)
    const shown = isTurnShown ? { turn } : { turn: undefined, answers: [], costs: [] }
    return {
      ...story,
      ...shown,
      is_turn_hidden: !isTurnShown,
      siblings: ofVisible(siblings),
      tool_calls: turn && isTurnShown ? await listTurnCalls(tx, turn.id, TOOL_CALLS_MAX) : [],
    }
  }
  const sent = await readSentStory(tx, id)
  if (!sent) return refuse('not_found', `no message with id ${id}`)
  return { ...sent, answered: ofVisible(sent.answered) }
}

export type MessageStory = Awaited<ReturnType<typeof readStory>>

/** Messages that no folder has belong to the instance. */
async function scopeOfMessage({ tx }: Pick<Context, 'tx'>, id: string): Promise<string> {
  return (await findFolderOfMessage(tx, id)) ?? INSTANCE_SCOPE
}

/** The log belongs to the folder of the turn, which may be that of a delegate. */
async function scopeOfLog(ctx: Context, id: string): Promise<string> {
  return (await findTurnOfMessage(ctx.tx, id))?.folder ?? scopeOfMessage(ctx, id)
}

async function findTurnOfMessage(tx: Tx, id: string) {
  const turn_id = (await inbox.find(tx, { id }))?.turn_id
  return turn_id === undefined ? undefined : turns.find(tx, { id: turn_id })
}

async function readLog({ host }: RequestContext, id: string, lines: number) {
  const { layout, engine, clock } = host
  const turn = layout && (await engine.read((tx) => findTurnOfMessage(tx, id)))
  const tail = layout && turn && (await readTurnLog(layout, turn, { lines, now: clock.now() }))
  return tail && { lines: [...tail.lines], is_cut: tail.is_cut }
}

/** A removed group may still have messages; a mistyped name has none. */
async function mustBeKnownFolder(tx: Tx, folder: string): Promise<void> {
  if ((await groups.find(tx, { folder })) || (await inbox.find(tx, { folder }))) return
  refuse('not_found', `there is no group ${folder}`)
}
