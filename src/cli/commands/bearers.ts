// Lists and revokes the bearers that were issued.
import { timestamp } from '../../lib/clock.ts'
import { bearersResource } from '../../resources/bearers.ts'
import { defineSvcCommand } from '../command.ts'

const bearers = bearersResource.verbs

export const bearersCommands = [
  defineSvcCommand({
    usage: 'bearers <instance> list [<sub>] [--json]',
    about: 'list the bearers of everyone, or of <sub>, newest first; a bearer stays listed for 30 days after its end',
    example: 'bearers demo list github:42',
    run: async (svc, { sub }) => {
      const now = timestamp(svc.io.clock.now())
      return svc.print.table({
        rows: await svc.listAll(bearers.list, 'bearers', { sub }),
        columns: {
          ID: ({ id }) => id,
          SUB: (bearer) => bearer.sub,
          NAME: ({ name = '-' }) => name,
          FOLDER: ({ folder = '-' }) => folder,
          CREATED_AT: ({ created_at }) => created_at,
          EXPIRES_AT: ({ expires_at }) => expires_at,
          LAST_USED: ({ last_used_at = '-' }) => last_used_at,
          STATE: ({ revoked_at, expires_at }) => stateAt(now, revoked_at, expires_at),
        },
        empty: sub === undefined ? 'no bearers' : `no bearers of ${sub}`,
      })
    },
  }),
  defineSvcCommand({
    usage: 'bearers <instance> revoke <id>',
    about: 'revoke a bearer; it is refused at once',
    example: 'bearers demo revoke 019b76da-a800-7000-8000-000000000000',
    run: async (svc, { id }) => {
      await svc.call(bearers.revoke, { id })
      svc.print.line(`revoked the bearer ${id}`)
    },
  }),
  defineSvcCommand({
    usage: 'bearers <instance> revoke-all <sub>',
    about: 'revoke every bearer of a person or service; they are refused at once',
    example: 'bearers demo revoke-all github:42',
    run: async (svc, { sub }) => {
      const { revoked } = await svc.call(bearers.revoke_all, { sub })
      svc.print.line(`bearers of ${sub} revoked: ${revoked}`)
    },
  }),
]

function stateAt(now: string, revokedAt: string | undefined, expiresAt: string): string {
  if (revokedAt !== undefined) return 'revoked'
  return expiresAt > now ? 'active' : 'expired'
}
