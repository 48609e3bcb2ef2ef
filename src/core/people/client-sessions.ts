// Sessions of OAuth clients: their refresh tokens rotate at every use. A repeat within a minute gets the same successor, because
// answers get lost; a reuse later, or after the successor was used, ends the session. See docs/decisions.md#token-endpoint.
import type { Tx } from '../../store/engine.ts'
import { hashToken } from '../links/link-token.ts'
import { type AccountRow, LOCAL_ISSUER } from './accounts.ts'
import {
  type CreatedSession,
  createSession,
  findToken,
  isLive,
  revokeSession,
  rotateToken,
  type SessionHost,
  type SessionRow,
  sessions,
  sessionTokens,
  successorOf,
} from './sessions.ts'

export const CLIENT_IDLE_MS = 30 * 24 * 3_600_000
export const CLIENT_MAX_MS = 180 * 24 * 3_600_000
/** How long a used refresh token may be repeated while its successor is unused. */
export const REPEAT_MS = 60_000

export interface ClientGrant {
  readonly sub: string
  readonly clientId: string
  readonly clientName: string
  readonly aud: string
  readonly scope: string
  readonly address?: string | undefined
}

export function startClientSession(tx: Tx, host: SessionHost, grant: ClientGrant): Promise<CreatedSession> {
  const { sub, clientId, clientName: name, aud, scope, address } = grant
  const lifetime = { idleMs: CLIENT_IDLE_MS, maxMs: CLIENT_MAX_MS }
  return createSession(tx, host, {
    sub,
    kind: 'client',
    method: 'oauth',
    clientId,
    name,
    aud,
    scope,
    address,
    ...lifetime,
  })
}

export type RefreshVerdict =
  | { readonly outcome: 'refreshed'; readonly session: SessionRow; readonly token: string }
  | { readonly outcome: 'reused'; readonly session: SessionRow }
  | { readonly outcome: 'refused' }

/** Rotation and successor are one transaction; a reuse revokes the session in it. */
export async function refreshClientSession(
  tx: Tx,
  host: SessionHost,
  { token, clientId }: { readonly token: string; readonly clientId: string },
): Promise<RefreshVerdict> {
  const nowMs = host.clock.now()
  const found = await findToken(tx, hashToken(token))
  if (found?.kind !== 'client' || !isLive(found, nowMs)) return { outcome: 'refused' }
  const session = await sessions.find(tx, { family_id: found.sessionId })
  if (!session || session.client_id !== clientId) return { outcome: 'refused' }
  if (found.replacedMs === undefined) {
    const successor = await rotateToken(tx, host, token, found, { keepsHistory: true })
    return { outcome: 'refreshed', session, token: successor }
  }
  if (nowMs - found.replacedMs < REPEAT_MS) {
    const successor = successorOf(host.keyring, token)
    // Absent if SECRETS_KEY has changed since: a second branch must not start.
    const next = await sessionTokens.find(tx, { token_hash: hashToken(successor) })
    if (!next) return { outcome: 'refused' }
    // A used successor has arrived, so its client has no reason to repeat the older token.
    if (next.replaced_at === undefined) return { outcome: 'refreshed', session, token: successor }
  }
  await revokeSession(tx, session.family_id)
  return { outcome: 'reused', session }
}

/** The session of a refresh token, whether it still counts or not. */
export async function findClientSession(tx: Tx, token: string): Promise<SessionRow | undefined> {
  const found = await findToken(tx, hashToken(token))
  return found?.kind === 'client' ? sessions.find(tx, { family_id: found.sessionId }) : undefined
}

/** The operator signed this account in by name, with a one-time link. */
export function isLocalAccount({ issuer }: Pick<AccountRow, 'issuer'>): boolean {
  return issuer === LOCAL_ISSUER
}
