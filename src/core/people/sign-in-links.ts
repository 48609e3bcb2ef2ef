// One-time sign-in links, which the command line prints. The store has only the hash of a token.
import { z } from 'zod'
import { type Clock, type Random, timestamp } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { createToken, hashToken } from '../links/link-token.ts'
import { Bytes, Sub, Timestamp } from '../values.ts'

export const SIGN_IN_LINK_TTL_MS = 15 * 60_000

const SignInLink = z.object({
  token_hash: Bytes,
  sub: Sub,
  created_at: Timestamp,
  expires_at: Timestamp,
  used_at: Timestamp.optional(),
})

export const signInLinks = new Table({
  name: 'sign_in_links',
  row: SignInLink,
  key: 'token_hash',
  storage: [
    `create table sign_in_links (
       token_hash bytea primary key, sub text not null, created_at text not null, expires_at text not null,
       used_at text)`,
    'create index sign_in_links_expiry on sign_in_links (expires_at)',
  ],
})

interface LinkHost {
  readonly clock: Clock
  readonly random: Random
}

/** Returns the token, which is not stored. Also removes expired links. */
export async function createSignInLink(tx: Tx, { clock, random }: LinkHost, sub: string): Promise<string> {
  const nowMs = clock.now()
  const token = createToken(random)
  await execute(tx, 'delete from sign_in_links where expires_at < $1', [timestamp(nowMs)])
  await signInLinks.insert(tx, {
    token_hash: hashToken(token),
    sub,
    created_at: timestamp(nowMs),
    expires_at: timestamp(nowMs + SIGN_IN_LINK_TTL_MS),
  })
  return token
}

/** The person of an unused link, without using it. */
export async function findSignInLink(tx: Tx, token: string, nowMs: number): Promise<string | undefined> {
  const link = await signInLinks.find(tx, { token_hash: hashToken(token) })
  return link && link.used_at === undefined && nowMs < Date.parse(link.expires_at) ? link.sub : undefined
}

/** Uses the link: of parallel requests one gets the person. */
export async function takeSignInLink(tx: Tx, token: string, nowMs: number): Promise<string | undefined> {
  const token_hash = hashToken(token)
  const now = timestamp(nowMs)
  const taken = await execute(
    tx,
    'update sign_in_links set used_at = $2 where token_hash = $1 and used_at is null and expires_at > $2',
    [token_hash, now],
  )
  return taken > 0 ? (await signInLinks.find(tx, { token_hash }))?.sub : undefined
}
