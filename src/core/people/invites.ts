// Invites as rows, and who has redeemed them. Only the hash of a token is stored; a revoked invite stays and has `revoked_at`.
import { z } from 'zod'
import type { Random } from '../../lib/clock.ts'
import type { Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { acl } from '../access/acl.ts'
import { createToken, hashToken } from '../links/link-token.ts'
import { Bytes, FolderGlob, line, Sub, Timestamp } from '../values.ts'

export const Invite = z
  .object({
    token_hash: Bytes.meta({ writeOnly: true }),
    token_id: line(64).meta({ readOnly: true }).describe('The first 12 characters of the token'),
    target_glob: FolderGlob.describe('Folders that the recipient will administer, such as team/**'),
    issued_by_sub: line(256).meta({ readOnly: true }),
    issued_at: Timestamp.meta({ readOnly: true }),
    expires_at: Timestamp.optional(),
    max_uses: z.int().min(1).max(1_000_000),
    used_count: z.int().meta({ readOnly: true }),
    revoked_at: Timestamp.meta({ readOnly: true }).optional(),
  })
  .meta({ id: 'Invites' })

export const invites = new Table({
  name: 'invites',
  row: Invite,
  key: 'token_hash',
  storage: [
    `create table invites (
       token_hash bytea primary key, token_id text not null unique, target_glob text not null,
       issued_by_sub text not null, issued_at text not null, expires_at text, max_uses integer not null,
       used_count integer not null, revoked_at text)`,
    'create index invites_newest on invites (issued_at, token_id)',
  ],
})

export type InviteRow = z.output<typeof Invite>

/** Its beginning is the id of the invite, which commands would take for a flag if it began with `-`. */
export function createInviteToken(random: Random): string {
  for (;;) {
    const token = createToken(random)
    if (!token.startsWith('-')) return token
  }
}

const InviteRedemption = z.object({ token_hash: Bytes, sub: Sub, redeemed_at: Timestamp })

export const inviteRedemptions = new Table({
  name: 'invite_redemptions',
  row: InviteRedemption,
  key: ['token_hash', 'sub'],
  storage: [
    `create table invite_redemptions (
       token_hash bytea not null, sub text not null, redeemed_at text not null, primary key (token_hash, sub))`,
  ],
})

/** The invite of a token, if it can still be redeemed. */
export async function findOpenInvite(tx: Tx, token: string, now: string): Promise<InviteRow | undefined> {
  const invite = await invites.find(tx, { token_hash: hashToken(token) })
  if (!invite || invite.revoked_at !== undefined || invite.used_count >= invite.max_uses) return undefined
  return invite.expires_at !== undefined && invite.expires_at <= now ? undefined : invite
}

export async function isInviteOpen(tx: Tx, token: string, now: string): Promise<boolean> {
  return (await findOpenInvite(tx, token, now)) !== undefined
}

/** The invite that this person has redeemed with the token, even if it is used up, expired or revoked since. */
export async function findRedeemedInvite(tx: Tx, token: string, sub: string): Promise<InviteRow | undefined> {
  const token_hash = hashToken(token)
  return (await inviteRedemptions.find(tx, { token_hash, sub })) ? invites.find(tx, { token_hash }) : undefined
}

/** The condition is part of the update, so parallel people never use an invite more often than allowed. */
const USE = `update invites set used_count = used_count + 1 where token_hash = $1 and used_count < max_uses
  and revoked_at is null and (expires_at is null or expires_at > $2)`

/** Grants the person the folders of the invite. Returns false if it cannot be used any more. */
export async function useInvite(
  tx: Tx,
  { token_hash, target_glob }: InviteRow,
  sub: string,
  now: string,
): Promise<boolean> {
  if ((await execute(tx, USE, [token_hash, now])) === 0) return false
  await inviteRedemptions.insert(tx, { token_hash, sub, redeemed_at: now })
  await acl.insertIfMissing(tx, {
    principal: sub,
    action: 'admin',
    scope: target_glob,
    effect: 'allow',
    params: '',
    predicate: '',
    granted_by: 'invite',
    granted_at: now,
  })
  return true
}
