// Sessions of people: of a browser, whose cookie has the token, or of an OAuth client with its refresh tokens. Only hashes of
// tokens are stored. The successor of a token is derived from it with SECRETS_KEY, so that parallel requests, other processes
// and a retry after a crash all hand out the same one. See docs/decisions.md#sessions.
import { z } from 'zod'
import { type Clock, type Random, timestamp, uuidv7 } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { execute, integer, oneOf, optional, query, text } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { createToken, hashToken } from '../links/link-token.ts'
import { keyedHash } from '../secrets/derived-keys.ts'
import type { Keyring } from '../secrets/keyring.ts'
import { Bytes, line, Timestamp } from '../values.ts'

export const SESSION_KINDS = ['browser', 'client'] as const

export const Session = z
  .object({
    family_id: line(64).meta({ readOnly: true }),
    sub: line(256),
    scope: z.string(),
    aud: line(256).optional(),
    started_at: Timestamp.meta({ readOnly: true }),
    renewed_at: Timestamp.meta({ readOnly: true }),
    expires_at: Timestamp.meta({ readOnly: true }).describe('When it ends unless it is used before'),
    rotations: z.int(),
    status: z.enum(['active', 'revoked', 'expired']),
    kind: z.enum(SESSION_KINDS).describe('A browser, or an OAuth client'),
    name: line(256).optional().describe('The browser or the client'),
    method: line(64).describe('How the person signed in'),
    client_id: line(2048).optional(),
    idle_ms: z.int().meta({ writeOnly: true }),
    ends_at: Timestamp.meta({ readOnly: true }).describe('When it ends in any case'),
    address: line(64).optional().describe('Client address at the start'),
  })
  .meta({ id: 'Sessions' })

export type SessionRow = z.output<typeof Session>

export const sessions = new Table({
  name: 'sessions',
  row: Session,
  key: 'family_id',
  storage: [
    `create table sessions (
       family_id text primary key, sub text not null, scope text not null, aud text, started_at text not null,
       renewed_at text not null, expires_at text not null, rotations integer not null, status text not null)`,
    'create index sessions_newest on sessions (started_at, family_id)',
    `alter table sessions add column kind text not null default 'browser'`,
    'alter table sessions add column name text',
    `alter table sessions add column method text not null default 'link'`,
    'alter table sessions add column client_id text',
    'alter table sessions add column idle_ms bigint not null default 0',
    `alter table sessions add column ends_at text not null default ''`,
    'alter table sessions add column address text',
    'create index sessions_of_sub on sessions (sub, status)',
    'create index sessions_expiry on sessions (expires_at)',
    `create index sessions_active_expiry on sessions (expires_at) where status = 'active'`,
    'create index sessions_of_sub_newest on sessions (sub, started_at, family_id)',
  ],
})

const SessionToken = z.object({
  token_hash: Bytes,
  family_id: line(64),
  generation: z.int(),
  created_at: Timestamp,
  /** When its successor was created. */
  replaced_at: Timestamp.optional(),
  /** When it was first presented; the previous token ends soon afterwards. */
  confirmed_at: Timestamp.optional(),
})

export const sessionTokens = new Table({
  name: 'session_tokens',
  row: SessionToken,
  key: 'token_hash',
  storage: [
    `create table session_tokens (
       token_hash bytea primary key, family_id text not null references sessions (family_id) on delete cascade,
       generation integer not null, created_at text not null, replaced_at text, confirmed_at text)`,
    'create index session_tokens_of_family on session_tokens (family_id, generation)',
  ],
})

export interface SessionHost {
  readonly clock: Clock
  readonly random: Random
  readonly keyring: Keyring
}

export interface NewSession {
  readonly sub: string
  readonly kind: SessionRow['kind']
  readonly method: string
  readonly idleMs: number
  readonly maxMs: number
  readonly scope?: string
  readonly aud?: string | undefined
  readonly name?: string | undefined
  readonly clientId?: string | undefined
  readonly address?: string | undefined
}

