// Routes: the folders that get the messages of a chat.
import { MATCH_KEYS, parseRouteTarget } from '../../core/routing/routes.ts'
import { refuse } from '../../lib/refusal.ts'
import { groupsResource } from '../../resources/groups.ts'
import { routesResource } from '../../resources/routes.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { parseInteger } from '../input/integer-argument.ts'

const routes = routesResource.verbs

const EVERYTHING = '(everything)'

interface ShownRoute {
  readonly id: number
  readonly seq: number
  readonly match: string
  readonly target: string
}

function formatRoute({ id, seq, match, target }: ShownRoute): string {
  return `route ${id}: ${match || EVERYTHING} -> ${target} (seq ${seq})`
}

export const routeCommands = [
  defineSvcCommand({
    usage: 'route <instance> list [--json]',
    about: 'list all routes in the order in which they are tried; the first match wins',
    example: 'route demo list',
    run: async (svc) =>
      svc.print.table({
        rows: await svc.listAll(routes.list, 'routes', {}),
        columns: {
          ID: ({ id }) => id,
          SEQ: ({ seq }) => seq,
          MATCH: ({ match }) => match || EVERYTHING,
          TARGET: ({ target }) => target,
        },
        empty: 'no routes',
      }),
  }),
  defineSvcCommand({
    usage: 'route <instance> add <match> <target> [--seq|-s <n>] [--ack <reaction>]',
    about: `send matching messages to a folder; <match> is key=glob pairs (${MATCH_KEYS.join(', ')}), '' matches every message; routes with a lower --seq (default 0) are tried first; --ack reacts to messages that start a turn`,
    example: "route demo add 'platform=sandbox room=lobby' main --seq -1 --ack 👀",
    run: async (svc, { match, target, seq = '0', ack }) => {
      const route = await svc.call(routes.create, { match, target, seq: parseInteger('--seq', seq), ack_reaction: ack })
      svc.print.line(`added ${formatRoute(route)}`)
      await warnAboutMissingGroup(svc, route.target)
    },
  }),
  defineSvcCommand({
    usage: 'route <instance> ack <id> [<reaction>]',
    about: 'react to messages that start a turn through a route; without <reaction>, no more',
    example: 'route demo ack 1 👀',
    run: async (svc, { id: typed, reaction }) => {
      const id = parseInteger('id', typed)
      await svc.call(routes.update, { id, ack_reaction: reaction ?? '' })
      svc.print.line(`route ${id} ${reaction === undefined ? 'does not react' : `reacts with ${reaction}`}`)
    },
  }),
  defineSvcCommand({
    usage: 'route <instance> move <id> <up|down>',
    about: 'move a route before or after the next route to the same folder',
    example: 'route demo move 3 up',
    run: async (svc, { id: typed, 'up|down': to }) => {
      if (to !== 'up' && to !== 'down') refuse('invalid', `"${to}" is neither up nor down`)
      const id = parseInteger('id', typed)
      await svc.call(routes.move, { id, to })
      svc.print.line(`moved route ${id} ${to}`)
    },
  }),
  defineSvcCommand({
    usage: 'route <instance> rm <id>',
    about: 'remove a route; list and doctor show its <id>',
    example: 'route demo rm 3',
    run: async (svc, { id: typed }) => {
      const id = parseInteger('id', typed)
      const known = (await svc.listAll(routes.list, 'routes', {})).find((route) => route.id === id)
      await svc.call(routes.delete, { id })
      svc.print.line(`removed ${known ? formatRoute(known) : `route ${id}`}`)
    },
  }),
]

/** A route may be added before its group. */
async function warnAboutMissingGroup(svc: SvcContext, target: string): Promise<void> {
  const parsed = parseRouteTarget(target)
  if (parsed?.kind !== 'folder' || parsed.name.includes('{sender}')) return
  const groups = await svc.listAll(groupsResource.verbs.list, 'groups', {})
  if (groups.some(({ folder }) => folder === parsed.name)) return
  svc.print.warn(`there is no group ${parsed.name} yet: messages that match this route reach no agent`)
}
