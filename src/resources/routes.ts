// Routes: which folder a message goes to. Lower `seq` first, then the older row.
import { z } from 'zod'
import { isWithin, MATCH_KEYS, Route, readTarget, routes, scopeOfTarget } from '../core/routes.ts'
import { ROOT } from '../core/tiers.ts'
import { jsonText } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import type { Context } from '../registry/context.ts'
import { list, mustFind } from '../registry/crud.ts'
import { adminFilter, granted, listed, mustHaveTool, mustHaveToolOver, ownFolder } from '../registry/needs.ts'
import { resource, verb } from '../registry/resource.ts'
import { mustTakeNoChat } from '../registry/route-needs.ts'

const NewRoute = Route.omit({ id: true }).extend({
  seq: Route.shape.seq.default(0),
  match: Route.shape.match.default(''),
})
type NewRoute = z.output<typeof NewRoute>
const AS_JSON =
  'A JSON object: target (a folder, or folder:<path>, daemon:<name>, builtin:<name>), ' +
  `match (key=glob pairs; keys ${MATCH_KEYS.join(', ')}; empty matches everything), seq (whole number, lower is tried first)`

export const routesResource = resource({
  of: routes,
  title: 'Routes',
  servedBy: 'routd',
  exported: { key: ['seq', 'match', 'target'], omit: ['id'], ordered: { within: 'seq', counter: 'id' } },
  verbs: (table) => ({
    list: list(table, 'routes', {
      needs: listed,
      order: [
        ['seq', 'asc'],
        ['id', 'asc'],
      ],
      keep: async (ctx) => {
        const mayAdmin = await adminFilter(ctx)
        return ({ target }) => mayAdmin(scopeOfTarget(target))
      },
      when: 'See which chats lead to which folder, in the order in which they are tried.',
      tool: 'list_routes',
      toolReply: ({ routes }) => ({ routes }),
    }),

    create: verb({
      http: 'POST /',
      status: 201,
      tool: 'add_route',
      when: 'Send the messages of a chat to a folder.',
      input: NewRoute,
      toolInput: z
        .strictObject({ route: jsonText(NewRoute.strict()).describe(AS_JSON) })
        .transform(({ route }) => route),
      output: Route,
      toolReply: ({ id }) => ({ id }),
      needs: granted(({ target }: NewRoute) => scopeOfTarget(target)),
      run: async (ctx, route) => {
        const { seq, match, target } = route
        if (await table.find(ctx.tx, { seq, match, target })) refuse('conflict', 'there is such a route already')
        await mustTakeNoChat(ctx, [{ seq, match }])
        return table.add(ctx.tx, route)
      },
    }),

    update: verb({
      http: 'PATCH /{id}',
      input: Route.partial({ seq: true, match: true, target: true }),
      output: Route,
      needs: async (ctx, { id, target }) => {
        const route = await mustFind(ctx, table, { id }, `route ${id}`)
        await mustHaveToolOver(ctx, scopeOfTarget(route.target), `route ${id}`)
        if (target !== undefined) await mustHaveTool(ctx, scopeOfTarget(target))
      },
      run: async (ctx, { id, ...patch }) => {
        const route = await mustFind(ctx, table, { id }, `route ${id}`)
        const { seq = route.seq, match = route.match } = patch
        if (seq < route.seq || match !== route.match) await mustTakeNoChat(ctx, [{ id, seq, match }])
        await table.update(ctx.tx, { id }, patch)
        return mustFind(ctx, table, { id }, `route ${id}`)
      },
    }),

    delete: verb({
      http: 'DELETE /{id}',
      tool: 'delete_route',
      when: 'Stop sending the messages of a chat to a folder.',
      input: Route.pick({ id: true }),
      output: z.object({ deleted: z.boolean(), id: z.int() }),
      needs: async (ctx, { id }) => {
        const route = await mustFind(ctx, table, { id }, `route ${id}`)
        await mustHaveToolOver(ctx, scopeOfTarget(route.target), `route ${id}`)
        if (isOwnDefault(ctx, route)) refuse('forbidden', 'your own default route cannot be deleted')
      },
      run: async (ctx, { id }) => {
        await table.remove(ctx.tx, { id })
        return { deleted: true, id }
      },
    }),

    set: verb({
      tool: 'set_routes',
      when: 'Replace all routes of your folder and the folders below it.',
      input: z.object({ routes: z.array(NewRoute.strict()).max(10_000) }),
      toolInput: z.strictObject({
        routes: jsonText(z.array(NewRoute.strict()).max(10_000)).describe(`A JSON array; each entry is: ${AS_JSON}`),
      }),
      output: z.object({ updated: z.literal(true), count: z.int() }),
      needs: async (ctx, { routes }) => {
        const folder = await ownFolder(ctx)
        // All of the subtree: what is replaced is also what lies where the caller may be denied.
        await mustHaveTool(ctx, folder === ROOT ? '**' : `${folder}/**`)
        const outside = routes.find(({ target }) => !isIn(folder, target))
        if (outside) refuse('forbidden', `${ctx.tool}: not permitted: ${outside.target} lies outside ${folder}`)
      },
      run: async (ctx, input) => ({ updated: true as const, count: await replaceSubtree(ctx, input.routes) }),
    }),
  }),
})

/** What leads to a daemon or a built-in handler is the root's. */
function isIn(folder: string, target: string): boolean {
  return folder === ROOT || isWithin(folder, target)
}

function isOwnDefault({ caller }: Context, { seq, target }: { seq: number; target: string }): boolean {
  if (caller.kind !== 'agent' || seq !== 0) return false
  const read = readTarget(target)
  return read?.kind === 'folder' && read.name === caller.folder && read.fragment === undefined
}

/** What stays keeps its id. */
async function replaceSubtree(ctx: Context, wanted: readonly NewRoute[]): Promise<number> {
  const folder = await ownFolder(ctx)
  const owned = (await routes.list(ctx.tx)).filter(({ target }) => isIn(folder, target))
  if (owned.some((route) => isOwnDefault(ctx, route)) && !wanted.some((route) => isOwnDefault(ctx, route))) {
    refuse('forbidden', 'your own default route cannot be deleted', 'put it into the new list')
  }
  const name = ({ seq, match, target }: NewRoute) => JSON.stringify([seq, match, target])
  const names = new Set(wanted.map(name))
  if (names.size < wanted.length) refuse('invalid', 'the list names one route twice')
  const known = new Set(owned.map(name))
  await mustTakeNoChat(
    ctx,
    wanted.filter((route) => !known.has(name(route))),
  )
  for (const route of owned) if (!names.has(name(route))) await routes.remove(ctx.tx, { id: route.id })
  const kept = new Map(owned.map((route) => [name(route), route.id]))
  for (const { observe_window_messages, observe_window_chars, ...route } of wanted) {
    const id = kept.get(name(route))
    const windows = { observe_window_messages, observe_window_chars }
    if (id === undefined) await routes.add(ctx.tx, { ...route, ...windows })
    else await routes.update(ctx.tx, { id }, windows)
  }
  return wanted.length
}
