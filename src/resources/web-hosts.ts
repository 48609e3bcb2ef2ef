// Host bindings: which host name serves the published pages of which folder. The dashboard and the tool set_web_host create them.
import { bindWebHost, mustNotBeInstanceHost, WebHost, webHosts } from '../core/links/web-hosts.ts'
import { refuse } from '../lib/refusal.ts'
import { requireInstanceTool, requireOperator } from '../registry/authorization.ts'
import { listVerb, mustFindGroup, removeVerb } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'

export const webHostsResource = defineResource({
  of: webHosts,
  title: 'WebHosts',
  servedBy: 'proxyd',
  exported: {},
  verbs: (table) => ({
    list: listVerb(table, 'web_hosts', {
      authorize: requireInstanceTool,
      order: [['hostname', 'asc']],
      when: 'List the host names and the folders whose published pages they serve.',
    }),

    /** Only for the dashboard; agents have the tool set_web_host. */
    bind: defineVerb({
      input: WebHost,
      authorize: requireOperator,
      run: async (ctx, { hostname, folder }) => {
        await mustFindGroup(ctx, folder)
        mustNotBeInstanceHost(ctx, hostname)
        const bound = await table.find(ctx.tx, { hostname })
        if (bound) refuse('conflict', `the host name ${hostname} is bound to ${bound.folder} already`)
        await bindWebHost(ctx.tx, hostname, folder)
      },
    }),

    delete: removeVerb(table, {
      when: 'Stop serving the published pages of a folder under a host name.',
      input: WebHost.pick({ hostname: true }),
      authorize: requireInstanceTool,
      label: ({ hostname }) => `host ${hostname}`,
      missing: ({ hostname }) => `${hostname} is not bound to a folder`,
    }),
  }),
})
