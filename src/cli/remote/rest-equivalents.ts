// Verbs of the command line without a REST route, and the verb with a route that does the same.
import type { NamedVerb } from '../../registry/resource.ts'
import { routeTokensResource } from '../../resources/route-tokens.ts'
import { scheduledTasksResource } from '../../resources/scheduled-tasks.ts'

interface RestEquivalent {
  readonly verb: NamedVerb
  toInput(input: Readonly<Record<string, unknown>>): Record<string, unknown>
  /** Undefined if the reply is not one of svc. */
  toReply(reply: unknown): unknown
}

const { list: listTokens } = routeTokensResource.verbs
const { update } = scheduledTasksResource.verbs
const changeStatus = (status: 'active' | 'paused'): RestEquivalent => ({
  verb: update,
  toInput: ({ id }) => ({ id, status }),
  toReply: () => ({ ok: true }),
})

/** By id of the verb. */
export const REST_EQUIVALENTS: Readonly<Record<string, RestEquivalent>> = {
  'route_tokens.list_of': {
    verb: listTokens,
    toInput: (input) => ({ ...input, stats: true }),
    toReply: (reply) => {
      const page = listTokens.output?.safeParse(reply).data
      return page && { ...page, tokens: page.tokens.map((token, at) => ({ ...token, ...page.stats?.[at] })) }
    },
  },
  'scheduled_tasks.pause': changeStatus('paused'),
  'scheduled_tasks.resume': changeStatus('active'),
}
