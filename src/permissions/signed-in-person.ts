// For verbs that give rights to the person who calls them.
import { isRecentSignIn, sessions } from '../core/people/sessions.ts'
import { refuse } from '../lib/refusal.ts'
import { isGlob } from '../lib/text/glob.ts'
import type { Context } from '../registry/context.ts'

/** Returns the account of a browser session. A bearer is not enough, and a glob as a principal would mean more people. */
export function mustBeSignedIn({ caller, tool }: Context): string {
  if (caller.kind !== 'person' || caller.session === undefined)
    return refuse('forbidden', `${tool} needs a browser session`)
  return isGlob(caller.sub) ? refuse('forbidden', `the account ${caller.sub} has wildcards in its name`) : caller.sub
}

/** A stolen session must not become a credential that outlives it. `action`: such as "adding a passkey". */
export async function mustHaveSignedInRecently({ tx, caller, clock }: Context, action: string): Promise<void> {
  if (caller.kind !== 'person' || caller.session === undefined)
    refuse('forbidden', `${action} needs a browser session, not a bearer`)
  const session = await sessions.find(tx, { family_id: caller.session, sub: caller.sub, status: 'active' })
  if (!session || !isRecentSignIn(Date.parse(session.started_at), clock.now()))
    refuse('forbidden', `${action} needs a sign-in of the last 15 minutes`, 'sign in again, then repeat it')
}
