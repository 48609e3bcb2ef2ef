// Checks of `svc doctor` for the rows of a store: references to missing groups, grants that can never match, secrets that
// cannot be decrypted. All checks read one snapshot.
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { acl, aclMembership } from '../../core/access/acl.ts'
import { OPERATOR_ROLE, unmatchableReason } from '../../core/access/policy.ts'
import { folderBaseName, parentFolderOf } from '../../core/access/tiers.ts'
import type { AgentUser } from '../../core/agent-user.ts'
import { describeReferences, findOrphanedReferences } from '../../core/groups/folder-references.ts'
import { memberText } from '../../core/groups/group-config.ts'
import { worldUsers } from '../../core/groups/world-users.ts'
import { groupDirs, type Layout } from '../../core/layout.ts'
import { proxydRoutes } from '../../core/links/proxyd-routes.ts'
import { isReservedFromFolders, isReservedFromRoutes } from '../../core/links/reserved-paths.ts'
import { findNearlyFull, QUOTA_SETTINGS, type StorageQuotas } from '../../core/links/storage-use.ts'
import { webRoutes } from '../../core/links/web-routes.ts'
import { findHeldRemoval, type RetentionTimes } from '../../core/messages/retention-clock.ts'
import { memberFault } from '../../core/people/role-membership.ts'
import { findRouteOverlaps, type RouteOverlaps } from '../../core/routing/route-overlap.ts'
import { parseRouteTarget, routes } from '../../core/routing/routes.ts'
import { listSlotsAhead } from '../../core/schedule/slot-correction.ts'
import { scheduledTasks } from '../../core/schedule/tasks.ts'
import { openKeyring } from '../../core/secrets/keyring.ts'
import { findUnreadable, listSealedRows, type SealedRow } from '../../core/secrets/sealed-rows.ts'
import { listPostponedTurns } from '../../core/turns/attention.ts'
import { timestamp } from '../../lib/clock.ts'
import { Directory } from '../../lib/files/directory.ts'
import { chownTree } from '../../lib/files/directory-tree.ts'
import { audit } from '../../registry/audit.ts'
import type { Tx } from '../../store/engine.ts'
import { integer, optional, query, text } from '../../store/statement.ts'
import { NO_SECRETS_KEY } from '../process/start-warnings.ts'
import { asNote, type DoctorFinding, makeFinding } from './findings.ts'

interface StoreContents {
  readonly instance: string
  readonly layout: Layout
  readonly folders: ReadonlySet<string>
  readonly grants: Awaited<ReturnType<typeof acl.list>>
  readonly members: Awaited<ReturnType<typeof aclMembership.list>>
  readonly routes: Awaited<ReturnType<typeof routes.list>>
  /** Folders with links of reach `work` that do not say which directories their turns may write. */
  readonly defaultWorkPaths: readonly string[]
  /** Rows of paths that rows cannot take. */
  readonly reservedPaths: readonly string[]
  readonly taskCount: number
  /** Tasks of folders that are not groups. */
  readonly orphanedTasks: readonly { readonly id: string; readonly owner: string }[]
  /** Recurring tasks that run later than their schedule says. */
  readonly slotsAhead: Awaited<ReturnType<typeof listSlotsAhead>>
  readonly sealedRows: readonly SealedRow[]
  /** Chats of links and folders whose storage is full or nearly full. */
  readonly nearlyFull: Awaited<ReturnType<typeof findNearlyFull>>
  readonly leftovers: Awaited<ReturnType<typeof findOrphanedReferences>>
  /** Number of messages without a final state, by folder. */
  readonly unfinishedCounts: ReadonlyMap<string, number>
  /** Whether other machines may use the store; they may have workspaces that this one lacks. */
  readonly isShared: boolean
  /** Turns that the host could not run so far. */
  readonly postponedTurns: Awaited<ReturnType<typeof listPostponedTurns>>
  /** Number of worlds that were given a user of their own. */
  readonly worldCount: number
  readonly newestAuditAt: string | undefined
  /** A removal of old rows that waits because the clock moved ahead. */
  readonly heldRemoval: Awaited<ReturnType<typeof findHeldRemoval>>
  readonly secretsKey: string | undefined
  readonly nowMs: number
}

