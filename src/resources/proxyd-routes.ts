// Routes of the front door: which backend answers which path. Stored with the rest, served by proxyd.
import { z } from 'zod'
import { line, text } from '../core/values.ts'
import { WebPath } from '../core/web-routes.ts'
import { refuse } from '../lib/refusal.ts'
import { list, mustFind } from '../registry/crud.ts'
import { granted, INSTANCE } from '../registry/needs.ts'
import { resource, verb } from '../registry/resource.ts'
import { Table } from '../store/table.ts'

const ProxydRoute = z
  .object({
    path: WebPath.describe('With a trailing / a prefix, without one exactly this path'),
    backend: text(backendFault).optional().describe('Where to: http://host:port'),
    auth: z.enum(['public', 'user', 'operator']).describe('Who may pass'),
    gated_by: text((value) => (/^[A-Z][A-Z0-9_]{0,63}$/.test(value) ? undefined : 'must look like SOME_SETTING'))
      .optional()
      .describe('The setting that must be present for this route to exist'),
    redirect_to: line(1024).optional().describe('Where the client is sent instead of a backend'),
    preserve_headers: z
      .array(text((value) => (/^[A-Za-z0-9-]{1,64}$/.test(value) ? undefined : 'must be a header name')))
      .max(32)
      .optional(),
    strip_prefix: z.boolean().optional().describe('Whether the backend sees the path without the prefix'),
  })
  .meta({ id: 'ProxydRoutes' })

type ProxydRoute = z.output<typeof ProxydRoute>

function backendFault(value: string): string | undefined {
  const url = URL.parse(value)
  if (!url || !/^https?:$/.test(url.protocol)) return 'must be an http:// or https:// URL'
  return url.username || url.password ? 'must not hold a password' : undefined
}

function routeFault({ path, backend, redirect_to }: ProxydRoute): string | undefined {
  if ((backend === undefined) === (redirect_to === undefined))
    return `${path}: one of backend and redirect_to is required`
  if (redirect_to === undefined || /^\/(?![/\\])/.test(redirect_to)) return undefined
  return /^https?:\/\//.test(redirect_to) ? undefined : `${path}: redirect_to must be a path or an http(s) URL`
}

const proxydRoutes = new Table({
  name: 'proxyd_routes',
  row: ProxydRoute,
  key: 'path',
  storage: [
    `create table proxyd_routes (
       path text primary key, backend text, auth text not null, gated_by text, redirect_to text,
       preserve_headers text, strip_prefix boolean)`,
  ],
})

const operators = granted(() => INSTANCE)

export const proxydRoutesResource = resource({
  of: proxydRoutes,
  title: 'ProxydRoutes',
  servedBy: 'proxyd',
  exported: { check: (rows) => rows.map(routeFault).find((fault) => fault !== undefined) },
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
      output: ProxydRoute,
      needs: operators,
      run: async (ctx, route) => {
        const fault = routeFault(route)
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
        const fault = routeFault(route)
        if (fault) refuse('invalid', fault)
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
