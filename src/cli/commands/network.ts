// Network rules: which hosts a folder's agent may reach.
import { refuse } from '../../lib/refusal.ts'
import { networkRulesResource } from '../../resources/network-rules.ts'
import { command } from '../command.ts'

const rules = networkRulesResource.verbs
const ROOT = '(root)'

/** The root has no name in the store. An empty word is refused: an unset shell variable must not open a host for all. */
function storedFolder(text: string): string {
  if (text === '') refuse('invalid', 'folder must not be empty', `the root is '${ROOT}'`)
  return text === ROOT ? '' : text
}

export const networkCommands = [
  command({
    usage: 'network <instance> allow <folder> <target>',
    about: `let a folder and those below it reach a host and its subdomains; '${ROOT}' is every folder`,
    example: 'network demo allow team api.example.com',
    run: async (svc, { folder, target: typed }) => {
      const { added, target } = await svc.call(rules.allow, { folder: storedFolder(folder), target: typed })
      svc.print.line(added ? `${folder} may reach ${target}` : `${folder} may reach ${target} already; nothing changed`)
    },
  }),
  command({
    usage: 'network <instance> deny <folder> <target>',
    about: 'take back the rule that lets a folder reach a host',
    example: 'network demo deny team api.example.com',
    run: async (svc, { folder, target }) => {
      await svc.call(rules.deny, { folder: storedFolder(folder), target })
      svc.print.line(`removed the rule of ${folder} for ${target}`)
    },
  }),
  command({
    usage: 'network <instance> list [<folder>] [--json]',
    about: 'show every rule, or those of one folder alone',
    example: 'network demo list team',
    run: async (svc, { folder }) =>
      svc.print.table({
        rows: await svc.rows(rules.list, 'network_rules', folder === undefined ? {} : { folder: storedFolder(folder) }),
        columns: {
          FOLDER: (rule) => rule.folder || ROOT,
          TARGET: (rule) => rule.target,
          CREATED_AT: (rule) => rule.created_at,
          CREATED_BY: (rule) => rule.created_by,
        },
        empty: 'no rules',
      }),
  }),
  command({
    usage: 'network <instance> resolve <folder> [--json]',
    about: 'print every host that a folder may reach, with what it has from the folders above',
    example: 'network demo resolve team/support',
    run: async (svc, { folder }) => {
      const { hosts } = await svc.call(rules.resolve, { folder: storedFolder(folder) })
      svc.print.table({ rows: hosts, columns: { HOST: (host) => host }, empty: 'no hosts', header: false })
    },
  }),
]
