// Routes: which folder gets a message. The lowest `seq` is tried first, then the oldest row.
import { z } from 'zod'
import { ROOT_FOLDER } from '../core/access/tiers.ts'
import { describeRoutes } from '../core/routing/route-descriptions.ts'
import { moveRoute } from '../core/routing/route-order.ts'
import {
  isRouteWithin,
  MATCH_KEYS,
  parseRouteTarget,
  Route,
  routes,
  routeTargetFolder,
} from '../core/routing/routes.ts'
import { Folder, jsonText } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { mustNotTakeOverChats } from '../permissions/route-access.ts'
import {
  actingFolder,
  adminFilter,
  INSTANCE_SCOPE,
  mustHaveTool,
  operatorOn,
  requireTool,
  requireToolForAgents,
} from '../registry/authorization.ts'
import type { Context } from '../registry/context.ts'
import { ascending, listVerb, mustFindGroup, mustFindRow, mustFindRowWithTool } from '../registry/crud.ts'
import { defineResource, defineVerb, toolArguments } from '../registry/resource.ts'

const NewRoute = Route.omit({ id: true }).extend({
  seq: Route.shape.seq.default(0),
  match: Route.shape.match.default(''),
})
type NewRoute = z.output<typeof NewRoute>
const ExplainedRoute = Route.extend({
  mode: z.string(),
  explain: z.string(),
  shadowed_by: z
    .union([Route, z.literal('another folder')])
    .optional()
    .describe('An earlier route that takes all of its messages'),
})
const AS_JSON =
  'A JSON object: target (a folder, or folder:<path>, daemon:<name>, builtin:<name>), ' +
  `match (key=glob pairs; keys ${MATCH_KEYS.join(', ')}; empty matches everything), seq (whole number, lower is tried first)`

export const routesResource = defineResource({
  of: routes,
  title: 'Routes',
  servedBy: 'routd',
  exported: { key: ['seq', 'match', 'target'], omit: ['id'], ordered: { within: 'seq', counter: 'id' } },
  verbs: (table) => ({
    list: listVerb(table, 'routes', {
      authorize: requireToolForAgents,
      order: ascending('seq', 'id'),
      keep: async (ctx) => {
        const mayAdmin = await adminFilter(ctx)
        return ({ target }) => mayAdmin(routeTargetFolder(target))
      },
      when: 'List the routes from chats to folders, in the order in which they are tried.',
      tool: 'list_routes',
      tiers: { max: 1 },
      toolReply: ({ routes }) => ({ routes }),
    }),

    /** Routes to a folder with what each means. Only for the command line and the dashboard. */
    of_folder: defineVerb({
      isReadOnly: true,
      input: z.object({ folder: Folder }),
      output: z.object({ routes: z.array(ExplainedRoute) }),
      authorize: operatorOn(({ folder }) => folder),
      run: async (ctx, { folder }) => {
        await mustFindGroup(ctx, folder)
        const compiled = await ctx.routes()
        const mayAdmin = await adminFilter(ctx)
        const routes = describeRoutes(compiled.routes, compiled.routesTo(folder)).map(({ shadowed_by, ...route }) => {
          const shadow = compiled.routes.find(({ id }) => id === shadowed_by)
          if (!shadow) return route
          // Routes of folders that the person does not administer are not shown.
          const isVisible = mayAdmin(routeTargetFolder(shadow.target))
          return { ...route, shadowed_by: isVisible ? shadow : ('another folder' as const) }
        })
        return { routes }
      },
    }),

    /** Moves a route before or after its neighbour among the routes of its folder. */
    move: defineVerb({
      input: Route.pick({ id: true }).extend({ to: z.enum(['up', 'down']) }),
      authorize: operatorOn(async ({ id }, { tx }) => {
        const route = await table.find(tx, { id })
        return route ? routeTargetFolder(route.target) : INSTANCE_SCOPE
      }),
      run: async (ctx, { id, to }) => {
        const route = await mustFindRow(ctx, table, { id }, `route ${id}`)
        const folder = routeTargetFolder(route.target)
        const own = (await ctx.routes()).routesTo(folder)
        const changed = moveRoute(own, id, to)
        if (!changed) refuse('conflict', `route ${id} is ${to === 'up' ? 'first' : 'last'} already`)
        await mustNotTakeOverChats(
          ctx,
          changed.filter(({ seq, id: each }) => seq < (own.find((old) => old.id === each)?.seq ?? seq)),
        )
        for (const { id: each, seq } of changed) await table.update(ctx.tx, { id: each }, { seq })
      },
    }),

    create: defineVerb({
      http: 'POST /',
      status: 201,
      tool: 'add_route',
      tiers: { max: 1, granted: 1 },
      when: 'Route the messages of a chat to a folder.',
      input: NewRoute,
      toolInput: toolArguments({ route: jsonText(NewRoute.strict()).describe(AS_JSON) }, ({ route }) => route),
      output: Route,
      toolReply: ({ id }) => ({ id }),
      authorize: requireTool(({ target }: NewRoute) => routeTargetFolder(target)),
      run: async (ctx, route) => {
        const { seq, match, target } = route
        if (await table.find(ctx.tx, { seq, match, target })) refuse('conflict', 'this route exists already')
        await mustNotTakeOverChats(ctx, [{ seq, match }])
        return table.insertReturning(ctx.tx, route)
      },
    }),

    update: defineVerb({
      http: 'PATCH /{id}',
      input: Route.partial({ seq: true, match: true, target: true }),
      output: Route,
      authorize: async (ctx, { id, target }) => {
        await mustFindOwnRoute(ctx, id)
        if (target !== undefined) await mustHaveTool(ctx, routeTargetFolder(target))
      },
      run: async (ctx, { id, ...patch }) => {
        const route = await mustFindRow(ctx, table, { id }, `route ${id}`)
        const { seq = route.seq, match = route.match } = patch
        if (seq < route.seq || match !== route.match) await mustNotTakeOverChats(ctx, [{ id, seq, match }])
        await table.update(ctx.tx, { id }, patch)
        return mustFindRow(ctx, table, { id }, `route ${id}`)
      },
    }),

    delete: defineVerb({
      http: 'DELETE /{id}',
      tool: 'delete_route',
      tiers: { max: 1, granted: 1 },
      when: 'Delete the route of a chat to a folder.',
      input: Route.pick({ id: true }),
      output: z.object({ deleted: z.boolean(), id: z.int() }),
      authorize: async (ctx, { id }) => {
        const route = await mustFindOwnRoute(ctx, id)
        if (isOwnDefault(ctx, route)) refuse('forbidden', 'your own default route cannot be deleted')
      },
      run: async (ctx, { id }) => {
        await table.remove(ctx.tx, { id })
        return { deleted: true, id }
      },
    }),

    set: defineVerb({
      tool: 'set_routes',
      tiers: { max: 1, granted: 1 },
      when: 'Replace all routes of your folder and the folders below it.',
      input: z.object({ routes: z.array(NewRoute.strict()).max(10_000) }),
      toolInput: toolArguments(
        {
          routes: jsonText(z.array(NewRoute.strict()).max(10_000)).describe(`A JSON array; each entry is: ${AS_JSON}`),
        },
        (args) => args,
      ),
      output: z.object({ updated: z.literal(true), count: z.int() }),
      authorize: async (ctx, { routes }) => {
        const folder = await actingFolder(ctx)
        // The whole subtree, because routes of denied folders in it would be replaced too.
        await mustHaveTool(ctx, folder === ROOT_FOLDER ? '**' : `${folder}/**`)
        const outside = routes.find(({ target }) => !isIn(folder, target))
        if (outside) refuse('forbidden', `${ctx.tool}: not permitted: ${outside.target} is outside ${folder}`)
      },
      run: async (ctx, input) => ({ updated: true as const, count: await replaceSubtree(ctx, input.routes) }),
    }),
  }),
})

