// What can be wrong inside a store that opens: rows that name nothing, grants that can never match, secrets that do not
// open. Each check reads one snapshot and answers with findings.
import { stat } from 'node:fs/promises'
import { acl, aclMembership } from '../../core/access/acl.ts'
import { OPERATOR_ROLE, unmatchableReason } from '../../core/access/policy.ts'
import { describeReferences, findOrphanedReferences } from '../../core/groups/folder-references.ts'
import { groups } from '../../core/groups/groups.ts'
import { groupDirs, type Layout } from '../../core/layout.ts'
import { verifyContext } from '../../core/links/route-tokens.ts'
import { findNearlyFull, QUOTA_SETTINGS, type StorageQuotas } from '../../core/links/storage-use.ts'
import { memberFault } from '../../core/people/role-membership.ts'
import { routeOverlaps } from '../../core/routing/route-overlap.ts'
import { parseRouteTarget, routes } from '../../core/routing/routes.ts'
import { scheduledTasks } from '../../core/schedule/tasks.ts'
import { type Keyring, openKeyring } from '../../core/secrets/keyring.ts'
import { secretContext } from '../../core/secrets/secrets.ts'
import { Refusal } from '../../lib/refusal.ts'
import { audit } from '../../registry/audit.ts'
import { secretsResource } from '../../resources/secrets.ts'
import type { Tx } from '../../store/engine.ts'
import { bytes, integer, optional, query, text } from '../../store/statement.ts'

export interface DoctorFinding {
  readonly check: string
  /** `note` is worth knowing and no fault. */
  readonly status: 'ok' | 'note' | 'wrong'
  readonly detail: string
  /** The command to type. */
  readonly next?: string
}

/** What the checks look at, read in one transaction. */
export interface StoreContents {
  readonly instance: string
  readonly layout: Layout
  readonly folders: ReadonlySet<string>
  readonly grants: Awaited<ReturnType<typeof acl.list>>
  readonly members: Awaited<ReturnType<typeof aclMembership.list>>
  readonly routes: Awaited<ReturnType<typeof routes.list>>
  readonly tasks: Awaited<ReturnType<typeof scheduledTasks.list>>
  readonly secrets: Awaited<ReturnType<typeof secretsResource.table.list>>
  /** Of the links that take only signed requests. */
  readonly signedLinks: Awaited<ReturnType<typeof readSignedLinks>>
  /** The chats of links and the folders whose storage is full, or nearly. */
  readonly nearlyFull: Awaited<ReturnType<typeof findNearlyFull>>
  readonly leftovers: Awaited<ReturnType<typeof findOrphanedReferences>>
  /** How many messages are not at their end, by folder. */
  readonly unfinishedCounts: ReadonlyMap<string, number>
  /** Other machines may have workspaces that this one has not. */
  readonly isShared: boolean
  readonly newestAuditAt: string | undefined
  readonly secretsKey: string | undefined
  readonly nowMs: number
}

type StoreRows = Omit<StoreContents, 'instance' | 'layout' | 'secretsKey' | 'nowMs' | 'isShared'>

/** From here on the operator is told that a quota will soon be used up. */
const NEARLY = 0.8

export async function readStoreContents(tx: Tx, quotas: StorageQuotas): Promise<StoreRows> {
  const [last] = (await audit.page(tx, { order: [['id', 'desc']], limit: 1 })).rows
  return {
    folders: new Set((await groups.list(tx)).map(({ folder }) => folder)),
    grants: await acl.list(tx),
    members: await aclMembership.list(tx),
    routes: await routes.list(tx),
    tasks: await scheduledTasks.list(tx),
    secrets: await secretsResource.table.list(tx),
    signedLinks: await readSignedLinks(tx),
    nearlyFull: await findNearlyFull(tx, quotas, NEARLY),
    leftovers: await findOrphanedReferences(tx),
    unfinishedCounts: await countUnfinished(tx),
    newestAuditAt: last?.created_at,
  }
}

async function countUnfinished(tx: Tx): Promise<ReadonlyMap<string, number>> {
  const rows = await query(
    tx,
    { folder: text, open: integer },
    `select folder, sum(count) as open from (
       select folder, waiting as count from conversations where waiting > 0
       union all select folder, message_count as count from turns where state <> 'done') as each_one group by folder`,
  )
  return new Map(rows.map(({ folder, open }) => [folder, open]))
}

async function readSignedLinks(tx: Tx) {
  const rows = await query(
    tx,
    { jid: text, token_hash: bytes, verify_secret: optional(bytes) },
    'select jid, token_hash, verify_secret from route_tokens where verify is not null',
  )
  return rows.map(({ jid, token_hash, verify_secret: secret = new Uint8Array() }) => ({ jid, token_hash, secret }))
}

