// Handlers of pages that need a signed-in person.
import type { Context, Handler } from 'hono'
import { isRecentSignIn } from '../../core/people/sessions.ts'
import { refuse } from '../../lib/refusal.ts'
import type { InstanceHost, RequestContext } from '../../registry/context.ts'
import { authenticateRequest } from './credentials.ts'
import { type FormFields, readSessionForm } from './form-request.ts'
import { pageHandler, redirectTo } from './page-response.ts'
import { clientAddressOf } from './request-middleware.ts'
import { formToken } from './session-cookie.ts'

export interface SignedIn {
  readonly sub: string
  /** Id of the session. */
  readonly session: string
  readonly signedInMs: number
  /** For the hidden field `csrf` of forms. */
  readonly csrf: string
  /** For verbs, with the rights of this person. */
  readonly request: RequestContext
}

/** Undefined without a session; a bearer is not enough for these pages. */
export async function findSignedIn(host: InstanceHost, c: Context): Promise<SignedIn | undefined> {
  const { caller, signedInMs } = await authenticateRequest(host, c)
  if (caller?.kind !== 'person' || caller.session === undefined || signedInMs === undefined) return undefined
  const sourceIp = clientAddressOf(c)
  return {
    sub: caller.sub,
    session: caller.session,
    signedInMs,
    csrf: formToken(host, caller.session),
    request: {
      host,
      caller,
      face: 'dash',
      requestId: c.get('requestId'),
      ...(sourceIp === undefined ? {} : { sourceIp }),
    },
  }
}

/** GET: others are sent to the sign-in page and come back afterwards. */
export function personPage(
  host: InstanceHost,
  show: (c: Context, person: SignedIn) => Response | Promise<Response>,
): Handler {
  return pageHandler(async (c) => {
    const person = await findSignedIn(host, c)
    return person ? show(c, person) : redirectTo(signInPath(c))
  })
}

/** POST: checks the origin and the CSRF token of the form. */
export function personForm(
  host: InstanceHost,
  submit: (c: Context, person: SignedIn, fields: FormFields) => Response | Promise<Response>,
): Handler {
  return pageHandler(async (c) => {
    const person = await findSignedIn(host, c)
    if (!person) refuse('unauthenticated', 'your session has ended', 'sign in and try again')
    return submit(c, person, await readSessionForm(host, c, person.session))
  })
}

export function signInPath(c: Context): string {
  const { pathname, search } = new URL(c.req.url)
  return `/auth/sign-in?next=${encodeURIComponent(`${pathname}${search}`)}`
}

/** Adding a way to sign in needs a recent sign-in. */
export function isRecent(host: InstanceHost, { signedInMs }: SignedIn): boolean {
  return isRecentSignIn(signedInMs, host.clock.now())
}
