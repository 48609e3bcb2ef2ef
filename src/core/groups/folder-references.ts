// Rows that refer to a group by its folder. Some are deleted with the group; the others stay, and a later group of the same
// name inherits them. Messages, costs, logs and files are records and do not count.
import type { z } from 'zod'
import { isGlob } from '../../lib/text/glob.ts'
import type { Tx } from '../../store/engine.ts'
import { query, text } from '../../store/statement.ts'
import type { Table } from '../../store/table.ts'
import { acl, aclMembership } from '../access/acl.ts'
import { networkRules } from '../access/allowlist.ts'
import { pendingActions } from '../access/approvals.ts'
import { selfAndAncestors } from '../access/tiers.ts'
import { chats } from '../chats/chats.ts'
import { isPersonChat, routeTokens } from '../links/route-tokens.ts'
import { webHosts } from '../links/web-hosts.ts'
import { webRoutes } from '../links/web-routes.ts'
import { invites } from '../people/invites.ts'
import { onboardingGates } from '../people/onboarding-gates.ts'
import { engagements } from '../routing/engagements.ts'
import { parseRouteTarget, routes } from '../routing/routes.ts'
import { scheduledTasks } from '../schedule/tasks.ts'
import { secrets } from '../secrets/secrets.ts'
import { conversations, workSessions } from '../turns/conversations.ts'
import { countDescendants, groups } from './groups.ts'

/** Rows of one kind that refer to one folder. */
export interface FolderReferences {
  readonly folder: string
  /** Such as `web routes`; singular if there is one row. */
  readonly kind: string
  /** What identifies each row, such as its path or key. */
  readonly names: readonly string[]
}

/** Reads all rows of a table, from the store or as a manifest would leave them. */
export type ReadTable = <R extends z.ZodObject>(table: Table<R>) => Promise<z.output<R>[]>

interface ReferencingRow {
  readonly folder: string
  readonly name: string
  purge(tx: Tx): Promise<unknown>
}

/** `parents` are the folders that have groups below them. */
interface ReferenceKind {
  readonly one: string
  readonly many: string
  find(read: ReadTable, parents: ReadonlySet<string>): Promise<ReferencingRow[]>
  /** Without reading the rows of other folders. */
  findOf(tx: Tx, folder: string, parents: ReadonlySet<string>): Promise<ReferencingRow[]>
  /** Rows of folders that are not groups, without reading most others. */
  findOrphaned(tx: Tx, groups: GroupFolders): Promise<ReferencingRow[]>
}

type Row<R extends z.ZodObject> = z.output<R>

interface KindDeclaration<R extends z.ZodObject> {
  readonly table: Table<R>
  foldersOf(row: Row<R>, parents: ReadonlySet<string>): readonly (string | undefined)[]
  /** Together they match every row that can refer to the folder. */
  matching(folder: string): readonly RowCondition<Row<R>>[]
  /** The folder of a row, where that is all it can refer to. Without it, rows have to be read to know to which. */
  readonly folderSql?: string
  nameOf(row: Row<R>): string
  /** Default: removes the row. */
  purge?(tx: Tx, row: Row<R>): Promise<unknown>
}

/** Columns with their values, or SQL in which $1 is the folder. */
type RowCondition<T> = Partial<T> | { readonly sql: string }

function defineKind<R extends z.ZodObject>(one: string, many: string, declared: KindDeclaration<R>): ReferenceKind {
  const { table, foldersOf, nameOf, matching } = declared
  const purge = declared.purge ?? ((tx: Tx, row: Row<R>) => table.remove(tx, keyOf(table, row)))
  const toReferencing = (rows: readonly Row<R>[], parents: ReadonlySet<string>): ReferencingRow[] =>
    rows.flatMap((row) =>
      [...new Set(foldersOf(row, parents))].flatMap((folder) =>
        folder === undefined ? [] : [{ folder, name: nameOf(row), purge: (tx: Tx) => purge(tx, row) }],
      ),
    )
  return {
    one,
    many,
    find: async (read, parents) => toReferencing(await read(table), parents),
    findOf: async (tx, folder, parents) => {
      const found = new Map<string, Row<R>>()
      for (const condition of matching(folder))
        for (const row of await listMatching(tx, table, condition, folder))
          found.set(JSON.stringify(keyOf(table, row)), row)
      return toReferencing([...found.values()], parents).filter((row) => row.folder === folder)
    },
    findOrphaned: async (tx, { folders, parents }) => {
      const { folderSql: column } = declared
      const only = column === undefined ? '' : ` where ${column} not in (select folder from groups)`
      const sql = `select ${table.columns.join(', ')} from ${table.name}${only} order by ${table.key.join(', ')}`
      const rows = await query(tx, table.decode, sql)
      return toReferencing(rows, parents).filter((row) => !folders.has(row.folder))
    },
  }
}

