// Routes of the front door: which backend answers which path. Stored with the rest, served by proxyd.

import { ProxydRoute, proxydRouteFault, proxydRoutes } from '../core/links/proxyd-routes.ts'
import { isReservedPath } from '../core/links/reserved-paths.ts'
import { refuse } from '../lib/refusal.ts'
import { INSTANCE_SCOPE, requireTool } from '../registry/authorization.ts'
import { createVerb, listVerb, removeVerb, updateVerb } from '../registry/crud.ts'
import { defineResource } from '../registry/resource.ts'

const operators = requireTool(() => INSTANCE_SCOPE)
const routeAt = ({ path }: { path: string }) => `route ${path}`

export const proxydRoutesResource = defineResource({
  of: proxydRoutes,
  title: 'ProxydRoutes',
  servedBy: 'proxyd',
  exported: { check: (rows) => rows.map(proxydRouteFault).find((fault) => fault !== undefined) },
  verbs: (table) => ({
    list: listVerb(table, 'proxyd_routes', {
      authorize: operators,
      order: [['path', 'asc']],
      when: 'See which backends stand behind the front door.',
    }),

    create: createVerb(table, {
      when: 'Put a backend behind a path of the front door.',
      input: ProxydRoute,
      memberRules: {
        if: { required: ['backend'] },
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
        then: { not: { required: ['redirect_to'] } },
        else: { required: ['redirect_to'] },
      },
      authorize: operators,
      what: routeAt,
      conflict: ({ path }) => `${path} has a route already`,
      check: (route) => {
        if (isReservedPath(route.path)) refuse('forbidden', `${route.path} belongs to the front door`)
        const fault = proxydRouteFault(route)
        if (fault) refuse('invalid', fault)
      },
    }),

    update: updateVerb(table, {
      when: 'Change what stands behind a path of the front door.',
      input: ProxydRoute.partial({ auth: true }),
      authorize: operators,
      what: routeAt,
      check: (route) => {
        const fault = proxydRouteFault(route)
        if (fault) refuse('conflict', fault)
      },
    }),

    delete: removeVerb(table, {
      when: 'Take a backend away from the front door.',
      input: ProxydRoute.pick({ path: true }),
      authorize: operators,
      what: routeAt,
    }),
  }),
})