export async function checkStoreContents(contents: StoreContents): Promise<DoctorFinding[]> {
  return [
    checkGrants(contents),
    checkOperators(contents),
    checkRoutes(contents),
    checkChats(contents),
    checkTasks(contents),
    checkLeftovers(contents),
    await checkFolders(contents),
    checkSecrets(contents),
    checkStorage(contents),
    checkClock(contents),
  ]
}

/** One finding for all: what is wrong stands in the detail, and the first of it in the command. */
export function makeFinding(check: string, faults: readonly string[], fine: string, next?: string): DoctorFinding {
  if (faults.length === 0) return { check, status: 'ok', detail: fine }
  const shown = faults.slice(0, 5).join('; ') + (faults.length > 5 ? `; and ${faults.length - 5} more` : '')
  return { check, status: 'wrong', detail: shown, ...(next === undefined ? {} : { next }) }
}

function checkGrants({ grants, members, instance }: StoreContents): DoctorFinding {
  const faults = [
    ...grants.flatMap((row) => unmatchableReason(row) ?? []),
    ...members.flatMap(({ subject }) => {
      const fault = memberFault(subject)
      return fault === undefined ? [] : [`the member "${subject}" ${fault}`]
    }),
  ]
  return makeFinding('grants', faults, `all can match (${grants.length})`, suggestEdit(instance))
}

/** The manifest is the way to rows that no command writes. */
function suggestEdit(instance: string): string {
  return `svc export ${instance} config.yaml, correct it, svc apply ${instance} config.yaml`
}

function checkOperators({ grants, members, instance }: StoreContents): DoctorFinding {
  const count =
    members.filter(({ role }) => role === OPERATOR_ROLE).length +
    grants.filter((row) => row.action === 'admin' && row.scope === '**' && row.effect === 'allow').length
  if (count > 0) return { check: 'operators', status: 'ok', detail: `${count} granted` }
  const next = `svc group ${instance} grant <provider>:<id> '**'`
  return { check: 'operators', status: 'note', detail: 'nobody is an operator yet', next }
}

/** Routes that lead nowhere, and routes that no message ever reaches. */
function checkRoutes({ routes, folders, instance }: StoreContents): DoctorFinding {
  const ghosts = routes.flatMap((route) => {
    const read = parseRouteTarget(route.target)
    const isGhost = read?.kind === 'folder' && !read.name.includes('{sender}') && !folders.has(read.name)
    return isGhost ? [{ id: route.id, fault: `leads to ${read.name}, which is no group` }] : []
  })
  const { unmatchable, shadowed } = routeOverlaps(routes)
  const silent = [
    ...unmatchable.map(({ id }) => ({ id, fault: 'never matches: no chat is called so' })),
    ...shadowed.map(({ route, before }) => ({
      id: route.id,
      fault: `never matches: route ${before.id} (${formatMatch(before.match)}) takes its messages first`,
    })),
  ]
  const faults = [...ghosts, ...silent]
  const next = `svc route ${instance} rm ${faults[0]?.id}`
  const found = makeFinding(
    'routes',
    faults.map(({ id, fault }) => `route ${id} ${fault}`),
    `all lead to groups and can match (${routes.length})`,
    next,
  )
  return ghosts.length > 0 || found.status === 'ok' ? found : { ...found, status: 'note' }
}

function formatMatch(match: string): string {
  return match === '' ? 'every message' : match
}

/** Of two routes with the same seq the older one wins, which the list does not show. */
function checkChats({ routes, instance }: StoreContents): DoctorFinding {
  const { contested } = routeOverlaps(routes)
  const faults = contested.map(
    ({ route, before }) =>
      `routes ${before.id} (${formatMatch(before.match)}, to ${before.target}) and ${route.id} (${formatMatch(route.match)}, to ${route.target}) both claim chats with seq ${route.seq}: the older one gets them`,
  )
  const next = `svc route ${instance} rm ${contested[0]?.route.id}, and add it again with another --seq`
  const found = makeFinding('chats', faults, 'no two routes of the same seq claim one', next)
  return found.status === 'ok' ? found : { ...found, status: 'note' }
}

function checkTasks({ tasks, folders, instance }: StoreContents): DoctorFinding {
  const orphans = tasks.filter(({ owner }) => !folders.has(owner))
  const faults = [...new Set(orphans.map(({ owner }) => owner))].map((owner) => `tasks of ${owner}, which is no group`)
  return makeFinding(
    'tasks',
    faults,
    `all are of groups (${tasks.length})`,
    `svc task ${instance} rm ${orphans[0]?.id}`,
  )
}

