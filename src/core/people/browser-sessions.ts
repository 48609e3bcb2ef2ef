// Authenticates the session token of a browser and decides when to rotate it. A replaced token stays valid until its
// successor was used, and a minute longer: responses may be lost, and parallel requests carry the old one.
import { timestamp } from '../../lib/clock.ts'
import type { Engine } from '../../store/engine.ts'
import { hashToken } from '../links/link-token.ts'
import {
  confirmToken,
  findToken,
  isLive,
  type PresentedToken,
  rotateToken,
  type SessionHost,
  sessionTokens,
  successorOf,
  touchSession,
} from './sessions.ts'

export const ROTATE_AFTER_MS = 15 * 60_000
/** How long a replaced token stays valid after the first use of its successor. */
export const GRACE_MS = 60_000
/** A session that is used without rotation is extended at most this often. */
const TOUCH_AFTER_MS = 5 * 60_000

export interface BrowserSessionHost extends SessionHost {
  readonly engine: Engine
}

export interface AuthenticatedSession {
  readonly id: string
  readonly sub: string
  /** When the person signed in. */
  readonly startedMs: number
  /** The token for the next requests, if it has changed. */
  readonly renewedToken?: string
}

const TOKEN = /^[A-Za-z0-9_-]{43}$/

/** `canRenew`: whether the response can set a cookie. Undefined if the token is not valid. */
export async function authenticateSession(
  host: BrowserSessionHost,
  token: string,
  canRenew: boolean,
): Promise<AuthenticatedSession | undefined> {
  if (!TOKEN.test(token)) return undefined
  const nowMs = host.clock.now()
  const tokenHash = hashToken(token)
  const found = await host.engine.read((tx) => findToken(tx, tokenHash))
  if (found?.kind !== 'browser' || !isLive(found, nowMs)) return undefined
  const session = { id: found.sessionId, sub: found.sub, startedMs: found.startedMs }
  if (found.replacedMs !== undefined) return useReplaced(host, token, session, canRenew)
  if (!needsWrite(found, nowMs, canRenew)) return session
  const renewedToken = await renew(host, token, canRenew)
  return { ...session, ...(renewedToken === undefined ? {} : { renewedToken }) }
}

function needsWrite(found: PresentedToken, nowMs: number, canRenew: boolean): boolean {
  if (found.confirmedMs === undefined || nowMs - found.renewedMs >= TOUCH_AFTER_MS) return true
  return canRenew && isDueForRotation(found, nowMs)
}

/** Not before the grace time of the previous token is over, which ends with this rotation. */
function isDueForRotation({ createdMs, confirmedMs }: PresentedToken, nowMs: number): boolean {
  return nowMs - createdMs >= ROTATE_AFTER_MS && confirmedMs !== undefined && nowMs - confirmedMs >= GRACE_MS
}

/** The browser may not have received the successor, so it gets it again. */
async function useReplaced(
  host: BrowserSessionHost,
  token: string,
  session: AuthenticatedSession,
  canRenew: boolean,
): Promise<AuthenticatedSession | undefined> {
  const successor = successorOf(host.keyring, token)
  const next = await host.engine.read((tx) => sessionTokens.find(tx, { token_hash: hashToken(successor) }))
  if (!next) return undefined
  const isOver =
    next.replaced_at !== undefined ||
    (next.confirmed_at !== undefined && host.clock.now() - Date.parse(next.confirmed_at) >= GRACE_MS)
  if (isOver) return undefined
  return canRenew ? { ...session, renewedToken: successor } : session
}

/** Reads again within the transaction: another request may have been faster. */
async function renew(host: BrowserSessionHost, token: string, canRenew: boolean): Promise<string | undefined> {
  return host.engine.transaction(async (tx) => {
    const nowMs = host.clock.now()
    const tokenHash = hashToken(token)
    const found = await findToken(tx, tokenHash)
    if (!found || !isLive(found, nowMs)) return undefined
    if (found.confirmedMs === undefined) await confirmToken(tx, tokenHash, timestamp(nowMs))
    if (canRenew && isDueForRotation(found, nowMs)) return rotateToken(tx, host, token, found, { keepsHistory: false })
    if (found.replacedMs === undefined && nowMs - found.renewedMs >= TOUCH_AFTER_MS)
      await touchSession(tx, found, nowMs)
    return undefined
  })
}
