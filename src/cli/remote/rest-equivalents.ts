// Verbs of the command line without a REST route, and the verb with a route that does the same.
import type { NamedVerb } from '../../registry/resource.ts'
import { routeTokensResource } from '../../resources/route-tokens.ts'
import { scheduledTasksResource } from '../../resources/scheduled-tasks.ts'

interface RestEquivalent {
  readonly verb: NamedVerb
  toInput(input: Readonly<Record<string, unknown>>): Record<string, unknown>
  /** Default: the reply of the other verb. */
  toReply?(): unknown
}

const { update } = scheduledTasksResource.verbs
const changeStatus = (status: 'active' | 'paused'): RestEquivalent => ({
  verb: update,
  toInput: ({ id }) => ({ id, status }),
  toReply: () => ({ ok: true }),
})

/** By id of the verb. */
export const REST_EQUIVALENTS: Readonly<Record<string, RestEquivalent>> = {
  'route_tokens.list_of': {
    verb: routeTokensResource.verbs.list,
    toInput: (input) => ({ ...input, stats: true }),
  },
  'scheduled_tasks.pause': changeStatus('paused'),
  'scheduled_tasks.resume': changeStatus('active'),
}
