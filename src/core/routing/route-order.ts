// Moves a route among the routes of one folder by changing as few `seq` as possible.
import { refuse } from '../../lib/refusal.ts'
import { isBefore } from './route-conflicts.ts'
import type { Route } from './routes.ts'

/** The routes whose `seq` changes; undefined if the route cannot be moved further. `own` is in order. */
export function moveRoute(own: readonly Route[], id: number, to: 'up' | 'down'): Route[] | undefined {
  const at = own.findIndex((route) => route.id === id)
  const [first, second] = to === 'up' ? [own[at - 1], own[at]] : [own[at], own[at + 1]]
  if (!first || !second) return undefined
  if (first.match === second.match && first.target === second.target)
    refuse('conflict', `the routes ${first.id} and ${second.id} are the same`, 'delete one of them')
  const start = own.indexOf(first)
  const order = [...own.slice(0, start), second, first, ...own.slice(start + 2)]
  // Each place keeps its number; a route with the number of the next one and a higher id goes one lower.
  const moved = order.map((route, index) => ({ ...route, seq: own[index]?.seq ?? route.seq }))
  for (let index = moved.length - 2; index >= 0; index--) {
    const [route, next] = [moved[index], moved[index + 1]]
    if (route && next && !isBefore(route, next)) route.seq = next.seq - (route.id < next.id ? 0 : 1)
  }
  const changed = moved.filter((route) => own.some((old) => old.id === route.id && old.seq !== route.seq))
  const isTwice = ({ seq, match, target, id: each }: Route): boolean =>
    moved.some((other) => other.id !== each && other.seq === seq && other.match === match && other.target === target)
  const twice = changed.find(isTwice)
  if (twice) refuse('conflict', `route ${twice.id} exists twice`, 'delete one of them')
  return changed
}
