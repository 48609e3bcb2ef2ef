// Reach limits what a turn may do by the origin of its messages. Stored on links, messages, turns and tasks.
import { z } from 'zod'

/** In increasing order: the current chat, the folder's everyday work, everything the folder's rules allow. */
const REACHES = ['chat', 'work', 'all'] as const

export const Reach = z.enum(REACHES)
export type Reach = z.output<typeof Reach>

export function hasReach(reach: Reach, needed: Reach): boolean {
  return REACHES.indexOf(reach) >= REACHES.indexOf(needed)
}

export function largerReach(one: Reach, other: Reach): Reach {
  return hasReach(one, other) ? one : other
}

/** A turn has the smallest reach of its messages. */
export function smallestReach(reaches: readonly Reach[]): Reach {
  return reaches.reduce((least, each) => (hasReach(least, each) ? each : least), 'all')
}

/** For rows that record no reach. */
export function defaultReach(jid: string): Reach {
  if (jid.startsWith('web:')) return 'chat'
  return jid.startsWith('hook:') ? 'work' : 'all'
}
