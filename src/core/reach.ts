// Reach: what a turn may do is what its folder may do, limited by who asked. Kept on links, messages, turns and tasks.
import { z } from 'zod'

/** From the smallest to the largest: the own chat, the folder's everyday work, everything that the folder's rules allow. */
const REACHES = ['chat', 'work', 'all'] as const

export const Reach = z.enum(REACHES)
export type Reach = z.output<typeof Reach>

/** Whether the first reach includes the second. */
export function hasReach(reach: Reach, needed: Reach): boolean {
  return REACHES.indexOf(reach) >= REACHES.indexOf(needed)
}

export function largerReach(one: Reach, other: Reach): Reach {
  return hasReach(one, other) ? one : other
}

/** The reach of a turn with messages of these reaches. */
export function smallestReach(reaches: readonly Reach[]): Reach {
  return reaches.reduce((least, each) => (hasReach(least, each) ? each : least), 'all')
}

/** What applies where nothing was recorded: of a link by its kind, of everything else all. */
export function defaultReach(jid: string): Reach {
  if (jid.startsWith('web:')) return 'chat'
  return jid.startsWith('hook:') ? 'work' : 'all'
}
