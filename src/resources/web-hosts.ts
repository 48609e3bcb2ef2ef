// Host bindings: which host name shows the published pages of which folder. Bound by the tool set_web_host.
import { WebHost, webHosts } from '../core/web-hosts.ts'
import { refuse } from '../lib/refusal.ts'
import { list } from '../registry/crud.ts'
import { granted, INSTANCE } from '../registry/needs.ts'
import { resource, verb } from '../registry/resource.ts'

/** The whole map is the instance's. */
const operators = granted(() => INSTANCE)

export const webHostsResource = resource({
  of: webHosts,
  title: 'WebHosts',
  servedBy: 'proxyd',
  exported: { refers: { folder: 'groups' } },
  verbs: (table) => ({
    list: list(table, 'web_hosts', {
      needs: operators,
      order: [['hostname', 'asc']],
      when: 'See which host names show the published pages of which folder.',
    }),

    delete: verb({
      http: 'DELETE /{hostname}',
      when: 'Stop showing the published pages of a folder under a host name.',
      input: WebHost.pick({ hostname: true }),
      needs: operators,
      run: async (ctx, { hostname }) => {
        if ((await table.remove(ctx.tx, { hostname })) === 0) refuse('not_found', `${hostname} is bound to no folder`)
      },
    }),
  }),
})