export interface CreatedSession {
  readonly session: SessionRow
  /** 256 bits, handed out once. */
  readonly token: string
}

export async function createSession(tx: Tx, host: SessionHost, started: NewSession): Promise<CreatedSession> {
  const nowMs = host.clock.now()
  const now = timestamp(nowMs)
  const { sub, kind, method, scope = '', aud, name, clientId, address, idleMs, maxMs } = started
  const session: SessionRow = {
    family_id: uuidv7(host.clock, host.random),
    sub,
    scope,
    started_at: now,
    renewed_at: now,
    expires_at: timestamp(nowMs + Math.min(idleMs, maxMs)),
    rotations: 0,
    status: 'active',
    kind,
    method,
    idle_ms: idleMs,
    ends_at: timestamp(nowMs + maxMs),
    ...(aud === undefined ? {} : { aud }),
    ...(name === undefined ? {} : { name }),
    ...(clientId === undefined ? {} : { client_id: clientId }),
    ...(address === undefined ? {} : { address }),
  }
  const token = createToken(host.random)
  await sessions.insert(tx, session)
  await sessionTokens.insert(tx, {
    token_hash: hashToken(token),
    family_id: session.family_id,
    generation: 0,
    created_at: now,
    // There is no previous token to end.
    confirmed_at: now,
  })
  return { session, token }
}

/** A token of the store with its session, whether it still counts or not. */
export interface PresentedToken {
  readonly sessionId: string
  readonly sub: string
  readonly kind: SessionRow['kind']
  readonly status: string
  readonly startedMs: number
  readonly renewedMs: number
  readonly expiresMs: number
  readonly endsMs: number
  readonly idleMs: number
  readonly generation: number
  readonly createdMs: number
  /** Undefined for the newest token of the session. */
  readonly replacedMs: number | undefined
  /** When it was first presented. */
  readonly confirmedMs: number | undefined
}

/** One indexed read, because every request with a session needs it. */
export async function findToken(tx: Tx, tokenHash: Uint8Array): Promise<PresentedToken | undefined> {
  const [row] = await query(
    tx,
    {
      family_id: text,
      sub: text,
      kind: oneOf(SESSION_KINDS),
      status: text,
      started_at: text,
      renewed_at: text,
      expires_at: text,
      ends_at: text,
      idle_ms: integer,
      generation: integer,
      created_at: text,
      replaced_at: optional(text),
      confirmed_at: optional(text),
    },
    `select s.family_id, s.sub, s.kind, s.status, s.started_at, s.renewed_at, s.expires_at, s.ends_at, s.idle_ms,
            t.generation, t.created_at, t.replaced_at, t.confirmed_at
     from session_tokens t join sessions s on s.family_id = t.family_id where t.token_hash = $1`,
    [tokenHash],
  )
  if (!row) return undefined
  return {
    sessionId: row.family_id,
    sub: row.sub,
    kind: row.kind,
    status: row.status,
    startedMs: Date.parse(row.started_at),
    renewedMs: Date.parse(row.renewed_at),
    expiresMs: Date.parse(row.expires_at),
    endsMs: Date.parse(row.ends_at),
    idleMs: row.idle_ms,
    generation: row.generation,
    createdMs: Date.parse(row.created_at),
    replacedMs: row.replaced_at === undefined ? undefined : Date.parse(row.replaced_at),
    confirmedMs: row.confirmed_at === undefined ? undefined : Date.parse(row.confirmed_at),
  }
}

export function isLive({ status, expiresMs, endsMs }: PresentedToken, nowMs: number): boolean {
  return status === 'active' && nowMs < expiresMs && nowMs < endsMs
}

