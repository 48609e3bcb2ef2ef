// OAuth authorization codes: 256 bits, stored as a hash, valid once and for a minute, bound to client, redirect, PKCE challenge and
// resource.
import { hash, timingSafeEqual } from 'node:crypto'
import { z } from 'zod'
import { timestamp } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { createToken, hashToken } from '../links/link-token.ts'
import { Bytes, line, Sub, Timestamp } from '../values.ts'
import type { SessionHost } from './sessions.ts'

export const CODE_TTL_MS = 60_000
/** Used codes are kept to recognize their reuse. */
const KEPT_MS = 24 * 3_600_000

const AuthorizationCode = z.object({
  code_hash: Bytes,
  client_id: line(2048),
  client_name: line(100),
  redirect_uri: line(1024),
  challenge: line(64),
  challenge_method: line(16),
  aud: line(256),
  scope: z.string(),
  sub: Sub,
  created_at: Timestamp,
  expires_at: Timestamp,
  used_at: Timestamp.optional(),
  /** The session that the code started. */
  family_id: line(64).optional(),
})

export type AuthorizationCodeRow = z.output<typeof AuthorizationCode>

export const authorizationCodes = new Table({
  name: 'authorization_codes',
  row: AuthorizationCode,
  key: 'code_hash',
  storage: [
    `create table authorization_codes (
       code_hash bytea primary key, client_id text not null, client_name text not null, redirect_uri text not null,
       challenge text not null, challenge_method text not null, aud text not null, scope text not null, sub text not null,
       created_at text not null, expires_at text not null, used_at text, family_id text)`,
    'create index authorization_codes_expiry on authorization_codes (expires_at)',
  ],
})

export type CodeGrant = Pick<
  AuthorizationCodeRow,
  'client_id' | 'client_name' | 'redirect_uri' | 'challenge' | 'aud' | 'scope' | 'sub'
>

/** Returns the code, which is not stored. */
export async function createAuthorizationCode(tx: Tx, host: SessionHost, grant: CodeGrant): Promise<string> {
  const nowMs = host.clock.now()
  const code = createToken(host.random)
  await execute(tx, 'delete from authorization_codes where expires_at < $1', [timestamp(nowMs - KEPT_MS)])
  await authorizationCodes.insert(tx, {
    ...grant,
    code_hash: hashToken(code),
    challenge_method: 'S256',
    created_at: timestamp(nowMs),
    expires_at: timestamp(nowMs + CODE_TTL_MS),
  })
  return code
}

export interface CodeExchange {
  readonly code: string
  readonly clientId: string
  readonly redirectUri: string
  readonly verifier: string
}

/** `reused`: the code was used before, so another party may have it. */
export type CodeVerdict =
  | { readonly outcome: 'valid'; readonly row: AuthorizationCodeRow }
  | { readonly outcome: 'reused'; readonly row: AuthorizationCodeRow }
  | { readonly outcome: 'refused' }

/** Each condition refuses alone. */
export async function checkAuthorizationCode(tx: Tx, exchange: CodeExchange, nowMs: number): Promise<CodeVerdict> {
  const row = await authorizationCodes.find(tx, { code_hash: hashToken(exchange.code) })
  if (!row) return { outcome: 'refused' }
  if (row.used_at !== undefined) return { outcome: 'reused', row }
  if (nowMs >= Date.parse(row.expires_at)) return { outcome: 'refused' }
  if (row.client_id !== exchange.clientId) return { outcome: 'refused' }
  if (row.redirect_uri !== exchange.redirectUri) return { outcome: 'refused' }
  if (!isVerifierOf(row, exchange.verifier)) return { outcome: 'refused' }
  return { outcome: 'valid', row }
}

export async function useAuthorizationCode(tx: Tx, code: string, family_id: string, now: string): Promise<void> {
  await authorizationCodes.update(tx, { code_hash: hashToken(code) }, { used_at: now, family_id })
}

const CHALLENGE = /^[A-Za-z0-9_-]{43}$/
const VERIFIER = /^[A-Za-z0-9\-._~]{43,128}$/

/** Whether it has the form of an S256 challenge. */
export function isCodeChallenge(text: string): boolean {
  return CHALLENGE.test(text)
}

function isVerifierOf({ challenge, challenge_method }: AuthorizationCodeRow, verifier: string): boolean {
  if (challenge_method !== 'S256' || !VERIFIER.test(verifier)) return false
  const [expected, given] = [Buffer.from(challenge), Buffer.from(hash('sha256', verifier, 'base64url'))]
  return expected.length === given.length && timingSafeEqual(expected, given)
}
