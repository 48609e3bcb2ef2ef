// Host bindings: which host name serves the published pages of which folder. The tool set_web_host creates them.
import { WebHost, webHosts } from '../core/links/web-hosts.ts'
import { requireInstanceTool } from '../registry/authorization.ts'
import { listVerb, removeVerb } from '../registry/crud.ts'
import { defineResource } from '../registry/resource.ts'

export const webHostsResource = defineResource({
  of: webHosts,
  title: 'WebHosts',
  servedBy: 'proxyd',
  exported: { references: { folder: 'groups' } },
  verbs: (table) => ({
    list: listVerb(table, 'web_hosts', {
      authorize: requireInstanceTool,
      order: [['hostname', 'asc']],
      when: 'List the host names and the folders whose published pages they serve.',
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
