// Topics of a folder and their sessions. Only for the command line and the dashboard; agents have tools of their own.
import { z } from 'zod'
import { displayTopic, isVisitorConversation } from '../core/routing/routing-decision.ts'
import { Conversation, conversations, forceNewSession, SessionLog, sessionLog } from '../core/turns/conversations.ts'
import { costLog } from '../core/turns/costs.ts'
import { forkTopic } from '../core/turns/topic-forks.ts'
import { checkedText, Folder, line, pageLimit } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { operatorOn } from '../registry/authorization.ts'
import { mustFindGroup, Paging, readPage } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

const NewTopic = line(128)
/** Topics of visitors contain a chat's name and are longer than new ones. */
const ExistingTopic = checkedText((value) =>
  value === '' ? undefined : line(2000).safeParse(value).error?.issues[0]?.message,
)

const TopicSummary = Conversation.pick({
  topic: true,
  waiting: true,
  turn_id: true,
  parent_topic: true,
  updated_at: true,
}).extend({
  label: z.string().describe('The topic as people see it; empty for the main topic'),
  is_visitor: z.boolean(),
  has_session: z.boolean().describe('Whether the next turn continues a session'),
})

const SessionEvent = SessionLog.pick({
  id: true,
  event: true,
  turn_id: true,
  message_count: true,
  error: true,
  started_at: true,
  ended_at: true,
}).extend({
  input_tokens: z.int().optional(),
  output_tokens: z.int().optional(),
  cost_cents: z.int().optional(),
})

export const conversationsResource = defineResource({
  of: conversations,
  title: 'Conversations',
  servedBy: [],
  verbs: (table) => ({
    list: defineVerb({
      isReadOnly: true,
      input: Paging.extend({ folder: Folder }),
      output: z.object({ topics: z.array(TopicSummary), next: z.string().optional() }),
      authorize: operatorOn(({ folder }) => folder),
      run: async (ctx, { folder, ...paging }) => {
        await mustFindGroup(ctx, folder)
        const { rows, next } = await readPage(ctx, table, { where: { folder }, order: [['topic', 'asc']], ...paging })
        return { topics: rows.map(summarize), ...(next === undefined ? {} : { next }) }
      },
    }),

    /** Turns, resets and forks of one topic, the latest first. */
    history: defineVerb({
      isReadOnly: true,
      input: z.object({ folder: Folder, topic: ExistingTopic, limit: pageLimit(20, 100), after: Paging.shape.after }),
      output: z.object({ events: z.array(SessionEvent), next: z.string().optional() }),
      authorize: operatorOn(({ folder }) => folder),
      run: async (ctx, { folder, topic, ...paging }) => {
        const request = { where: { folder, topic }, order: [['id', 'desc']], ...paging } as const
        const { rows, next } = await readPage(ctx, sessionLog, request)
        const events = []
        for (const { folder: _, topic: __, session_id: ___, result: ____, ...event } of rows) {
          const { turn_id } = event
          const costs = turn_id === undefined ? [] : await costLog.list(ctx.tx, { folder, turn_id })
          events.push({ ...event, ...(costs.length > 0 ? sumCosts(costs) : {}) })
        }
        return { events, ...(next === undefined ? {} : { next }) }
      },
    }),

    /** The next turn starts a new session, in one topic or in all of them. */
    reset: defineVerb({
      input: z.object({ folder: Folder, topic: ExistingTopic.optional() }),
      output: z.object({ reset: z.int() }),
      authorize: operatorOn(({ folder }) => folder),
      run: async (ctx, { folder, topic }) => {
        await mustFindGroup(ctx, folder)
        const reset = await forceNewSession(ctx.tx, folder, topic, ctx.now)
        if (topic !== undefined && reset === 0) refuse('not_found', `${folder} has no topic ${JSON.stringify(topic)}`)
        return { reset }
      },
    }),

    fork: defineVerb({
      input: z.object({
        folder: Folder,
        parent: ExistingTopic.describe('The topic to start from; empty for the main topic'),
        child: NewTopic.describe('The new topic'),
      }),
      authorize: operatorOn(({ folder }) => folder),
      run: async (ctx, { folder, parent, child }) => {
        await mustFindGroup(ctx, folder)
        if (await table.find(ctx.tx, { folder, topic: child }))
          refuse('conflict', `${folder} has a topic ${JSON.stringify(child)} already`, 'choose another name')
        await forkTopic(ctx.tx, { folder, parent, child, isForced: false }, ctx.now)
      },
    }),
  }),
})

function summarize(row: Conversation): z.output<typeof TopicSummary> {
  const { topic, waiting, turn_id, parent_topic, updated_at, session_id, parent_session } = row
  return {
    topic,
    label: displayTopic(topic),
    is_visitor: isVisitorConversation(topic),
    waiting,
    has_session: (session_id ?? parent_session) !== undefined,
    updated_at,
    ...(turn_id === undefined ? {} : { turn_id }),
    ...(parent_topic === undefined ? {} : { parent_topic }),
  }
}

type TurnCost = Awaited<ReturnType<typeof costLog.list>>[number]

function sumCosts(costs: readonly TurnCost[]) {
  const sum = (read: (cost: TurnCost) => number): number => costs.reduce((total, cost) => total + read(cost), 0)
  return {
    input_tokens: sum((cost) => cost.input_tokens),
    output_tokens: sum((cost) => cost.output_tokens),
    cost_cents: sum((cost) => cost.cost_cents),
  }
}