function listMatching<R extends z.ZodObject>(
  tx: Tx,
  table: Table<R>,
  condition: RowCondition<Row<R>>,
  folder: string,
): Promise<Row<R>[]> {
  // No table has a column of this name.
  if (!('sql' in condition)) return table.list(tx, condition as Partial<Row<R>>)
  const sql = `select ${table.columns.join(', ')} from ${table.name} where ${condition.sql} order by ${table.key.join(', ')}`
  return query(tx, table.decode, sql, [folder])
}

function keyOf<R extends z.ZodObject>(table: Table<R>, row: Row<R>): Partial<Row<R>> {
  const entries = Object.entries(row).filter(([column]) => table.key.includes(column))
  // The entries are columns of this row.
  return Object.fromEntries(entries) as Partial<Row<R>>
}

/** Foreign keys and triggers delete these with the group. */
const CASCADED_KINDS: readonly ReferenceKind[] = [
  defineKind('link', 'links', {
    table: routeTokens,
    foldersOf: (row) => (isPersonChat(row) ? [] : [row.owner_folder, row.target_folder]),
    matching: (folder) => [{ owner_folder: folder }, { target_folder: folder }],
    nameOf: ({ jid }) => jid,
  }),
  defineKind('web route', 'web routes', {
    table: webRoutes,
    foldersOf: ({ folder }) => [folder],
    matching: (folder) => [{ folder }],
    nameOf: ({ path_prefix }) => path_prefix,
  }),
  defineKind('web host', 'web hosts', {
    table: webHosts,
    foldersOf: ({ folder }) => [folder],
    matching: (folder) => [{ folder }],
    nameOf: ({ hostname }) => hostname,
  }),
]

