// Passkeys over HTTP: the script of the pages, and the two ceremonies (signing in, adding a passkey).
import type { Context, Handler, Hono } from 'hono'
import { z } from 'zod'
import { accounts, type ConfirmedAccount, localAccount } from '../../core/people/accounts.ts'
import { listPasskeys, Passkey, passkeys } from '../../core/people/passkeys.ts'
import { clientNetwork } from '../../lib/http/client-network.ts'
import { readJsonObject } from '../../lib/http/http.ts'
import { ownPath } from '../../lib/http/own-path.ts'
import type { Log } from '../../lib/log/log.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { parse } from '../../lib/text/schema-parser.ts'
import { callVerb } from '../../registry/call.ts'
import { passkeysResource } from '../../resources/passkeys.ts'
import type { Tx } from '../../store/engine.ts'
import { createScriptHandler } from '../../web/chat/script-response.ts'
import { buildPasskeyScript } from '../../web/pages/passkey-script.ts'
import { CSRF_HEADER } from '../http/credentials.ts'
import { mustBeOwnOriginForm } from '../http/form-request.ts'
import { clientAddressOf } from '../http/request-middleware.ts'
import { isFormToken } from '../http/session-cookie.ts'
import { browserName, inviteTokenOf, type SignInContext, signedInDestination, startSession } from '../http/sign-in.ts'
import { findSignedIn, isRecent, type SignedIn } from '../http/signed-in.ts'
import type { AttemptLimits } from './attempt-limits.ts'
import { challengeCookie, createChallenge, readChallenge } from './passkey-challenge.ts'
import { PASSKEY_SCRIPT } from './passkey-section.ts'
import {
  AuthenticationResponse,
  authenticationOptions,
  RegistrationResponse,
  registrationOptions,
  verifyAuthentication,
  verifyRegistration,
} from './passkey-verification.ts'

export interface PasskeyContext extends SignInContext {
  readonly log: Log
  readonly limits: AttemptLimits
}

const BODY_MAX = 64 * 1024

const SignInBody = z.object({ response: AuthenticationResponse, next: z.string().max(2048).optional() })
const AddBody = z.object({ response: RegistrationResponse, name: Passkey.shape.name.optional() })

export function mountPasskeyRoutes(app: Hono, context: PasskeyContext): void {
  const script = createScriptHandler(buildPasskeyScript)
  app.get(PASSKEY_SCRIPT, async (c) => {
    const request = { acceptEncoding: c.req.header('Accept-Encoding'), ifNoneMatch: c.req.header('If-None-Match') }
    const { status, headers, body } = await script(request)
    return new Response(body ? Uint8Array.from(body) : null, { status, headers: { ...headers } })
  })
  app.post('/auth/passkey/options', passkeyHandler(context, showSignInOptions))
  app.post('/auth/passkey/sign-in', passkeyHandler(context, limitFailures(signIn)))
  app.post('/auth/passkeys/options', passkeyHandler(context, showAddOptions))
  app.post('/auth/passkeys', passkeyHandler(context, addPasskey))
}

/** Only for the script of our pages. Logs why a response was not verified. */
function passkeyHandler(
  context: PasskeyContext,
  handle: (context: PasskeyContext, c: Context) => Promise<Response>,
): Handler {
  return async (c) => {
    mustBeOwnOriginForm(context.host, c)
    try {
      return await handle(context, c)
    } catch (error) {
      if (error instanceof Refusal && error.cause !== undefined)
        context.log.warn({ err: error.cause, request: c.get('requestId') }, 'a passkey was refused')
      throw error
    }
  }
}

/** Only failures count, so that others behind the same proxy can sign in. */
function limitFailures(handle: typeof signIn): typeof signIn {
  return async (context, c) => {
    try {
      return await handle(context, c)
    } catch (error) {
      if (error instanceof Refusal) context.limits.byAddress.take(clientNetwork(clientAddressOf(c)))
      throw error
    }
  }
}

async function showSignInOptions({ host }: PasskeyContext, c: Context): Promise<Response> {
  const challenge = createChallenge(host)
  const options = await authenticationOptions(host, challenge.challenge)
  return c.json(options, 200, { 'Set-Cookie': challengeCookie(host, challenge) })
}

