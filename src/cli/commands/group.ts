// Groups and who administers them.

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
    about: 'print folder and name of every group, with a tab between',
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
      'make a group with its folder and default tasks, and route the chat <jid> to it; --move in front of a route that leads it elsewhere',
    example: 'group demo add sandbox:lobby team --product support',
    run: (svc, { instance, jid, folder, product, move }) => add(svc, instance, { jid, folder, product, move }),
  }),
  defineSvcCommand({
    usage: 'group <instance> rm <folder> [--purge] [--yes|-y]',
    about:
      'delete a group with its links, web routes and web hosts; --purge also deletes its routes, tasks, secrets, rules and grants, after a question unless --yes; its files stay',
    example: 'group demo rm team',
    run: (svc, { instance, folder, purge, yes }) => remove(svc, { instance, folder, purge, yes }),
  }),
  defineSvcCommand({
    usage: 'group <instance> grant <sub> <pattern>',
    about: "let somebody administer the folders that a pattern names; '**' makes an operator",
    example: "group demo grant github:42 'team/**'",
    run: async (svc, { sub, pattern }) => {
      const { added } =
        pattern === EVERYTHING
          ? await svc.call(memberships.add, { subject: sub, role: OPERATOR_ROLE })
          : await svc.call(acl.grant, { principal: sub, action: 'admin', scope: pattern })
      const granted = pattern === EVERYTHING ? `${sub} -> ${OPERATOR_ROLE}` : `${sub} admin -> ${pattern}`
      svc.print.line(added ? `granted ${granted}` : `${granted} is granted already; nothing changed`)
    },
  }),
  defineSvcCommand({
    usage: 'group <instance> ungrant <sub> <pattern>',
    about: 'take a grant back',
    example: "group demo ungrant github:42 'team/**'",
    run: (svc, { sub, pattern }) => ungrant(svc, sub, pattern),
  }),
  defineSvcCommand({
    usage: 'group <instance> grants [<sub>] [--json]',
    about: "show who administers what, or what one has; '**' is an operator",
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
  readonly jid: string
  readonly folder: string
  readonly product: string | undefined
  readonly move: boolean
}

/** The folder first, so that no group is ever without one; it is checked before, so that none is left behind. */
async function add(svc: SvcContext, instance: string, typed: AddGroupArguments): Promise<void> {
  const input = parse(groups.add.input, typed)
  const { jid, folder } = typed
  const { layout, host } = await svc.open()
  const { bundledProducts, findProduct, setUpFolder } = await import('../../core/groups/products.ts')
  const product =
    (await findProduct(bundledProducts, input.product)) ??
    refuse('not_found', `unknown product "${input.product}": looked for ${bundledProducts}/${input.product}/PRODUCT.md`)
  const known = await host.engine.read((tx) => groupsResource.table.find(tx, { folder }))
  // A group that is there keeps its product: the files of another would only mix with its own.
  await setUpFolder(layout, folder, known ? await findProduct(bundledProducts, known.product) : product)
  const outcome = await svc.call(groups.add, input)
  const { added, routed } = outcome
  if (added) svc.print.line(`added group ${jid} -> ${folder}`)
  else if (routed > 0)
    svc.print.line(
      `group ${folder} is there already; ${typed.move ? `its route from ${jid} is in front now` : `added its route from ${jid}`}`,
    )
  else svc.print.line(`group ${folder} is there already, and so is its route from ${jid}; nothing changed`)
  warnAboutRoutes(svc, instance, typed, outcome)
  if (outcome.inherited)
    svc.print.warn(
      `${folder} takes over what an earlier group of this name left: ${describeReferences(outcome.inherited)}; ` +
        `to start without it: svc group ${instance} rm ${folder} --purge, then add it again`,
    )
}

type Added = Awaited<ReturnType<typeof groups.add.run>>

function warnAboutRoutes(
  { print }: SvcContext,
  instance: string,
  { jid, folder }: AddGroupArguments,
  told: Added,
): void {
  if (told.shared_with !== undefined)
    print.warn(
      `${told.shared_with} has the same room name, so the route names the platform: ${told.match} -> ${folder}`,
    )
  for (const route of told.overtaken ?? []) print.warn(`${formatRoute(route)} no longer gets messages of ${jid}`)
  for (const route of told.in_front ?? [])
    print.warn(
      `${formatRoute(route)} is in front and takes messages of ${jid}; ` +
        `svc group ${instance} add ${jid} ${folder} --move puts the route to ${folder} in front of it`,
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
  if (ends.length > 0) svc.print.line(`ended with it: ${describeReferences(ends)}`)
  if (stays.length === 0) return
  if (purge) svc.print.line(`removed: ${describeReferences(stays)}`)
  else
    svc.print.line(`still there: ${describeReferences(stays)}; svc group ${instance} rm ${folder} --purge removes them`)
}

/** Shows what would go, and refuses unless the operator agrees. */
async function confirmPurge({ call, io, print }: SvcContext, folder: string): Promise<void> {
  const { ends, stays } = await call(groups.removal, { folder })
  const rows = [...ends, ...stays]
  if (!io.prompt)
    refuse('invalid', 'removing these rows needs an answer, and there is no terminal to ask at', 'repeat it with --yes')
  if (rows.length > 0) print.say(`this also removes ${describeReferences(rows)}`)
  const answer = await io.prompt(`remove ${folder}, and keep only its files? [y/N]`)
  if (!/^y(es)?$/i.test(answer.trim())) refuse('invalid', 'stopped: nothing was changed')
}

interface Grant {
  readonly sub: string
  readonly pattern: string
  readonly granted_at: string
}

/** What `ungrant` could take back: whole rows of admin, and operators. */
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
  const text = ({ sub, pattern, granted_at }: Grant): string => `${sub}\t${pattern}\t${granted_at}`
  return grants.sort((a, b) => (text(a) < text(b) ? -1 : 1))
}

/** An invite to `**` grants by a row where `grant` grants by a membership: whoever takes it back means both. */
async function ungrant(svc: SvcContext, sub: string, pattern: string): Promise<void> {
  const asRow = (): Promise<void> => svc.call(acl.ungrant, { principal: sub, action: 'admin', scope: pattern })
  if (pattern !== EVERYTHING) await asRow()
  else {
    const asMember = await wasRemoved(svc.call(memberships.remove, { subject: sub, role: OPERATOR_ROLE }))
    if (!(await wasRemoved(asRow())) && !asMember) refuse('not_found', `${sub} is no operator`)
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
