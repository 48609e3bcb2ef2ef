// Tools that show routes, sessions, tasks and identities, filtered by the caller's reach.
import { z } from 'zod'
import { Identity, identities, identityClaims } from '../core/people/identities.ts'
import { findChatFolder } from '../core/routing/chat-folder.ts'
import { describeRoutes } from '../core/routing/route-descriptions.ts'
import { Route, routes, routeTargetFolder } from '../core/routing/routes.ts'
import { ScheduledTask, scheduledTasks, TaskRunLog, taskRunLogs } from '../core/schedule/tasks.ts'
import { conversations, sessionLog } from '../core/turns/conversations.ts'
import { ChatName, line, multilineText, pageLimit, Sub } from '../core/values.ts'
import { otherVisitors } from '../permissions/chat-access.ts'
import { mustSeeTask, visibleTaskFilter } from '../permissions/task-access.ts'
import {
  actingFolder,
  adminFilter,
  administeredRoots,
  INSTANCE_SCOPE,
  readableFolderFilter,
  requireToolForAgents,
} from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { ascending, mustFindRow, mustFindRowWithTool } from '../registry/crud.ts'
import type { NamedVerb } from '../registry/resource.ts'
import { defineTool } from '../registry/tool.ts'
import { subtree, withinSubtrees } from '../store/sql-conditions.ts'
import { integer, optional, query, text } from '../store/statement.ts'

const DescribedRoute = Route.extend({
  mode: z.string(),
  fires_turn: z.boolean(),
  triggers_on: z.string(),
  explain: z.string(),
  shadowed_by: z.int().optional(),
})
const ErroredChat = z.object({
  chat_jid: z.string(),
  count: z.int(),
  last_at: z.string(),
  routed_to: z.string().nullable(),
})
const SessionEntry = sessionLog.row.omit({ folder: true, topic: true })

/** Shared by all inspect tools; `reach` differs for inspect_tasks. */
const INSPECT = { reach: 'work', tiers: { granted: 2 }, authorize: requireToolForAgents, isReadOnly: true } as const

export const inspectTools: readonly NamedVerb[] = [
  defineTool({
    ...INSPECT,
    name: 'inspect_routing',
    when: 'List the routes to your folder and those below it and what each does, see where a chat is routed, and which chats had failures.',
    input: z.object({
      jid: ChatName.optional().describe('A chat, to see which folder it is routed to'),
      limit: pageLimit(50, 200),
    }),
    output: z.object({
      routes: z.array(DescribedRoute),
      errored: z.array(ErroredChat).optional(),
      jid: z.string().optional(),
      resolved_folder: z.string().optional(),
    }),
    run: inspectRouting,
  }),

  defineTool({
    ...INSPECT,
    name: 'inspect_session',
    when: 'See which session a topic of your folder continues, and how its latest turns went.',
    input: z.object({
      topic: multilineText(128).default('').describe('Topic; empty for the main topic'),
      limit: pageLimit(10, 100),
    }),
    output: z.object({
      folder: z.string(),
      topic: z.string(),
      session_id: z.string().nullable(),
      recent: z.array(SessionEntry),
    }),
    run: async (ctx, { topic, limit }) => {
      const folder = await actingFolder(ctx)
      const { rows } = await sessionLog.page(ctx.tx, { where: { folder, topic }, order: [['id', 'desc']], limit })
      const session_id = (await conversations.find(ctx.tx, { folder, topic }))?.session_id ?? null
      return { folder, topic, session_id, recent: rows.map(({ folder: _, topic: __, ...entry }) => entry) }
    },
  }),

  defineTool({
    ...INSPECT,
    name: 'inspect_tasks',
    reach: 'chat',
    when: 'List the scheduled tasks of your folder and those below it, or the latest runs of one task.',
    activity: 'Looking at scheduled tasks',
    input: z.object({
      task_id: line(320).optional().describe('One task, with its latest runs'),
      limit: pageLimit(50, 200),
    }),
    output: z.object({ tasks: z.array(ScheduledTask), runs: z.array(TaskRunLog).optional() }),
    authorize: async (ctx, { task_id }) => {
      await requireToolForAgents(ctx)
      if (task_id === undefined) return
      const scopeOf = ({ owner }: ScheduledTask): string => owner
      const labels = { label: `task ${task_id}`, scopeOf }
      await mustSeeTask(ctx, await mustFindRowWithTool(ctx, scheduledTasks, { id: task_id }, labels))
    },
    run: inspectTasks,
  }),

  defineTool({
    ...INSPECT,
    name: 'inspect_identity',
    when: 'See which other accounts belong to the same person. Informational only: it grants nothing.',
    input: z.object({ sub: Sub }),
    output: z.object({ sub: z.string(), identity: Identity.nullable(), subs: z.array(z.string()) }),
    run: async ({ tx }, { sub }) => {
      const claim = await identityClaims.find(tx, { sub })
      const identity = claim && (await identities.find(tx, { id: claim.identity_id }))
      if (!identity) return { sub, identity: null, subs: [] }
      const claims = await identityClaims.list(tx, { identity_id: identity.id }, ascending('claimed_at', 'sub'))
      return { sub, identity, subs: claims.map((each) => each.sub) }
    },
  }),
]

