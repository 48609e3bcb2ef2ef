// Network rules: the hosts that a folder's agent may reach.
import { DEFAULT_HOSTS, isDefaultRule } from '../../core/access/allowlist.ts'
import { deniedHost, unallowableReason } from '../../core/access/network-denials.ts'
import { refuse } from '../../lib/refusal.ts'
import { networkRulesResource } from '../../resources/network-rules.ts'
import { defineSvcCommand } from '../command.ts'

const rules = networkRulesResource.verbs
const ROOT = '(root)'

/** The root is empty in the store. Refuses an empty word, because an unset shell variable must not allow a host for all. */
function toStoredFolder(text: string): string {
  if (text === '') refuse('invalid', 'folder must not be empty', `the root is '${ROOT}'`)
  return text === ROOT ? '' : text
}

interface ListedRule {
  readonly folder: string
  readonly target: string
  readonly created_at?: string
  readonly created_by: string
}

/** Built-in hosts, listed like rules of the root. */
const DEFAULT_RULES: ListedRule[] = DEFAULT_HOSTS.map((target) => ({ folder: '', target, created_by: 'default' }))

export const networkCommands = [
  defineSvcCommand({
    usage: 'network <instance> allow <folder> <target>',
    about: `allow a folder and those below it to reach a host and its subdomains; '${ROOT}' means every folder`,
    example: 'network demo allow team api.example.com',
    run: async (svc, { folder, target: typed }) => {
      const { added, target, warning } = await svc.call(rules.allow, { folder: toStoredFolder(folder), target: typed })
      svc.print.line(added ? `${folder} may reach ${target}` : `${folder} may already reach ${target}; nothing changed`)
      if (warning !== undefined) svc.print.warn(warning)
    },
  }),
  defineSvcCommand({
    usage: 'network <instance> deny <folder> <target>',
    about: 'remove the rule that allows a folder to reach a host',
    example: 'network demo deny team api.example.com',
    run: async (svc, { folder, target }) => {
      await svc.call(rules.deny, { folder: toStoredFolder(folder), target })
      svc.print.line(`removed the rule of ${folder} for ${target}`)
    },
  }),
  defineSvcCommand({
    usage: 'network <instance> list [<folder>] [--json]',
    about: 'list all rules and the default hosts, or only the rules of one folder',
    example: 'network demo list team',
    run: async (svc, { folder }) => {
      const stored = folder === undefined ? undefined : toStoredFolder(folder)
      const listed = await svc.listAll(rules.list, 'network_rules', stored === undefined ? {} : { folder: stored })
      const defaults: ListedRule[] = stored ? [] : DEFAULT_RULES
      svc.print.table({
        rows: [...defaults, ...listed.filter((rule) => !isDefaultRule(rule))],
        columns: {
          FOLDER: (rule) => rule.folder || ROOT,
          TARGET: (rule) => rule.target,
          CREATED_AT: (rule) => rule.created_at ?? '-',
          CREATED_BY: (rule) => rule.created_by,
        },
        empty: 'no rules',
      })
    },
  }),
  defineSvcCommand({
    usage: 'network <instance> resolve <folder> [--json]',
    about: 'print every host that a folder may reach, including those allowed by the folders above',
    example: 'network demo resolve team/support',
    run: async (svc, { folder }) => {
      const { hosts } = await svc.call(rules.resolve, { folder: toStoredFolder(folder) })
      svc.print.table({ rows: hosts, columns: { HOST: (host) => host }, empty: 'no hosts', header: false })
    },
  }),
  defineSvcCommand({
    usage: 'network <instance> denied [<folder>] [--json]',
    about: 'list the hosts that agents were refused, newest first, and the command that allows each',
    example: 'network demo denied team',
    run: async (svc, { instance, folder }) =>
      svc.print.table({
        rows: await svc.listAll(rules.denied, 'network_denials', folder === undefined ? {} : { folder }),
        columns: {
          FOLDER: (denial) => denial.folder,
          HOST: (denial) => denial.host,
          SNI: (denial) => denial.sni || '-',
          PORT: (denial) => denial.port || '-',
          REASON: (denial) => denial.reason,
          COUNT: (denial) => denial.count,
          LAST: (denial) => denial.last_at,
          'ALLOW WITH': (denial) =>
            unallowableReason(denial) ??
            svc.showCommands(`svc network ${instance} allow ${denial.folder} ${deniedHost(denial)}`),
        },
        empty: 'no refused hosts',
      }),
  }),
]
