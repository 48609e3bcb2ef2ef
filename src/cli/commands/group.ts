// Manages groups and the people who administer them.
import { OPERATOR_ROLE } from '../../core/access/policy.ts'
import { ROOT_FOLDER } from '../../core/access/tiers.ts'
import { describeReferences } from '../../core/groups/folder-references.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { parse } from '../../lib/text/schema-parser.ts'
import { aclResource } from '../../resources/acl.ts'
import { aclMembershipResource } from '../../resources/acl-membership.ts'
import { groupsResource } from '../../resources/groups.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'

const groups = groupsResource.verbs
const acl = aclResource.verbs
const memberships = aclMembershipResource.verbs

const EVERYTHING = '**'

export const groupCommands = [
  defineSvcCommand({
    usage: 'group <instance> list [--json]',
    about: 'print folder and name of every group, separated by a tab',
    example: 'group demo list',
    run: async (svc) =>
      svc.print.table({
        rows: await svc.listAll(groups.list, 'groups', {}),
        columns: { FOLDER: ({ folder }) => folder, NAME: ({ name }) => name },
        empty: 'no groups',
        tabs: true,
        header: false,
      }),
  }),
  defineSvcCommand({
    usage: 'group <instance> add <jid> <folder> [--product|-p <name>] [--move]',
    about:
      'create a group with its folder and default tasks, and route the chat <jid> to it; --move puts the route before those that lead elsewhere',
    example: 'group demo add sandbox:lobby team --product support',
    run: add,
  }),
  defineSvcCommand({
    usage: 'group <instance> rm <folder> [--purge] [--yes|-y]',
    about:
      'delete a group with its links, web routes and web hosts; --purge also deletes its routes, tasks, secrets, rules and grants, and asks first without --yes; its files stay',
    example: 'group demo rm team',
    run: remove,
  }),
  defineSvcCommand({
    usage: 'group <instance> grant <sub> <pattern>',
    about: "let a person administer the folders that match a pattern; '**' makes an operator",
    example: "group demo grant github:42 'team/**'",
    run: async (svc, { sub, pattern }) => {
      const { added } =
        pattern === EVERYTHING
          ? await svc.call(memberships.add, { subject: sub, role: OPERATOR_ROLE })
          : await svc.call(acl.grant, { principal: sub, action: 'admin', scope: pattern })
      const granted = pattern === EVERYTHING ? `${sub} -> ${OPERATOR_ROLE}` : `${sub} admin -> ${pattern}`
      svc.print.line(added ? `granted ${granted}` : `${granted} is already granted; nothing changed`)
    },
  }),
  defineSvcCommand({
    usage: 'group <instance> ungrant <sub> <pattern>',
    about: 'revoke a grant',
    example: "group demo ungrant github:42 'team/**'",
    run: (svc, { sub, pattern }) => ungrant(svc, sub, pattern),
  }),
  defineSvcCommand({
    usage: 'group <instance> grants [<sub>] [--json]',
    about: "list all grants, or those of <sub>; '**' means operator",
    example: 'group demo grants github:42',
    run: async (svc, { sub }) => {
      const grants = await findGrants(svc)
      svc.print.table({
        rows: sub === undefined ? grants : grants.filter((grant) => grant.sub === sub),
        columns: {
          SUB: (grant) => grant.sub,
          PATTERN: ({ pattern }) => pattern,
          GRANTED_AT: ({ granted_at }) => granted_at,
        },
        empty: sub === undefined ? 'no grants' : `no grants of ${sub}`,
        tabs: true,
      })
    },
  }),
]

interface AddGroupArguments {
  readonly instance: string
  readonly jid: string
  readonly folder: string
  readonly product?: string | undefined
  readonly move: boolean
}

/** Creates the directory before the row, so that no group lacks one, and checks the input before both. */
async function add(svc: SvcContext, typed: AddGroupArguments): Promise<void> {
  const { instance, jid, folder, product: productName, move } = typed
  const input = parse(groups.add.input, { jid, folder, product: productName, move })
  const { layout, host } = await svc.open()
  const { bundledProducts, findProduct, setUpFolder } = await import('../../core/groups/products.ts')
  const product =
    (await findProduct(bundledProducts, input.product)) ??
    refuse('not_found', `unknown product "${input.product}": looked for ${bundledProducts}/${input.product}/PRODUCT.md`)
  const existing = await host.engine.read((tx) => groupsResource.table.find(tx, { folder }))
  // An existing group keeps its product, so that the files of two products do not mix.
  await setUpFolder(layout, folder, existing ? await findProduct(bundledProducts, existing.product) : product)
  const result = await svc.call(groups.add, input)
  const { added, routed } = result
  if (added) svc.print.line(`added group ${jid} -> ${folder}`)
  else if (routed > 0)
    svc.print.line(
      `group ${folder} already exists; ${move ? `its route from ${jid} now comes first` : `added its route from ${jid}`}`,
    )
  else svc.print.line(`group ${folder} and its route from ${jid} already exist; nothing changed`)
  warnAboutRoutes(svc, typed, result)
  if (result.inherited)
    svc.print.warn(
      `${folder} inherits from a deleted group of this name: ${describeReferences(result.inherited)}; ` +
        `to start without them: svc group ${instance} rm ${folder} --purge, then add it again`,
    )
}

