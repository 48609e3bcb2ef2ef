// Host bindings: which host name shows the published pages of which folder. Bound by the tool set_web_host.
import { WebHost, webHosts } from '../core/links/web-hosts.ts'
import { INSTANCE_SCOPE, requireTool } from '../registry/authorization.ts'
import { listVerb, removeVerb } from '../registry/crud.ts'
import { defineResource } from '../registry/resource.ts'

/** The whole map is the instance's. */
const operators = requireTool(() => INSTANCE_SCOPE)

export const webHostsResource = defineResource({
  of: webHosts,
  title: 'WebHosts',
  servedBy: 'proxyd',
  exported: { references: { folder: 'groups' } },
  verbs: (table) => ({
    list: listVerb(table, 'web_hosts', {
      authorize: operators,
      order: [['hostname', 'asc']],
      when: 'See which host names show the published pages of which folder.',
    }),

    delete: removeVerb(table, {
      when: 'Stop showing the published pages of a folder under a host name.',
      input: WebHost.pick({ hostname: true }),
      authorize: operators,
      what: ({ hostname }) => `host ${hostname}`,
      missing: ({ hostname }) => `${hostname} is bound to no folder`,
    }),
  }),
})
