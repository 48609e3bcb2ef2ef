// Invites as rows. Only the hash of a token is stored; a revoked invite stays and has `revoked_at`.
import { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import { Table } from '../../store/table.ts'
import { hashToken } from '../links/link-token.ts'
import { Bytes, FolderGlob, line, Timestamp } from '../values.ts'

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

/** The invite of a token, if it can still be redeemed. */
export async function findOpenInvite(tx: Tx, token: string, now: string): Promise<InviteRow | undefined> {
  const invite = await invites.find(tx, { token_hash: hashToken(token) })
  if (!invite || invite.revoked_at !== undefined || invite.used_count >= invite.max_uses) return undefined
  return invite.expires_at !== undefined && invite.expires_at <= now ? undefined : invite
}

export async function isInviteOpen(tx: Tx, token: string, now: string): Promise<boolean> {
  return (await findOpenInvite(tx, token, now)) !== undefined
}
