// For verbs that give rights to the person who calls them.
import { refuse } from '../lib/refusal.ts'
import { isGlob } from '../lib/text/glob.ts'
import type { Context } from '../registry/context.ts'

/** Returns the account of a browser session. A bearer is not enough, and a glob as a principal would mean more people. */
export function mustBeSignedIn({ caller, tool }: Context): string {
  if (caller.kind !== 'person' || caller.session === undefined)
    return refuse('forbidden', `${tool} needs a browser session`)
  return isGlob(caller.sub) ? refuse('forbidden', `the account ${caller.sub} has wildcards in its name`) : caller.sub
}
