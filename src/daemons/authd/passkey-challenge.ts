// The challenge of a passkey ceremony, sealed in a cookie of the browser that asked for it. The store records only the
// challenges that were used, so that requests of strangers write nothing.
import type { Context } from 'hono'
import { z } from 'zod'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { parseJson } from '../../lib/text/json.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { formatCookie, isSecure, readCookie } from '../http/session-cookie.ts'

const CHALLENGE_TTL_MS = 5 * 60_000
const CONTEXT = 'passkey challenge'

const PasskeyChallenge = z.object({
  challenge: z.string(),
  expires_ms: z.int(),
  /** Present when a passkey is being added: the session that asked, and the handle of its person. */
  adding: z.object({ session: z.string(), user_handle: z.string() }).optional(),
})

export type PasskeyChallenge = z.output<typeof PasskeyChallenge>

export function createChallenge(host: InstanceHost, adding?: PasskeyChallenge['adding']): PasskeyChallenge {
  return {
    challenge: Buffer.from(host.random.bytes(32)).toString('base64url'),
    expires_ms: host.clock.now() + CHALLENGE_TTL_MS,
    ...(adding ? { adding } : {}),
  }
}

export function challengeCookie(host: InstanceHost, challenge: PasskeyChallenge): string {
  const sealed = Buffer.from(host.keyring.seal(JSON.stringify(challenge), CONTEXT)).toString('base64url')
  return formatCookie(host, cookieName(host), sealed, { maxAgeS: CHALLENGE_TTL_MS / 1000 })
}

/** The challenge of this browser. One answer if it is missing, forged or too old. */
export function readChallenge(host: InstanceHost, c: Context): PasskeyChallenge {
  const sealed = readCookie(c.req.header('Cookie'), cookieName(host))
  const challenge = sealed === undefined ? undefined : openChallenge(host, sealed)
  if (!challenge || host.clock.now() >= challenge.expires_ms)
    refuse('invalid', 'this took longer than 5 minutes, or began in another browser', 'try again')
  return challenge
}

function openChallenge({ keyring }: InstanceHost, sealed: string): PasskeyChallenge | undefined {
  try {
    const plain = keyring.open(Buffer.from(sealed, 'base64url'), CONTEXT).toString()
    return PasskeyChallenge.safeParse(parseJson(plain)).data
  } catch (error) {
    if (error instanceof Refusal) return undefined
    throw error
  }
}

function cookieName(host: InstanceHost): string {
  return isSecure(host) ? '__Host-svc_passkey' : `svc_passkey_${host.instance}`
}
