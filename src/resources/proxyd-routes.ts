// Routes of the front door: which backend serves which path. proxyd serves this resource.
import { ProxydRoute, proxydRouteFault, proxydRoutes } from '../core/links/proxyd-routes.ts'
import { isReservedFromRoutes } from '../core/links/reserved-paths.ts'
import { refuse } from '../lib/refusal.ts'
import { requireInstanceTool } from '../registry/authorization.ts'
import { createVerb, listVerb, removeVerb, updateVerb } from '../registry/crud.ts'
import { defineResource } from '../registry/resource.ts'

const describeRoute = ({ path }: { path: string }) => `route ${path}`

export const proxydRoutesResource = defineResource({
  of: proxydRoutes,
  title: 'ProxydRoutes',
  servedBy: 'proxyd',
  exported: { check: (rows) => rows.map(proxydRouteFault).find((fault) => fault !== undefined) },
  verbs: (table) => ({
    list: listVerb(table, 'proxyd_routes', {
      authorize: requireInstanceTool,
      order: [['path', 'asc']],
      when: 'List the routes of the front door and their backends.',
    }),

    create: createVerb(table, {
      when: 'Route a path of the front door to a backend, or redirect it.',
      input: ProxydRoute,
      memberRules: {
        if: { required: ['backend'] },
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
        then: { not: { required: ['redirect_to'] } },
        else: { required: ['redirect_to'] },
      },
      authorize: requireInstanceTool,
      label: describeRoute,
      conflict: ({ path }) => `${path} has a route already`,
      check: (route) => {
        if (isReservedFromRoutes(route.path)) refuse('forbidden', `${route.path} belongs to the front door`)
        const fault = proxydRouteFault(route)
        if (fault) refuse('invalid', fault)
      },
    }),

    update: updateVerb(table, {
      when: 'Change the backend or the redirect of a path of the front door.',
      input: ProxydRoute.partial({ auth: true }),
      authorize: requireInstanceTool,
      label: describeRoute,
      check: (route) => {
        const fault = proxydRouteFault(route)
        if (fault) refuse('conflict', fault)
      },
    }),

    delete: removeVerb(table, {
      when: 'Remove a route of the front door.',
      input: ProxydRoute.pick({ path: true }),
      authorize: requireInstanceTool,
      label: describeRoute,
    }),
  }),
})