function mustFindOwnRoute(ctx: Context, id: number): Promise<z.output<typeof Route>> {
  const scopeOf = ({ target }: { readonly target: string }): string => routeTargetFolder(target)
  return mustFindRowWithTool(ctx, routes, { id }, { label: `route ${id}`, scopeOf })
}

/** Routes to daemons and built-in handlers belong to the root. */
function isIn(folder: string, target: string): boolean {
  return folder === ROOT_FOLDER || isRouteWithin(folder, target)
}

function isOwnDefault({ caller }: Context, { seq, target }: { seq: number; target: string }): boolean {
  if (caller.kind !== 'agent' || seq !== 0) return false
  const parsed = parseRouteTarget(target)
  return parsed?.kind === 'folder' && parsed.name === caller.folder && parsed.fragment === undefined
}

/** Unchanged routes keep their id. */
async function replaceSubtree(ctx: Context, wanted: readonly NewRoute[]): Promise<number> {
  const folder = await actingFolder(ctx)
  const owned = (await routes.list(ctx.tx)).filter(({ target }) => isIn(folder, target))
  if (owned.some((route) => isOwnDefault(ctx, route)) && !wanted.some((route) => isOwnDefault(ctx, route))) {
    refuse('forbidden', 'your own default route cannot be deleted', 'include it in the new list')
  }
  const keyOf = ({ seq, match, target }: NewRoute) => JSON.stringify([seq, match, target])
  const wantedKeys = new Set(wanted.map(keyOf))
  if (wantedKeys.size < wanted.length) refuse('invalid', 'the list contains a route twice')
  const ids = new Map(owned.map((route) => [keyOf(route), route.id]))
  await mustNotTakeOverChats(
    ctx,
    wanted.filter((route) => !ids.has(keyOf(route))),
  )
  for (const route of owned) if (!wantedKeys.has(keyOf(route))) await routes.remove(ctx.tx, { id: route.id })
  for (const { observe_window_messages, observe_window_chars, ack_reaction, ...route } of wanted) {
    const id = ids.get(keyOf(route))
    const settings = { observe_window_messages, observe_window_chars, ack_reaction }
    if (id === undefined) await routes.insertReturning(ctx.tx, { ...route, ...settings })
    else await routes.update(ctx.tx, { id }, settings)
  }
  return wanted.length
}