type StoreRows = Omit<StoreContents, 'instance' | 'layout' | 'secretsKey' | 'nowMs' | 'isShared'>

/** Share of a quota from which on its use is reported. */
const NEARLY_FULL = 0.8

interface ReadOptions {
  readonly quotas: StorageQuotas
  readonly keep: RetentionTimes
  readonly timeZone: string
  readonly nowMs: number
}

export async function readStoreContents(tx: Tx, options: ReadOptions): Promise<StoreRows> {
  const { quotas, keep, timeZone, nowMs } = options
  const [last] = (await audit.page(tx, { order: [['id', 'desc']], limit: 1 })).rows
  return {
    folders: new Set(
      (await query(tx, { folder: text }, 'select folder from groups order by folder')).map(({ folder }) => folder),
    ),
    grants: await acl.list(tx),
    members: await aclMembership.list(tx),
    routes: await routes.list(tx),
    defaultWorkPaths: await listDefaultWorkPaths(tx),
    reservedPaths: await listReservedPaths(tx),
    taskCount: await scheduledTasks.count(tx),
    orphanedTasks: await listOrphanedTasks(tx),
    slotsAhead: await listSlotsAhead(tx, nowMs, timeZone),
    sealedRows: await listSealedRows(tx),
    nearlyFull: await findNearlyFull(tx, quotas, NEARLY_FULL),
    leftovers: await findOrphanedReferences(tx),
    unfinishedCounts: await countUnfinished(tx),
    postponedTurns: await listPostponedTurns(tx, undefined),
    worldCount: await worldUsers.count(tx),
    newestAuditAt: last?.created_at,
    heldRemoval: await findHeldRemoval(tx, nowMs, keep),
  }
}

async function listDefaultWorkPaths(tx: Tx): Promise<string[]> {
  const rows = await query(
    tx,
    { folder: text, config: optional(text) },
    `select folder, config from groups where folder in (
       select target_folder from route_tokens where coalesce(tools, case when substr(jid, 1, 5) = 'hook:' then 'work' end) = 'work')
     order by folder`,
  )
  return rows.filter(({ config }) => memberText(config, 'work_paths') === undefined).map(({ folder }) => folder)
}

async function listReservedPaths(tx: Tx): Promise<string[]> {
  const [published, routed] = [await webRoutes.list(tx), await proxydRoutes.list(tx)]
  return [
    ...published
      .filter(({ path_prefix }) => isReservedFromFolders(path_prefix))
      .map(({ path_prefix, folder }) => `the web route ${path_prefix} of ${folder}`),
    ...routed.filter(({ path }) => isReservedFromRoutes(path)).map(({ path }) => `the proxy route ${path}`),
  ]
}