const RETAINED_KINDS: readonly ReferenceKind[] = [
  defineKind('route', 'routes', {
    table: routes,
    foldersOf: ({ target }) => {
      const read = parseRouteTarget(target)
      return read?.kind === 'folder' && !read.name.includes('{sender}') ? [read.name] : []
    },
    // "$" is the character after "#", which starts a topic.
    matching: () =>
      ['', 'folder:'].map((prefix) => ({
        sql: `target = '${prefix}' || $1 or (target >= '${prefix}' || $1 || '#' and target < '${prefix}' || $1 || '$')`,
      })),
    // Targets with a prefix or a topic are not names of groups, so they are read.
    folderSql: 'target',
    nameOf: ({ match }) => match || 'every message',
  }),
  defineKind('task', 'tasks', {
    table: scheduledTasks,
    foldersOf: ({ owner }) => [owner],
    matching: (owner) => [{ owner }],
    folderSql: 'owner',
    nameOf: ({ id }) => id,
  }),
  defineKind('secret', 'secrets', {
    table: secrets,
    foldersOf: ({ scope_kind, owner }) => (scope_kind === 'folder' ? [owner] : []),
    matching: (owner) => [{ scope_kind: 'folder' as const, owner }],
    folderSql: 'owner',
    nameOf: ({ key }) => key,
  }),
  defineKind('network rule', 'network rules', {
    table: networkRules,
    foldersOf: ({ folder }) => [folder || undefined],
    matching: (folder) => [{ folder }],
    folderSql: 'folder',
    nameOf: ({ target }) => target,
  }),
  defineKind('grant', 'grants', {
    table: acl,
    foldersOf: ({ principal, scope }, parents) => [folderOfPrincipal(principal), folderOfGlob(scope, parents)],
    matching: (folder) => [{ principal: `folder:${folder}` }, { scope: folder }, { scope: `${folder}/**` }],
    nameOf: ({ principal, action, scope }) => `${principal} ${action} ${scope}`,
  }),
  defineKind('role', 'roles', {
    table: aclMembership,
    foldersOf: ({ subject }) => [folderOfPrincipal(subject)],
    matching: (folder) => [{ subject: `folder:${folder}` }],
    folderSql: `substr(subject, length('folder:') + 1)`,
    nameOf: ({ role }) => role,
  }),
  defineKind('invite', 'invites', {
    table: invites,
    foldersOf: ({ target_glob, revoked_at }, parents) =>
      revoked_at === undefined ? [folderOfGlob(target_glob, parents)] : [],
    matching: (folder) => [{ target_glob: folder }, { target_glob: `${folder}/**` }],
    nameOf: ({ token_id }) => token_id,
  }),
  defineKind('gate', 'gates', {
    table: onboardingGates,
    foldersOf: ({ spec }, parents) => [folderOfGlob(spec, parents)],
    matching: (folder) => [{ spec: folder }, { spec: `${folder}/**` }],
    nameOf: ({ spec }) => spec,
  }),
  defineKind('approval', 'approvals', {
    table: pendingActions,
    foldersOf: ({ folder, status }) => (status === 'held' || status === 'approved' ? [folder] : []),
    // Literals, so that the engines use the index of these rows.
    matching: () => [{ sql: `folder = $1 and status in ('held', 'approved')` }],
    folderSql: 'folder',
    nameOf: ({ id }) => id,
  }),
  defineKind('session', 'sessions', {
    table: conversations,
    foldersOf: ({ folder, session_id, parent_session }) => (session_id || parent_session ? [folder] : []),
    matching: (folder) => [{ folder }],
    folderSql: 'folder',
    nameOf: ({ topic }) => topic || 'main topic',
    purge: (tx, { folder, topic }) =>
      conversations.update(tx, { folder, topic }, { session_id: undefined, parent_session: undefined }),
  }),
  defineKind('session of a chat', 'sessions of chats', {
    table: workSessions,
    foldersOf: ({ folder }) => [folder],
    matching: (folder) => [{ folder }],
    folderSql: 'folder',
    nameOf: ({ jid }) => jid,
    purge: (tx, { folder, topic, jid }) => workSessions.remove(tx, { folder, topic, jid }),
  }),
  defineKind('engaged chat', 'engaged chats', {
    table: engagements,
    foldersOf: ({ engaged_folder }) => [engaged_folder],
    matching: (engaged_folder) => [{ engaged_folder }],
    folderSql: 'engaged_folder',
    nameOf: ({ jid }) => jid,
    purge: (tx, { jid, topic }) =>
      engagements.update(tx, { jid, topic }, { engaged_folder: undefined, engaged_until: undefined }),
  }),
  defineKind('chat set by @', 'chats set by @', {
    table: chats,
    foldersOf: ({ sticky_folder }) => [sticky_folder],
    matching: (sticky_folder) => [{ sticky_folder }],
    folderSql: 'sticky_folder',
    nameOf: ({ jid }) => jid,
    purge: (tx, { jid }) => chats.update(tx, { jid }, { sticky_folder: undefined }),
  }),
]

const ALL_KINDS = [...CASCADED_KINDS, ...RETAINED_KINDS]

function folderOfPrincipal(principal: string): string | undefined {
  const folder = /^folder:(.+)$/.exec(principal)?.[1]
  return folder === undefined || isGlob(folder) ? undefined : folder
}

/** The only folder that a glob refers to. A subtree refers to its top unless it contains other groups. */
function folderOfGlob(glob: string, parents: ReadonlySet<string>): string | undefined {
  const top = glob.replace(/\/\*\*$/, '')
  if (isGlob(top)) return undefined
  return top !== glob && parents.has(top) ? undefined : top
}

interface EndingReferences {
  readonly ends: FolderReferences[]
  readonly stays: FolderReferences[]
}

/** Reads only rows of this folder. */
export async function findReferencesOf(tx: Tx, folder: string): Promise<EndingReferences> {
  const parents = await parentsWithin(tx, folder)
  const collect = async (kinds: readonly ReferenceKind[]): Promise<FolderReferences[]> => {
    const found: FolderReferences[] = []
    for (const kind of kinds) {
      const rows = await kind.findOf(tx, folder, parents)
      if (rows.length > 0) found.push(toReferences(kind, folder, rows))
    }
    return found
  }
  return { ends: await collect(CASCADED_KINDS), stays: await collect(RETAINED_KINDS) }
}

