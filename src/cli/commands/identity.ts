// Identities: the accounts (subs) that belong to one person.
import { identitiesResource } from '../../resources/identities.ts'
import { defineSvcCommand } from '../command.ts'

const identities = identitiesResource.verbs

export const identityCommands = [
  defineSvcCommand({
    usage: 'identity <instance> list [--json]',
    about: 'list all people and their subs',
    example: 'identity demo list',
    run: async (svc) =>
      svc.print.table({
        rows: (await svc.call(identities.list, {})).identities,
        columns: {
          ID: ({ id }) => id,
          NAME: ({ name }) => name,
          CREATED_AT: ({ created_at }) => created_at,
          SUBS: ({ subs }) => subs.join(','),
        },
        empty: 'no identities',
      }),
  }),
  defineSvcCommand({
    usage: 'identity <instance> link <sub> [--name|-n <text>] [--id|-i <id>] [--move]',
    about:
      'create a person for a sub, or with --id add the sub to an existing person; --move takes it from another person',
    example: "identity demo link github:42 --name 'Ada'",
    run: async (svc, { sub, name, id, move }) => {
      if (name !== undefined && id !== undefined) svc.print.warn('--name is ignored: --id selects an existing person')
      const linked = await svc.call(identities.link, { sub, move, ...(id === undefined ? { name } : { id }) })
      svc.print.line(
        linked.created
          ? `created identity ${linked.id} (${linked.name}) and linked ${sub}`
          : `linked ${sub} -> ${linked.id}`,
      )
    },
  }),
  defineSvcCommand({
    usage: 'identity <instance> unlink <sub>',
    about: 'remove a sub from its person',
    example: 'identity demo unlink github:42',
    run: async (svc, { sub }) => {
      const { removed } = await svc.call(identities.unlink, { sub })
      svc.print.line(removed ? `unlinked ${sub}` : `no claim to remove for ${sub}`)
    },
  }),
]
