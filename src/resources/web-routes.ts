// Web routes: who may see a path of the front door, and where it redirects.
import { z } from 'zod'
import { containsFolder } from '../core/access/tiers.ts'
import { childNames } from '../core/groups/groups.ts'
import { proxydRoutes } from '../core/links/proxyd-routes.ts'
import {
  listPublishedFiles,
  PageBytes,
  PageFile,
  PageName,
  PageSlot,
  type PagesOwner,
  type PublishedFiles,
  pagePath,
  publishFile,
  unpublishFile,
} from '../core/links/published-pages.ts'
import { isReservedFromFolders, isReservedFromRoutes } from '../core/links/reserved-paths.ts'
import { webHosts } from '../core/links/web-hosts.ts'
import { WebPath, WebRoute, webPathFault, webRoutes } from '../core/links/web-routes.ts'
import { Folder } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import {
  actingFolder,
  hasTool,
  INSTANCE_SCOPE,
  operatorOn,
  requireTool,
  requireToolForAgents,
  requireToolOnOwnFolder,
} from '../registry/authorization.ts'
import type { Context, InstanceHost } from '../registry/context.ts'
import { layoutOf, listVerb, mustFindGroup, mustFindRow, mustFindRowWithTool } from '../registry/crud.ts'
import { defineResource, defineVerb, toolArguments } from '../registry/resource.ts'

const NO_REDIRECT = { not: { required: ['redirect_to'] } }

export const webRoutesResource = defineResource({
  of: webRoutes,
  title: 'WebRoutes',
  servedBy: 'routd',
  exported: {
    references: { folder: 'groups' },
    check: (rows) => rows.map(routeFault).find((fault) => fault !== undefined),
    fill: (ctx, row, current) => ({ ...row, created_at: row.created_at ?? current?.created_at ?? ctx.now }),
  },
  verbs: (table) => ({
    list: listVerb(table, 'web_routes', {
      authorize: requireToolForAgents,
      order: [['path_prefix', 'asc']],
      folder: 'folder',
      when: 'List the web paths that your folder publishes, and who may see them.',
      tool: 'list_web_routes',
      tiers: { granted: 2 },
      toolReply: ({ web_routes }) => web_routes,
    }),

    create: defineVerb({
      http: 'POST /',
      status: 201,
      input: WebRoute.omit({ created_at: true }),
      memberRules: {
        if: { properties: { access: { const: 'redirect' } } },
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
        then: { required: ['redirect_to'] },
        else: NO_REDIRECT,
      },
      output: WebRoute,
      authorize: requireTool(({ folder }: { folder: string }) => folder),
      run: async (ctx, route) => {
        if (await table.find(ctx.tx, { path_prefix: route.path_prefix }))
          refuse('conflict', `${route.path_prefix} has a route already`)
        return writeRoute(ctx, { ...route, created_at: ctx.now })
      },
    }),

    update: defineVerb({
      http: 'PATCH /{path_prefix}',
      input: WebRoute.omit({ created_at: true, folder: true }).partial({ access: true }),
      memberRules: {
        if: { properties: { access: { enum: ['public', 'auth', 'deny'] } }, required: ['access'] },
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
        then: NO_REDIRECT,
      },
      output: WebRoute,
      authorize: async (ctx, { path_prefix }) => {
        const scopeOf = ({ folder }: WebRoute): string => folder
        await mustFindRowWithTool(ctx, table, { path_prefix }, { label: `web route ${path_prefix}`, scopeOf })
      },
      run: async (ctx, { path_prefix, ...patch }) => {
        const route = await mustFindRow(ctx, table, { path_prefix }, `web route ${path_prefix}`)
        const access = patch.access ?? route.access
        // The target is dropped when the route stops being a redirect.
        const redirect_to = patch.redirect_to ?? (access === 'redirect' ? route.redirect_to : undefined)
        const fault = redirectFault({ ...route, access, redirect_to })
        if (fault) refuse(patch.access && access !== 'redirect' ? 'invalid' : 'conflict', fault)
        return writeRoute(ctx, { ...route, access, redirect_to })
      },
    }),

    /** What a folder publishes: its routes, its files and the host names bound to it. Only for the dashboard. */
    of_folder: defineVerb({
      isReadOnly: true,
      input: z.object({ folder: Folder }),
      output: z.object({
        routes: z.array(WebRoute),
        hosts: z.array(z.string()),
        files: z.array(PageFile).optional().describe('Absent in a process without the files'),
        has_more_files: z.boolean(),
      }),
      authorize: operatorOn(({ folder }) => folder),
      prepare: async ({ host }, { folder }) =>
        host.layout && listPublishedFiles(host.layout, await pagesOwner(host, folder)),
      run: async (ctx, { folder }, prepared) => {
        await mustFindGroup(ctx, folder)
        const published = prepared as PublishedFiles | undefined
        const routes = await table.list(ctx.tx, { folder })
        const hosts = (await webHosts.list(ctx.tx, { folder })).map(({ hostname }) => hostname)
        return {
          routes,
          hosts,
          ...(published ? { files: [...published.files] } : {}),
          has_more_files: published?.isCut ?? false,
        }
      },
    }),

    /** Creates or replaces a published file. Only for the dashboard. */
    publish: defineVerb({
      input: z.object({ folder: Folder, slot: PageSlot, name: PageName, content: PageBytes }),
      output: z.object({ path: z.string().describe('URL path'), is_new: z.boolean() }),
      authorize: operatorOn(({ folder }) => folder),
      prepare: async ({ host }, { folder, content, ...page }) => {
        const change = { ...page, data: Buffer.from(content, 'base64') }
        return publishFile(layoutOf(host), await pagesOwner(host, folder), change)
      },
      run: async (_, { folder, slot, name }, isNew) => ({
        path: pagePath(folder, slot, name),
        is_new: isNew === true,
      }),
    }),

    /** Deletes a published file. Only for the dashboard. */
    unpublish: defineVerb({
      input: z.object({ folder: Folder, slot: PageSlot, name: PageName }),
      authorize: operatorOn(({ folder }) => folder),
      prepare: async ({ host }, { folder, ...page }) =>
        unpublishFile(layoutOf(host), await pagesOwner(host, folder), page),
      run: async () => {},
    }),

    set: defineVerb({
      tool: 'set_web_route',
      tiers: { granted: 2 },
      when: 'Publish a path of your folder, close it, or redirect it.',
      input: z.object({ path: WebPath, access: WebRoute.shape.access, redirect_to: WebRoute.shape.redirect_to }),
      authorize: requireToolOnOwnFolder,
      run: async (ctx, { path: path_prefix, access, redirect_to }) => {
        const folder = await actingFolder(ctx)
        const current = await table.find(ctx.tx, { path_prefix })
        await writeRoute(ctx, { path_prefix, access, redirect_to, folder, created_at: current?.created_at ?? ctx.now })
      },
    }),

    delete: defineVerb({
      http: 'DELETE /{path_prefix}',
      tool: 'del_web_route',
      tiers: { granted: 2 },
      when: 'Stop publishing a path of your folder.',
      input: WebRoute.pick({ path_prefix: true }),
      toolInput: toolArguments({ path: WebPath }, ({ path }) => ({ path_prefix: path })),
      authorize: async (ctx, { path_prefix }) => {
        const missing = `there is no web route ${path_prefix}, or it is not yours`
        const scopeOf = ({ folder }: WebRoute): string => folder
        await mustFindRowWithTool(ctx, table, { path_prefix }, { label: `web route ${path_prefix}`, missing, scopeOf })
      },
      run: async (ctx, { path_prefix }) => {
        await table.remove(ctx.tx, { path_prefix })
      },
    }),
  }),
})

