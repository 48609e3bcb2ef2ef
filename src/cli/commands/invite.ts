// Invites: a person who redeems one may administer the folders that match its glob.
import { timestamp } from '../../lib/clock.ts'
import { parseDuration } from '../../lib/text/duration.ts'
import { invitesResource } from '../../resources/invites.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { parseInteger } from '../input/integer-argument.ts'

const invites = invitesResource.verbs

/** 0 means no expiry, like no flag. */
function resolveExpiry({ io }: SvcContext, expires: string | undefined): string | undefined {
  const ms = expires === undefined ? 0 : parseDuration(expires)
  return ms === 0 ? undefined : timestamp(io.clock.now() + ms)
}

export const inviteCommands = [
  defineSvcCommand({
    usage: 'invite <instance> create <glob> [--max-uses|-n <int>] [--expires|-e <duration>]',
    about: 'mint an invite to administer <glob>; the token is shown only once',
    example: "invite demo create 'team/**' --max-uses 3 --expires 72h",
    run: async (svc, { glob, maxUses, expires }) => {
      const invite = await svc.call(invites.create, {
        target_glob: glob,
        max_uses: maxUses === undefined ? 1 : parseInteger('--max-uses', maxUses),
        expires_at: resolveExpiry(svc, expires),
      })
      const { token, target_glob, max_uses, expires_at = 'never', accept_url = '' } = invite
      svc.print.record({ token, target_glob, max_uses, expires_at, accept_url }, invite)
    },
  }),
  defineSvcCommand({
    usage: 'invite <instance> list [--issued-by|-b <sub>] [--json]',
    about: 'list invites, newest first; TOKEN is only the start of the token',
    example: 'invite demo list --issued-by cli',
    run: async (svc, { issuedBy }) =>
      svc.print.table({
        rows: await svc.listAll(invites.list, 'invites', { issued_by: issuedBy }),
        columns: {
          TOKEN: (invite) => invite.token_id,
          TARGET_GLOB: (invite) => invite.target_glob,
          ISSUED_BY: (invite) => invite.issued_by_sub,
          ISSUED_AT: (invite) => invite.issued_at,
          EXPIRES_AT: (invite) => (invite.revoked_at === undefined ? (invite.expires_at ?? '-') : 'revoked'),
          USED: (invite) => `${invite.used_count}/${invite.max_uses}`,
        },
        empty: 'no invites',
      }),
  }),
  defineSvcCommand({
    usage: 'invite <instance> revoke <token_id>',
    about: 'revoke an invite; <token_id> is shown by list, or is the whole token',
    example: 'invite demo revoke XyQ2mB7kPq1d',
    run: async (svc, { token_id }) => {
      await svc.call(invites.revoke, { token_id })
      svc.print.line('revoked the invite')
    },
  }),
]