/** Enough to decide about globs of this folder: the folder itself if it has groups below it. */
async function parentsWithin(tx: Tx, folder: string): Promise<ReadonlySet<string>> {
  return new Set((await countDescendants(tx, folder)) > 0 ? [folder] : [])
}

/** For several folders, or rows that are not in the store. */
export async function findFolderReferences(read: ReadTable, wanted: ReadonlySet<string>): Promise<EndingReferences> {
  const { parents } = groupFolders(await read(groups))
  const isWanted = (folder: string): boolean => wanted.has(folder)
  return {
    ends: await collectReferences(CASCADED_KINDS, { read, parents, isWanted }),
    stays: await collectReferences(RETAINED_KINDS, { read, parents, isWanted }),
  }
}

/** Rows that refer to folders that are not groups. */
export async function findReferencesWithoutGroup(read: ReadTable): Promise<FolderReferences[]> {
  const { folders, parents } = groupFolders(await read(groups))
  const isWanted = (folder: string): boolean => !folders.has(folder)
  return collectReferences(ALL_KINDS, { read, parents, isWanted })
}

/** Rows that refer to removed groups, sorted by folder. */
export async function findOrphanedReferences(tx: Tx): Promise<FolderReferences[]> {
  const existing = groupFolders(await query(tx, { folder: text }, 'select folder from groups'))
  const orphans: FolderReferences[] = []
  for (const kind of RETAINED_KINDS) orphans.push(...groupReferences(kind, await kind.findOrphaned(tx, existing)))
  return orphans.sort((a, b) => (a.folder === b.folder ? 0 : a.folder < b.folder ? -1 : 1))
}

/** Removes the rows that refer to a folder without a group, and returns them. */
export async function purgeFolderReferences(tx: Tx, folder: string): Promise<FolderReferences[]> {
  const parents = await parentsWithin(tx, folder)
  const removed: FolderReferences[] = []
  for (const kind of ALL_KINDS) {
    const rows = await kind.findOf(tx, folder, parents)
    for (const row of rows) await row.purge(tx)
    if (rows.length > 0) removed.push(toReferences(kind, folder, rows))
  }
  return removed
}

export function storeReader(tx: Tx): ReadTable {
  return (table) => table.list(tx)
}

/** Such as `2 links (web:a, web:b), 1 secret (API_KEY)`. */
export function describeReferences(rows: readonly FolderReferences[]): string {
  return rows.map(({ kind, names }) => `${names.length} ${kind} (${shortList(names)})`).join(', ')
}

const MAX_NAMES = 5

function shortList(names: readonly string[]): string {
  const more = names.length - MAX_NAMES
  return `${names.slice(0, MAX_NAMES).join(', ')}${more > 0 ? `, and ${more} more` : ''}`
}

interface GroupFolders {
  readonly folders: ReadonlySet<string>
  readonly parents: ReadonlySet<string>
}

function groupFolders(rows: readonly { readonly folder: string }[]): GroupFolders {
  const folders = new Set(rows.map(({ folder }) => folder))
  return { folders, parents: new Set([...folders].flatMap((folder) => selfAndAncestors(folder).slice(0, -1))) }
}

interface ReferenceSearch {
  readonly read: ReadTable
  readonly parents: ReadonlySet<string>
  isWanted(folder: string): boolean
}

async function collectReferences(
  kinds: readonly ReferenceKind[],
  { read, parents, isWanted }: ReferenceSearch,
): Promise<FolderReferences[]> {
  const found: FolderReferences[] = []
  for (const kind of kinds) {
    const rows = (await kind.find(read, parents)).filter(({ folder }) => isWanted(folder))
    found.push(...groupReferences(kind, rows))
  }
  return found
}

function groupReferences(kind: ReferenceKind, rows: readonly ReferencingRow[]): FolderReferences[] {
  return [...Map.groupBy(rows, (row) => row.folder)].map(([folder, own]) => toReferences(kind, folder, own))
}

function toReferences({ one, many }: ReferenceKind, folder: string, rows: readonly ReferencingRow[]): FolderReferences {
  return { folder, kind: rows.length === 1 ? one : many, names: rows.map(({ name }) => name) }
}
