// Sign-in sessions: one row per family of refresh tokens. They can be listed and revoked.
import { z } from 'zod'
import { principalOf } from '../core/access/caller.ts'
import { line, Timestamp } from '../core/values.ts'
import { refuse } from '../lib/refusal.ts'
import { hasTool, INSTANCE_SCOPE, requireToolForAgents } from '../registry/authorization.ts'
import { ascending, listVerb, mustFindRow } from '../registry/crud.ts'
import { defineResource, defineVerb } from '../registry/resource.ts'
import { Table } from '../store/table.ts'

const Session = z
  .object({
    family_id: line(64).meta({ readOnly: true }),
    sub: line(256),
    scope: z.string(),
    aud: line(256).optional(),
    started_at: Timestamp.meta({ readOnly: true }),
    renewed_at: Timestamp.meta({ readOnly: true }),
    expires_at: Timestamp.meta({ readOnly: true }),
    rotations: z.int(),
    status: z.enum(['active', 'revoked', 'expired']),
  })
  .meta({ id: 'Sessions' })

const sessions = new Table({
  name: 'sessions',
  row: Session,
  key: 'family_id',
  storage: [
    `create table sessions (
       family_id text primary key, sub text not null, scope text not null, aud text, started_at text not null,
       renewed_at text not null, expires_at text not null, rotations integer not null, status text not null)`,
    'create index sessions_newest on sessions (started_at, family_id)',
  ],
})

export const sessionsResource = defineResource({
  of: sessions,
  title: 'Sessions',
  servedBy: 'authd',
  verbs: (table) => ({
    list: listVerb(table, 'sessions', {
      authorize: requireToolForAgents,
      order: [['started_at', 'desc'], ...ascending('family_id')],
      keep: async (ctx) => {
        const [mayAll, own] = [await hasTool(ctx, INSTANCE_SCOPE), principalOf(ctx.caller)]
        return ({ sub }) => mayAll || sub === own
      },
    }),

    delete: defineVerb({
      http: 'DELETE /{family_id}',
      input: Session.pick({ family_id: true }),
      authorize: async (ctx, { family_id }) => {
        const session = await mustFindRow(ctx, table, { family_id }, 'such session')
        if (session.sub === principalOf(ctx.caller) || (await hasTool(ctx, INSTANCE_SCOPE))) return
        refuse('not_found', 'there is no such session')
      },
      run: async (ctx, { family_id }) => {
        const changed = await table.update(ctx.tx, { family_id, status: 'active' }, { status: 'revoked' })
        if (changed === 0) refuse('not_found', 'that session has ended already')
      },
    }),
  }),
})
