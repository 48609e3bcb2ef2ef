// Routes of the front door: which backend answers which path. Stored with the rest, served by proxyd.
import { isFrontPath } from '../core/front-paths.ts'
import { ProxydRoute, proxydRouteFault, proxydRoutes } from '../core/proxyd-routes.ts'
import { refuse } from '../lib/refusal.ts'
import { list, mustFind } from '../registry/crud.ts'
import { granted, INSTANCE } from '../registry/needs.ts'
import { resource, verb } from '../registry/resource.ts'

const operators = granted(() => INSTANCE)

export const proxydRoutesResource = resource({
  of: proxydRoutes,
  title: 'ProxydRoutes',
  servedBy: 'proxyd',
  exported: { check: (rows) => rows.map(proxydRouteFault).find((fault) => fault !== undefined) },
  verbs: (table) => ({
    list: list(table, 'proxyd_routes', {
      needs: operators,
      order: [['path', 'asc']],
      when: 'See which backends stand behind the front door.',
    }),

    create: verb({
      http: 'POST /',
      status: 201,
      when: 'Put a backend behind a path of the front door.',
      input: ProxydRoute,
      memberRules: {
        if: { required: ['backend'] },
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
        then: { not: { required: ['redirect_to'] } },
        else: { required: ['redirect_to'] },
      },
      output: ProxydRoute,
      needs: operators,
      run: async (ctx, route) => {
        if (isFrontPath(route.path)) refuse('forbidden', `${route.path} belongs to the front door`)
        const fault = proxydRouteFault(route)
        if (fault) refuse('invalid', fault)
        if (await table.find(ctx.tx, { path: route.path })) refuse('conflict', `${route.path} has a route already`)
        return table.add(ctx.tx, route)
      },
    }),

    update: verb({
      http: 'PATCH /{path}',
      when: 'Change what stands behind a path of the front door.',
      input: ProxydRoute.partial({ auth: true }),
      output: ProxydRoute,
      needs: operators,
      run: async (ctx, { path, ...patch }) => {
        await table.update(ctx.tx, { path }, patch)
        const route = await mustFind(ctx, table, { path }, `route ${path}`)
        const fault = proxydRouteFault(route)
        if (fault) refuse('conflict', fault)
        return route
      },
    }),

    delete: verb({
      http: 'DELETE /{path}',
      when: 'Take a backend away from the front door.',
      input: ProxydRoute.pick({ path: true }),
      needs: operators,
      run: async (ctx, { path }) => {
        if ((await table.remove(ctx.tx, { path })) === 0) refuse('not_found', `there is no route ${path}`)
      },
    }),
  }),
})
