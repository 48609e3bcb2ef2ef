// Identities: which subs are one person.
import { identitiesResource } from '../../resources/identities.ts'
import { defineSvcCommand } from '../command.ts'

const identities = identitiesResource.verbs

export const identityCommands = [
  defineSvcCommand({
    usage: 'identity <instance> list [--json]',
    about: 'show every person and the subs that are theirs',
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
      'make a person of a sub, or with --id add the sub to a person who is there; --move if it belongs to another person',
    example: "identity demo link github:42 --name 'Ada'",
    run: async (svc, { sub, name, id, move }) => {
      if (name !== undefined && id !== undefined) svc.print.warn('--name is ignored: --id names a person who is there')
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
    about: 'take a sub away from the person who has it',
    example: 'identity demo unlink github:42',
    run: async (svc, { sub }) => {
      const { removed } = await svc.call(identities.unlink, { sub })
      svc.print.line(removed ? `unlinked ${sub}` : `no claim to remove for ${sub}`)
    },
  }),
]