/** A later group of the same name would have these. Routes and tasks have checks of their own. */
function checkLeftovers({ leftovers, instance }: StoreContents): DoctorFinding {
  const left = leftovers.filter(({ kind }) => !/^(route|task)s?$/.test(kind))
  const byFolder = [...Map.groupBy(left, ({ folder }) => folder)]
  const faults = byFolder.map(([folder, rows]) => `${folder}, which is no group, has ${describeReferences(rows)}`)
  const next = `svc group ${instance} rm ${byFolder[0]?.[0]} --purge`
  const found = makeFinding('leftovers', faults, 'none of groups that are gone', next)
  return found.status === 'ok' ? found : { ...found, status: 'note' }
}

/** What is asked of a folder whose workspace is not here waits until it is. */
async function checkFolders({
  folders,
  layout,
  instance,
  unfinishedCounts,
  isShared,
}: StoreContents): Promise<DoctorFinding> {
  const homeless: string[] = []
  for (const folder of folders) if (!(await isDirectory(groupDirs(layout, folder).home))) homeless.push(folder)
  if (!folders.has('main')) return makeFinding('groups', ['there is no group main'], '', `svc create ${instance}`)
  const faults = homeless.map((folder) => {
    const count = unfinishedCounts.get(folder) ?? 0
    const waiting = count === 0 ? '' : `, and ${count === 1 ? '1 message waits' : `${count} messages wait`} for it`
    return `${folder} has no folder on the disk${waiting}`
  })
  const made = homeless.includes('main') ? `svc create ${instance}` : `svc group ${instance} add <jid> ${homeless[0]}`
  const next = `put back ${layout.groups}/${homeless[0]}, or make an empty one: ${made}`
  const found = makeFinding('groups', faults, `each has its folder (${folders.size})`, next)
  // On PostgreSQL another machine may have it.
  return isShared && found.status === 'wrong' ? { ...found, status: 'note' } : found
}

async function isDirectory(path: string): Promise<boolean> {
  return stat(path).then(
    (stats) => stats.isDirectory(),
    () => false,
  )
}

function checkSecrets({ secrets, signedLinks, secretsKey, instance }: StoreContents): DoctorFinding {
  const keyring = openKeyring(secretsKey)
  const count = secrets.length + signedLinks.length
  if (secretsKey === undefined && count === 0)
    return { check: 'secrets', status: 'note', detail: 'SECRETS_KEY is not set: none can be stored, no bearer be made' }
  const faults = [
    ...secrets.flatMap(({ scope_kind, owner, key, value }) =>
      openFault(keyring, value, secretContext({ scope_kind, owner, key })).map(
        (fault) => `${key} of ${scope_kind} ${owner}: ${fault}`,
      ),
    ),
    ...signedLinks.flatMap(({ jid, token_hash, secret }) =>
      openFault(keyring, secret, verifyContext(token_hash)).map((fault) => `what ${jid} is signed with: ${fault}`),
    ),
  ]
  const again = secrets.length > 0 ? `svc secret ${instance} set …` : `svc token ${instance} issue webhook …`
  const next = `add the former key to SECRETS_KEY after a comma, or ${again} again`
  return makeFinding('secrets', faults, `all open (${count})`, next)
}

function openFault(keyring: Keyring, sealed: Uint8Array, context: string): string[] {
  try {
    keyring.open(sealed, context)
    return []
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return [error.message]
  }
}

/** A full one refuses messages; one that is nearly full is worth knowing. */
function checkStorage({ nearlyFull }: StoreContents): DoctorFinding {
  const [first] = nearlyFull
  if (!first) return { check: 'storage', status: 'ok', detail: 'all links and folders have room for messages' }
  const faults = nearlyFull.map(({ scope, name, bytes, quota }) => {
    const percent = Math.floor((bytes / quota) * 100)
    return `${scope === 'chat' ? `the chat ${name}` : `the folder ${name}`} has used ${percent} % of ${QUOTA_SETTINGS[scope]}`
  })
  const found = makeFinding('storage', faults, '', `raise ${QUOTA_SETTINGS[first.scope]} in .env and restart svc`)
  return first.bytes >= first.quota ? found : { ...found, status: 'note' }
}

/** Minutes ahead of the newest row it was set back; years off it was never set. */
function checkClock({ newestAuditAt, nowMs }: StoreContents): DoctorFinding {
  const year = new Date(nowMs).getUTCFullYear()
  const faults = []
  if (!(year >= 2025 && year < 2100)) faults.push(`the clock of this machine says ${new Date(nowMs).toISOString()}`)
  else if (newestAuditAt !== undefined && Date.parse(newestAuditAt) > nowMs + 60_000)
    faults.push(`the newest audit row is of ${newestAuditAt}, which lies in the future`)
  return makeFinding('clock', faults, new Date(nowMs).toISOString(), 'timedatectl set-ntp true')
}