function routeFault(route: WebRoute): string | undefined {
  return isReservedFromFolders(route.path_prefix) ? reservedPathText(route.path_prefix) : redirectFault(route)
}

const FOR_OPERATORS = 'an operator can route it with a row of proxyd_routes'

function reservedPathText(path: string): string {
  return `${path} belongs to the front door`
}

function redirectFault({ access, redirect_to }: WebRoute): string | undefined {
  if (access === 'redirect')
    return redirect_to === undefined ? 'redirect_to is required when access is redirect' : undefined
  return redirect_to === undefined ? undefined : 'redirect_to is allowed only with access redirect'
}

/** The root and operators may publish anywhere; a folder may use its own slots and paths that are free. */
async function writeRoute(ctx: Context, route: WebRoute): Promise<WebRoute> {
  const fault = redirectFault(route)
  if (fault) refuse('invalid', fault)
  const { folder, path_prefix } = route
  if (isReservedFromFolders(path_prefix))
    refuse('forbidden', reservedPathText(path_prefix), isReservedFromRoutes(path_prefix) ? undefined : FOR_OPERATORS)
  await mustFindGroup(ctx, folder)
  if (!(await hasTool(ctx, INSTANCE_SCOPE))) await mustBeFree(ctx, route)
  await webRoutes.upsert(ctx.tx, route)
  return mustFindRow(ctx, webRoutes, { path_prefix }, `web route ${path_prefix}`)
}

async function mustBeFree(ctx: Context, { path_prefix, redirect_to, folder }: WebRoute): Promise<void> {
  if (redirect_to !== undefined && !isInSlot(redirect_to, folder)) {
    refuse('forbidden', `redirect_to must point into /pub/${folder}/ or /priv/${folder}/`)
  }
  if (isInSlot(path_prefix, folder)) return
  if (/^\/(pub|priv)(\/|$)/.test(path_prefix)) refuse('forbidden', `${path_prefix} is another folder's slot`)
  if (path_prefix === '/') refuse('forbidden', reservedPathText(path_prefix))
  for (const { path } of await proxydRoutes.list(ctx.tx)) {
    // The route at the root is only the fallback.
    if (path !== '/' && doOverlap(path, path_prefix)) refuse('conflict', reservedPathText(path))
  }
  for (const other of await webRoutes.list(ctx.tx)) {
    if (other.folder !== folder && doOverlap(other.path_prefix, path_prefix))
      refuse('conflict', `${other.path_prefix} is claimed by folder ${other.folder}`)
  }
}

function doOverlap(one: string, other: string): boolean {
  return isBelow(one, other) || isBelow(other, one)
}

function isBelow(path: string, prefix: string): boolean {
  return path === prefix || path.startsWith(prefix.endsWith('/') ? prefix : `${prefix}/`)
}

function isInSlot(path: string, folder: string): boolean {
  const slot = /^\/(?:pub|priv)\/(.+?)\/?$/.exec(path)?.[1]
  return slot !== undefined && containsFolder(folder, slot) && webPathFault(path) === undefined
}

/** Refuses a folder that does not exist. */
function pagesOwner({ engine }: InstanceHost, folder: string): Promise<PagesOwner> {
  return engine.read(async (tx) => {
    await mustFindGroup({ tx }, folder)
    return { folder, below: await childNames(tx, folder) }
  })
}
