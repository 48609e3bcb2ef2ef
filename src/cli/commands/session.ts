// Sessions of signed-in people, in browsers and in clients such as this command line.
import { sessionsResource } from '../../resources/sessions.ts'
import { defineSvcCommand } from '../command.ts'

const sessions = sessionsResource.verbs

export const sessionCommands = [
  defineSvcCommand({
    usage: 'session <instance> list [<sub>] [--json]',
    about: 'list the sessions of signed-in people, or of <sub>, newest first',
    example: 'session demo list local:operator',
    run: async (svc, { sub }) => {
      svc.print.table({
        rows: await svc.listAll(sessions.list, 'sessions', { sub }),
        columns: {
          ID: ({ family_id }) => family_id,
          SUB: (row) => row.sub,
          STATUS: ({ status }) => status,
          KIND: ({ kind }) => kind,
          METHOD: ({ method }) => method,
          NAME: ({ name = '-' }) => name,
          STARTED_AT: ({ started_at }) => started_at,
          EXPIRES_AT: ({ expires_at }) => expires_at,
        },
        empty: sub === undefined ? 'no sessions' : `no sessions of ${sub}`,
      })
    },
  }),
  defineSvcCommand({
    usage: 'session <instance> revoke <id>',
    about: 'end a session at once; list shows its <id>',
    example: 'session demo revoke 0199f3a2-7c41-7d0e-8f6b-3a5c2e9d1b47',
    run: async (svc, { id }) => {
      await svc.call(sessions.delete, { family_id: id })
      svc.print.line(`revoked session ${id}`)
    },
  }),
  defineSvcCommand({
    usage: 'session <instance> revoke-all <sub>',
    about: 'end every session of a person at once, in browsers and clients',
    example: 'session demo revoke-all github:42',
    run: async (svc, { sub }) => {
      const { deleted } = await svc.call(sessions.delete_all, { sub })
      svc.print.line(`sessions of ${sub} revoked: ${deleted}`)
    },
  }),
]