async function signIn(context: PasskeyContext, c: Context): Promise<Response> {
  const { host } = context
  const { response, next } = parse(SignInBody, await readJsonObject(c.req.raw, BODY_MAX))
  const challenge = readChallenge(host, c)
  if (challenge.adding) refuse('invalid', 'this challenge is for adding a passkey', 'try again')
  const { passkey, account } = await host.engine.read(async (tx) => {
    const passkey = await passkeys.find(tx, { id: response.id })
    return passkey ? { passkey, account: await accountOf(tx, passkey.sub) } : {}
  })
  // Ids are random and never shown to others, so this reveals nothing to a person who makes one up.
  if (!passkey || !account)
    refuse(
      'unauthenticated',
      'this server does not know that passkey',
      'sign in another way, or remove it from your device',
    )
  const use = await verifyAuthentication(host, response, challenge.challenge, passkey)
  const address = clientAddressOf(c)
  await callVerb(
    {
      host,
      caller: { kind: 'person', sub: passkey.sub },
      face: 'dash',
      requestId: c.get('requestId'),
      ...(address === undefined ? {} : { sourceIp: address }),
    },
    passkeysResource.verbs.use,
    { ...use, challenge: challenge.challenge, expires_ms: challenge.expires_ms },
  )
  const { sub, cookie } = await startSession(context, c, {
    account,
    method: 'passkey',
    inviteToken: inviteTokenOf(context, c),
  })
  const destination = await signedInDestination(context, c, { sub, next: ownPath(next) })
  return c.json({ next: destination }, 200, { 'Set-Cookie': cookie })
}

/** The account as its provider confirmed it last. */
async function accountOf(tx: Tx, sub: string): Promise<ConfirmedAccount> {
  const stored = await accounts.find(tx, { sub })
  if (!stored) return localAccount(sub)
  const { created_at: _, signed_in_at: __, ...account } = stored
  return account
}

/** The verb checks the time of the sign-in again: this is for an early answer, before the person taps. */
async function mustBeRecentPerson({ host }: PasskeyContext, c: Context): Promise<SignedIn> {
  const person = await findSignedIn(host, c)
  if (!person) refuse('unauthenticated', 'your session has ended', 'sign in and try again')
  if (!isFormToken(host, person.session, c.req.header(CSRF_HEADER)))
    refuse('forbidden', 'this page has expired', 'reload it and try again')
  if (!isRecent(host, person))
    refuse('forbidden', 'adding a passkey needs a sign-in of the last 15 minutes', 'sign in again, then add it')
  return person
}

async function showAddOptions(context: PasskeyContext, c: Context): Promise<Response> {
  const { host } = context
  const { sub, session } = await mustBeRecentPerson(context, c)
  const existing = await host.engine.read((tx) => listPasskeys(tx, sub))
  const userHandle = existing[0]?.user_handle ?? Buffer.from(host.random.bytes(32)).toString('base64url')
  const challenge = createChallenge(host, { session, user_handle: userHandle })
  const options = await registrationOptions(host, { sub, challenge: challenge.challenge, userHandle, existing })
  return c.json(options, 200, { 'Set-Cookie': challengeCookie(host, challenge) })
}

async function addPasskey(context: PasskeyContext, c: Context): Promise<Response> {
  const { host } = context
  const { request, session } = await mustBeRecentPerson(context, c)
  const { response, name } = parse(AddBody, await readJsonObject(c.req.raw, BODY_MAX))
  const { adding, challenge, expires_ms } = readChallenge(host, c)
  if (adding?.session !== session) refuse('invalid', 'this challenge is not for your session', 'try again')
  const passkey = await verifyRegistration(host, response, challenge)
  await callVerb(request, passkeysResource.verbs.add, {
    ...passkey,
    name: name ?? browserName(c.req.header('User-Agent')),
    user_handle: adding.user_handle,
    challenge,
    expires_ms,
  })
  return c.json({ id: passkey.id }, 201)
}
