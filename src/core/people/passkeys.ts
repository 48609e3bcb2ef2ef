// Passkeys: public keys of authenticators that sign a person in. See docs/decisions.md#passkeys.
import { z } from 'zod'
import { timestamp } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { Bytes, line, patternText, Sub, Timestamp } from '../values.ts'

export const PASSKEYS_MAX = 20

/** At most 1023 bytes, as WebAuthn says. */
export const CredentialId = patternText(/^[A-Za-z0-9_-]{1,1364}$/, 'must be base64url')

export const Passkey = z
  .object({
    id: CredentialId,
    sub: Sub,
    /** Random and the same for all passkeys of a person: authenticators show and sync it, so it is not the sub. */
    user_handle: patternText(/^[A-Za-z0-9_-]{1,86}$/, 'must be base64url').meta({ writeOnly: true }),
    public_key: Bytes.meta({ writeOnly: true }),
    /** How often the authenticator has signed; 0 for those that do not count. */
    counter: z.int().min(0).max(0xffff_ffff).meta({ readOnly: true }),
    transports: z.array(line(32)).max(16),
    name: line(64),
    is_backup_eligible: z.boolean().describe('Whether the authenticator may copy it to other devices'),
    is_backed_up: z.boolean(),
    created_at: Timestamp.meta({ readOnly: true }),
    last_used_at: Timestamp.optional().meta({ readOnly: true }),
  })
  .meta({ id: 'Passkeys' })

export type PasskeyRow = z.output<typeof Passkey>

export const passkeys = new Table({
  name: 'passkeys',
  row: Passkey,
  key: 'id',
  storage: [
    `create table passkeys (
       id text primary key, sub text not null, user_handle text not null, public_key bytea not null,
       counter bigint not null, transports text not null, name text not null, is_backup_eligible boolean not null,
       is_backed_up boolean not null, created_at text not null, last_used_at text)`,
    'create index passkeys_of_sub on passkeys (sub, created_at)',
  ],
})

const UsedChallenge = z.object({ challenge: line(86), expires_at: Timestamp })

/** Challenges whose response was accepted, until they expire. The others are only in sealed cookies. */
export const usedChallenges = new Table({
  name: 'used_challenges',
  row: UsedChallenge,
  key: 'challenge',
  storage: [
    'create table used_challenges (challenge text primary key, expires_at text not null)',
    'create index used_challenges_expiry on used_challenges (expires_at)',
  ],
})

/** Returns whether this is the first use. Also removes expired challenges, so the table stays small. */
export async function takeChallenge(tx: Tx, challenge: string, expiresMs: number, nowMs: number): Promise<boolean> {
  await execute(tx, 'delete from used_challenges where expires_at < $1', [timestamp(nowMs)])
  return usedChallenges.insertIfMissing(tx, { challenge, expires_at: timestamp(expiresMs) })
}

export function listPasskeys(tx: Tx, sub: string): Promise<PasskeyRow[]> {
  return passkeys.list(tx, { sub }, [
    ['created_at', 'asc'],
    ['id', 'asc'],
  ])
}

/** Authenticators that count never repeat or lower their counter, unless they were copied. */
export function isCounterFall({ counter: stored }: Pick<PasskeyRow, 'counter'>, presented: number): boolean {
  return (presented > 0 || stored > 0) && presented <= stored
}