async function inspectRouting(ctx: Context, { jid, limit }: { jid?: string | undefined; limit: number }) {
  const maySee = await readableFolderFilter(ctx)
  const all = await routes.list(ctx.tx, {}, ascending('seq', 'id'))
  const visible = all.filter(({ target }) => maySee(routeTargetFolder(target))).slice(0, limit)
  const errored = await erroredChats(ctx, limit)
  const resolved = jid === undefined ? undefined : await findChatFolder(ctx.tx, jid, ctx.routes)
  return {
    routes: describeRoutes(all, visible),
    ...(errored.length > 0 ? { errored } : {}),
    ...(jid === undefined ? {} : { jid }),
    ...(resolved !== undefined && maySee(resolved) ? { resolved_folder: resolved } : {}),
  }
}

/** Chats with failed messages, newest failure first. */
async function erroredChats(ctx: Context, limit: number): Promise<z.output<typeof ErroredChat>[]> {
  const [roots, maySee, isOther] = [
    await administeredRoots(ctx),
    await readableFolderFilter(ctx),
    await otherVisitors(ctx),
  ]
  const inRoots = roots ? ` and ${withinSubtrees('folder', roots.length, 0)}` : ''
  const rows = await query(
    ctx.tx,
    { jid: text, folder: optional(text), count: integer, last_at: text },
    `select jid, folder, count(*) as count, max(message_seq) as last, max(updated_at) as last_at from inbox
     where state = 'failed'${inRoots} group by folder, jid order by last desc`,
    roots?.flatMap(subtree) ?? [],
  )
  return rows
    .filter(({ folder, jid }) => maySee(folder ?? INSTANCE_SCOPE) && !isOther(jid))
    .slice(0, limit)
    .map(({ jid, folder, count, last_at }) => ({ chat_jid: jid, count, last_at, routed_to: folder ?? null }))
}

async function inspectTasks(ctx: Context, { task_id, limit }: { task_id?: string | undefined; limit: number }) {
  if (task_id !== undefined) {
    const task = await mustFindRow(ctx, scheduledTasks, { id: task_id }, `task ${task_id}`)
    const order = [
      ['run_at', 'desc'],
      ['id', 'desc'],
    ] as const
    const { rows: runs } = await taskRunLogs.page(ctx.tx, { where: { task_id }, order, limit })
    return { tasks: [task], runs }
  }
  const [paths, mayAdmin, isVisible] = [
    await administeredRoots(ctx),
    await adminFilter(ctx),
    await visibleTaskFilter(ctx),
  ]
  const { rows: tasks } = await scheduledTasks.page(ctx.tx, {
    order: [
      ['created_at', 'desc'],
      ['id', 'desc'],
    ],
    below: paths && { column: 'owner', paths },
    keep: (task) => mayAdmin(task.owner) && isVisible(task),
    limit,
  })
  return { tasks }
}