type AddGroupResult = Awaited<ReturnType<typeof groups.add.run>>

function warnAboutRoutes(
  { print }: SvcContext,
  { instance, jid, folder }: AddGroupArguments,
  { shared_with, match, overtaken = [], in_front = [] }: AddGroupResult,
): void {
  if (shared_with !== undefined)
    print.warn(`${shared_with} has the same room name, so the route names the platform: ${match} -> ${folder}`)
  for (const route of overtaken) print.warn(`${formatRoute(route)} no longer gets messages of ${jid}`)
  for (const route of in_front)
    print.warn(
      `${formatRoute(route)} comes first and gets messages of ${jid}; ` +
        `svc group ${instance} add ${jid} ${folder} --move puts the route to ${folder} before it`,
    )
}

function formatRoute({ id, seq, match, target }: { id: number; seq: number; match: string; target: string }): string {
  return `route ${id} (seq ${seq}, ${match || 'every message'} -> ${target})`
}

interface RemoveGroupArguments {
  readonly instance: string
  readonly folder: string
  readonly purge: boolean
  readonly yes: boolean
}

async function remove(svc: SvcContext, { instance, folder, purge, yes }: RemoveGroupArguments): Promise<void> {
  if (purge && !yes && folder !== ROOT_FOLDER) await confirmPurge(svc, folder)
  const { is_group, ends, stays } = await svc.call(groups.remove, { folder, purge })
  if (is_group) svc.print.line(`removed group ${folder}`)
  if (ends.length > 0) svc.print.line(`removed with it: ${describeReferences(ends)}`)
  if (stays.length === 0) return
  if (purge) svc.print.line(`removed: ${describeReferences(stays)}`)
  else {
    const command = svc.showCommands(`svc group ${instance} rm ${folder} --purge`)
    svc.print.line(`kept: ${describeReferences(stays)}; ${command} removes them`)
  }
}

/** Lists what would be deleted and refuses unless the operator confirms. */
async function confirmPurge({ call, io, print }: SvcContext, folder: string): Promise<void> {
  const { ends, stays } = await call(groups.removal, { folder })
  const rows = [...ends, ...stays]
  if (!io.prompt) refuse('invalid', '--purge needs confirmation, but stdin is not a terminal', 'add --yes to confirm')
  if (rows.length > 0) print.say(`this also removes ${describeReferences(rows)}`)
  const answer = await io.prompt(`remove ${folder} and keep only its files? [y/N]`)
  if (!/^y(es)?$/i.test(answer.trim())) refuse('invalid', 'stopped: nothing was changed')
}

interface Grant {
  readonly sub: string
  readonly pattern: string
  readonly granted_at: string
}

/** The grants that `ungrant` can revoke: unconditional admin rows and operators. */
async function findGrants(svc: SvcContext): Promise<Grant[]> {
  const rows = await svc.listAll(acl.list, 'acl', {})
  const members = await svc.listAll(memberships.list, 'acl_membership', {})
  const grants = [
    ...rows
      .filter((row) => row.action === 'admin' && row.effect === 'allow' && row.params === '' && row.predicate === '')
      .map(({ principal, scope, granted_at }) => ({ sub: principal, pattern: scope, granted_at })),
    ...members
      .filter(({ role }) => role === OPERATOR_ROLE)
      .map(({ subject, added_at }) => ({ sub: subject, pattern: EVERYTHING, granted_at: added_at })),
  ]
  const sortKey = ({ sub, pattern, granted_at }: Grant): string => `${sub}\t${pattern}\t${granted_at}`
  return grants.sort((a, b) => (sortKey(a) < sortKey(b) ? -1 : 1))
}

/** Removes both forms of an operator: `grant` adds a membership, an invite to `**` adds an acl row. */
async function ungrant(svc: SvcContext, sub: string, pattern: string): Promise<void> {
  const removeRow = (): Promise<void> => svc.call(acl.ungrant, { principal: sub, action: 'admin', scope: pattern })
  if (pattern !== EVERYTHING) await removeRow()
  else {
    const wasMember = await wasRemoved(svc.call(memberships.remove, { subject: sub, role: OPERATOR_ROLE }))
    if (!(await wasRemoved(removeRow())) && !wasMember) refuse('not_found', `${sub} is not an operator`)
  }
  svc.print.line(`ungranted ${sub} ${pattern}`)
}

async function wasRemoved(removal: Promise<void>): Promise<boolean> {
  try {
    await removal
    return true
  } catch (error) {
    if (error instanceof Refusal && error.code === 'not_found') return false
    throw error
  }
}