function listOrphanedTasks(tx: Tx): Promise<{ id: string; owner: string }[]> {
  const sql = 'select id, owner from scheduled_tasks where owner not in (select folder from groups) order by id'
  return query(tx, { id: text, owner: text }, sql)
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

export async function checkStoreContents(contents: StoreContents): Promise<DoctorFinding[]> {
  const overlaps = findRouteOverlaps(contents.routes)
  return [
    checkGrants(contents),
    checkOperators(contents),
    checkRoutes(contents, overlaps),
    checkChats(contents, overlaps),
    checkPaths(contents),
    checkWorkPaths(contents),
    checkTasks(contents),
    checkSlots(contents),
    checkLeftovers(contents),
    await checkFolders(contents),
    await checkOwners(contents),
    checkPostponedTurns(contents),
    checkSecrets(contents),
    checkStorage(contents),
    checkClock(contents),
    checkRemovals(contents),
  ]
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

/** For rows that only a manifest can change. */
function suggestEdit(instance: string): string {
  return `svc export ${instance} config.yaml, correct it, svc apply ${instance} config.yaml`
}

function checkOperators({ grants, members, instance }: StoreContents): DoctorFinding {
  const count =
    members.filter(({ role }) => role === OPERATOR_ROLE).length +
    grants.filter((row) => row.action === 'admin' && row.scope === '**' && row.effect === 'allow').length
  if (count > 0) return { check: 'operators', status: 'ok', detail: `${count} granted` }
  const next = `svc group ${instance} grant <provider>:<id> '**'`
  return { check: 'operators', status: 'note', detail: 'there is no operator yet', next }
}

/** Routes to missing groups are faults; routes that never match are notes. */
function checkRoutes({ routes, folders, instance }: StoreContents, overlaps: RouteOverlaps): DoctorFinding {
  const dangling = routes.flatMap((route) => {
    const target = parseRouteTarget(route.target)
    const isDangling = target?.kind === 'folder' && !target.name.includes('{sender}') && !folders.has(target.name)
    return isDangling ? [{ id: route.id, fault: `leads to ${target.name}, which is not a group` }] : []
  })
  const { unmatchable, shadowed } = overlaps
  const unused = [
    ...unmatchable.map(({ id }) => ({ id, fault: 'never matches: no chat can have that name' })),
    ...shadowed.map(({ route, before }) => ({
      id: route.id,
      fault: `never matches: route ${before.id} (${formatMatch(before.match)}) takes its messages first`,
    })),
  ]
  const faults = [...dangling, ...unused]
  const finding = makeFinding(
    'routes',
    faults.map(({ id, fault }) => `route ${id} ${fault}`),
    `all lead to groups and can match (${routes.length})`,
    `svc route ${instance} rm ${faults[0]?.id}`,
  )
  return dangling.length > 0 ? finding : asNote(finding)
}

function formatMatch(match: string): string {
  return match === '' ? 'every message' : match
}

/** Of two matching routes with the same seq the older one wins, which `svc route list` does not show. */
function checkChats({ instance }: StoreContents, { contested }: RouteOverlaps): DoctorFinding {
  const faults = contested.map(
    ({ route, before }) =>
      `routes ${before.id} (${formatMatch(before.match)}, to ${before.target}) and ${route.id} (${formatMatch(route.match)}, to ${route.target}) match the same chats with seq ${route.seq}: the older one gets their messages`,
  )
  const next = `svc route ${instance} rm ${contested[0]?.route.id}, and add it again with another --seq`
  return asNote(makeFinding('chats', faults, 'no two routes with the same seq match the same chat', next))
}

/** A turn of reach `work` that has to write elsewhere fails. */
function checkWorkPaths({ defaultWorkPaths, instance }: StoreContents): DoctorFinding {
  const faults = defaultWorkPaths.map((folder) => `turns of webhooks write only data/ in the workspace of ${folder}`)
  const next = `svc group ${instance} set ${defaultWorkPaths[0]} work_paths data`
  return asNote(makeFinding('work paths', faults, 'every folder with webhooks says what they may write', next))
}

/** Written before the path was reserved. */
function checkPaths({ reservedPaths, instance }: StoreContents): DoctorFinding {
  const faults = reservedPaths.map((row) => `${row} does not apply: the path is reserved`)
  return makeFinding('paths', faults, 'no row has a reserved path', suggestEdit(instance))
}

function checkTasks({ taskCount, orphanedTasks, instance }: StoreContents): DoctorFinding {
  const faults = [...new Set(orphanedTasks.map(({ owner }) => owner))].map(
    (owner) => `tasks of ${owner}, which is not a group`,
  )
  return makeFinding(
    'tasks',
    faults,
    `all belong to groups (${taskCount})`,
    `svc task ${instance} rm ${orphanedTasks[0]?.id}`,
  )
}

/** A clock that was ahead has moved them; a process that runs timed corrects them. */
function checkSlots({ slotsAhead, instance }: StoreContents): DoctorFinding {
  const faults = slotsAhead.map(
    ({ id, next_run, allowed }) =>
      `${id} runs next at ${next_run}, but its schedule says ${allowed}: the clock was ahead`,
  )
  const next = `svc serve ${instance} corrects this when it starts, and every ten minutes`
  return makeFinding('task times', faults, 'every recurring task runs next when its schedule says', next)
}

/** A new group of the same name would inherit these rows. Routes and tasks have checks of their own. */
function checkLeftovers({ leftovers, instance }: StoreContents): DoctorFinding {
  const others = leftovers.filter(({ kind }) => !/^(route|task)s?$/.test(kind))
  const byFolder = [...Map.groupBy(others, ({ folder }) => folder)]
  const faults = byFolder.map(([folder, rows]) => `${folder}, which is not a group, has ${describeReferences(rows)}`)
  const next = `svc group ${instance} rm ${byFolder[0]?.[0]} --purge`
  return asNote(makeFinding('leftovers', faults, 'no rows of deleted groups', next))
}

/** Messages to a folder without a workspace wait until it exists. */
async function checkFolders({
  folders,
  layout,
  instance,
  unfinishedCounts,
  isShared,
}: StoreContents): Promise<DoctorFinding> {
  const all = [...folders]
  const listed = new Map<string, Promise<ReadonlySet<string>>>()
  const isThere = async (folder: string): Promise<boolean> => {
    const parent = parentFolderOf(folder) ?? ''
    const names = listed.get(parent) ?? listDirectories(join(layout.groups, parent))
    listed.set(parent, names)
    // A link to a directory is not in the list.
    return (await names).has(folderBaseName(folder)) || isDirectory(groupDirs(layout, folder).home)
  }
  const found = await Promise.all(all.map(isThere))
  const missing = all.filter((_, at) => !found[at])
  if (!folders.has('main')) return makeFinding('groups', ['there is no group main'], '', `svc create ${instance}`)
  const faults = missing.map((folder) => {
    const count = unfinishedCounts.get(folder) ?? 0
    const waiting = count === 0 ? '' : `, and ${count === 1 ? '1 message waits' : `${count} messages wait`} for it`
    return `${folder} has no directory on disk${waiting}`
  })
  const create = missing.includes('main') ? `svc create ${instance}` : `svc group ${instance} add <jid> ${missing[0]}`
  const next = `restore ${layout.groups}/${missing[0]}, or create an empty one: ${create}`
  const finding = makeFinding('groups', faults, `all have a directory (${folders.size})`, next)
  return isShared ? asNote(finding) : finding
}

/** Agents cannot write in a workspace of another user. Workspaces of root get their users when the instance is served. */
async function checkOwners({ layout, folders, worldCount, instance }: StoreContents): Promise<DoctorFinding> {
  const { agents } = layout
  const first = agents?.uid ?? process.getuid?.() ?? 0
  const last = first + (agents?.count ?? 1) - 1
  const others: { readonly name: string; readonly uid: number }[] = []
  for (const name of new Set([...(await listDirectories(layout.groups)), ...folders])) {
    const { uid } = (await stat(join(layout.groups, name)).catch(() => undefined)) ?? { uid: first }
    if ((uid < first || uid > last) && !(agents && uid === 0)) others.push({ name, uid })
  }
  const users = first === last ? `uid ${first}` : `a uid of their own from ${first} to ${last}`
  const wrong = makeFinding(
    'owners',
    others.map(({ name, uid }) => `${name} belongs to uid ${uid}, but agents run as ${users}`),
    `workspaces belong to ${users}`,
    first !== last ? `svc serve ${instance} gives them to their agents` : `sudo svc doctor ${instance} --fix`,
  )
  const count = agents?.count ?? 1
  if (others.length > 0 && agents && count === 1) {
    const paths = others.map(({ name }) => join(layout.groups, name))
    const fix = {
      detail: `give ${paths.join(' and ')} to ${users}`,
      isRemoval: false,
      apply: () => giveTo(agents, paths),
    }
    return { ...wrong, fix }
  }
  if (others.length > 0 || count === 1 || worldCount <= count) return wrong
  return {
    check: 'owners',
    status: 'note',
    detail: `${worldCount} worlds (first segments of folders) share ${count} uids: their agents can use up limits of each other`,
    next: `set AGENT_UIDS=${worldCount} or more in .env and restart`,
  }
}

/** Files with another name outside of a workspace keep their owner. */
async function giveTo(owner: AgentUser, paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    await using top = await Directory.open(path, { follow: true })
    if (top) await chownTree(top, { owner, mayCopy: ({ uid }) => uid !== 0 })
  }
}

function checkPostponedTurns({ postponedTurns, instance }: StoreContents): DoctorFinding {
  const faults = postponedTurns.map(({ id, folder, reason }) => `turn ${id} of ${folder} cannot run: ${reason}`)
  const next = `svc turns ${instance} show ${postponedTurns[0]?.id}`
  return makeFinding('waiting turns', faults, 'the host can run all turns', next)
}

async function listDirectories(path: string): Promise<ReadonlySet<string>> {
  const entries = await readdir(path, { withFileTypes: true }).catch(() => [])
  return new Set(entries.flatMap((entry) => (entry.isDirectory() ? [entry.name] : [])))
}

async function isDirectory(path: string): Promise<boolean> {
  return stat(path).then(
    (stats) => stats.isDirectory(),
    () => false,
  )
}

function checkSecrets({ sealedRows, secretsKey, instance }: StoreContents): DoctorFinding {
  const count = sealedRows.length
  if (secretsKey === undefined && count === 0) return { check: 'secrets', status: 'note', detail: NO_SECRETS_KEY }
  const faults = findUnreadable(sealedRows, openKeyring(secretsKey))
  const hasSecrets = sealedRows.some(({ kind }) => kind === 'secret')
  const again = hasSecrets
    ? `svc secret ${instance} set <folder> <KEY>`
    : `svc token ${instance} issue webhook <folder> <source>`
  const next = `add the former key to SECRETS_KEY after a comma, or set them again: ${again}`
  return makeFinding('secrets', faults, `all can be decrypted (${count})`, next)
}

/** Full storage refuses messages and is a fault; nearly full storage is a note. */
function checkStorage({ nearlyFull, instance }: StoreContents): DoctorFinding {
  const [first] = nearlyFull
  if (!first) return { check: 'storage', status: 'ok', detail: 'no link or folder is near its quota' }
  const faults = nearlyFull.map(({ scope, name, bytes, quota }) => {
    const percent = Math.floor((bytes / quota) * 100)
    return `${scope === 'chat' ? `the chat ${name}` : `the folder ${name}`} has used ${percent} % of ${QUOTA_SETTINGS[scope]}`
  })
  const finding = makeFinding(
    'storage',
    faults,
    '',
    `svc settings ${instance} set ${QUOTA_SETTINGS[first.scope]} <bytes>`,
  )
  return first.bytes >= first.quota ? finding : asNote(finding)
}

/** Detects a clock that was never set, or that was set back behind the newest row. */
function checkClock({ newestAuditAt, nowMs }: StoreContents): DoctorFinding {
  const year = new Date(nowMs).getUTCFullYear()
  const faults = []
  if (!(year >= 2025 && year < 2100)) faults.push(`the clock of this machine is at ${new Date(nowMs).toISOString()}`)
  else if (newestAuditAt !== undefined && Date.parse(newestAuditAt) > nowMs + 60_000)
    faults.push(`the newest audit row is from ${newestAuditAt}, which is in the future`)
  return makeFinding('clock', faults, new Date(nowMs).toISOString(), 'timedatectl set-ntp true')
}

/** After a month without svc this is normal; after a jump of the clock it is the time to correct it. */
function checkRemovals({ heldRemoval }: StoreContents): DoctorFinding {
  if (!heldRemoval) return { check: 'removals', status: 'ok', detail: 'no row waits for its removal' }
  const { believedMs, waitMs } = heldRemoval
  const hours = Math.ceil(waitMs / 3_600_000)
  return {
    check: 'removals',
    status: 'note',
    detail: `old rows are removed as of ${timestamp(believedMs)}: the clock moved ahead, and counts after svc has run for ${hours} h more`,
    next: 'if the clock is wrong, correct it before that: timedatectl',
  }
}