/** Reading a session does not extend it. */
export async function isSessionActive(tx: Tx, family_id: string, nowMs: number): Promise<boolean> {
  const row = await sessions.find(tx, { family_id })
  return row?.status === 'active' && nowMs < Math.min(Date.parse(row.expires_at), Date.parse(row.ends_at))
}

const SUCCESSOR_PURPOSE = 'svc session successor'

export function successorOf(keyring: Keyring, token: string): string {
  return keyedHash(keyring, SUCCESSOR_PURPOSE, token).toString('base64url')
}

/**
 * Creates the successor of the newest token, unless a parallel request has done so, and extends the session. `keepsHistory`
 * keeps the hashes of earlier tokens, to recognize their reuse.
 */
export async function rotateToken(
  tx: Tx,
  host: SessionHost,
  token: string,
  found: PresentedToken,
  { keepsHistory }: { keepsHistory: boolean },
): Promise<string> {
  const nowMs = host.clock.now()
  const now = timestamp(nowMs)
  const successor = successorOf(host.keyring, token)
  const { sessionId: family_id, generation } = found
  const isFirst = await sessionTokens.insertIfMissing(tx, {
    token_hash: hashToken(successor),
    family_id,
    generation: generation + 1,
    created_at: now,
  })
  if (!isFirst) return successor
  await sessionTokens.update(tx, { token_hash: hashToken(token) }, { replaced_at: now })
  if (!keepsHistory)
    await execute(tx, 'delete from session_tokens where family_id = $1 and generation < $2', [family_id, generation])
  await execute(
    tx,
    'update sessions set renewed_at = $2, expires_at = $3, rotations = rotations + 1 where family_id = $1',
    [family_id, now, timestamp(Math.min(nowMs + found.idleMs, found.endsMs))],
  )
  return successor
}

/** Records the first use of a token, after which its predecessor ends. */
export async function confirmToken(tx: Tx, tokenHash: Uint8Array, now: string): Promise<void> {
  await execute(tx, 'update session_tokens set confirmed_at = $2 where token_hash = $1 and confirmed_at is null', [
    tokenHash,
    now,
  ])
}

/** Extends a session that is used without rotation. */
export async function touchSession(
  tx: Tx,
  { sessionId, idleMs, endsMs }: PresentedToken,
  nowMs: number,
): Promise<void> {
  await sessions.update(
    tx,
    { family_id: sessionId, status: 'active' },
    { renewed_at: timestamp(nowMs), expires_at: timestamp(Math.min(nowMs + idleMs, endsMs)) },
  )
}

/** Adding a way to sign in, or a bearer for longer than a day, needs a recent sign-in. */
const RECENT_MS = 15 * 60_000

export function isRecentSignIn(signedInMs: number, nowMs: number): boolean {
  return nowMs >= signedInMs && nowMs - signedInMs < RECENT_MS
}

/** Newest first, of browsers and clients. */
export async function listActiveSessions(tx: Tx, sub: string, nowMs: number): Promise<SessionRow[]> {
  const rows = await sessions.list(tx, { sub, status: 'active' }, [
    ['started_at', 'desc'],
    ['family_id', 'asc'],
  ])
  return rows.filter((row) => nowMs < Date.parse(row.expires_at) && nowMs < Date.parse(row.ends_at))
}

/** Returns whether it was active. */
export async function revokeSession(tx: Tx, family_id: string): Promise<boolean> {
  return (await sessions.update(tx, { family_id, status: 'active' }, { status: 'revoked' })) > 0
}

/** Returns how many were active. */
export async function revokeOtherSessions(tx: Tx, sub: string, kept: string): Promise<number> {
  return execute(
    tx,
    `update sessions set status = 'revoked' where sub = $1 and status = 'active' and family_id <> $2`,
    [sub, kept],
  )
}

/** Returns how many were active. */
export async function revokeAllSessions(tx: Tx, sub: string): Promise<number> {
  return sessions.update(tx, { sub, status: 'active' }, { status: 'revoked' })
}
