// Which rows name a group by its folder: those that end with the group, and those that stay and that a later group of the same
// name takes over. Messages, costs, logs and files are records and are never counted here.
import type { z } from 'zod'
import { isGlob } from '../lib/glob.ts'
import type { Tx } from '../store/engine.ts'
import type { Table } from '../store/table.ts'
import { acl, aclMembership } from './acl.ts'
import { networkRules } from './allowlist.ts'
import { chats } from './chat-state.ts'
import { conversations } from './conversations.ts'
import { engagements } from './engagement.ts'
import { groups } from './groups.ts'
import { invites } from './invites.ts'
import { onboardingGates } from './onboarding-gates.ts'
import { pendingActions } from './pending-actions.ts'
import { routeTokens } from './route-tokens.ts'
import { readTarget, routes } from './routes.ts'
import { secrets } from './secrets.ts'
import { scheduledTasks } from './tasks.ts'
import { webHosts } from './web-hosts.ts'
import { webRoutes } from './web-routes.ts'

/** The rows of one kind that name one folder. */
export interface FolderRows {
  readonly folder: string
  /** What the rows are called, such as `web routes`; in the singular where there is one. */
  readonly kind: string
  /** What each is called, such as its path or its key. */
  readonly names: readonly string[]
}

/** Reads all rows of a table: those of the store, or those that a manifest would leave there. */
export type ReadTable = <R extends z.ZodObject>(table: Table<R>) => Promise<z.output<R>[]>

interface NamingRow {
  readonly folder: string
  readonly name: string
  purge(tx: Tx): Promise<unknown>
}

interface Kind {
  readonly one: string
  readonly many: string
  find(read: ReadTable, folders: ReadonlySet<string>): Promise<NamingRow[]>
}

type Row<R extends z.ZodObject> = z.output<R>

interface KindDeclaration<R extends z.ZodObject> {
  readonly table: Table<R>
  foldersOf(row: Row<R>, folders: ReadonlySet<string>): readonly (string | undefined)[]
  nameOf(row: Row<R>): string
  /** What is done to a row that is purged, where it is not removed. */
  purge?(tx: Tx, row: Row<R>): Promise<unknown>
}

function kind<R extends z.ZodObject>(one: string, many: string, declared: KindDeclaration<R>): Kind {
  const { table, foldersOf, nameOf } = declared
  const purge = declared.purge ?? ((tx: Tx, row: Row<R>) => table.remove(tx, keyOf(table, row)))
  return {
    one,
    many,
    find: async (read, folders) =>
      (await read(table)).flatMap((row) =>
        [...new Set(foldersOf(row, folders))].flatMap((folder) =>
          folder === undefined ? [] : [{ folder, name: nameOf(row), purge: (tx) => purge(tx, row) }],
        ),
      ),
  }
}

function keyOf<R extends z.ZodObject>(table: Table<R>, row: Row<R>): Partial<Row<R>> {
  const entries = Object.entries(row).filter(([column]) => table.key.includes(column))
  // Columns of this very row.
  return Object.fromEntries(entries) as Partial<Row<R>>
}

/** Foreign keys remove these with the group. */
const ENDING: readonly Kind[] = [
  kind('link', 'links', {
    table: routeTokens,
    foldersOf: ({ owner_folder, target_folder }) => [owner_folder, target_folder],
    nameOf: ({ jid }) => jid,
  }),
  kind('web route', 'web routes', {
    table: webRoutes,
    foldersOf: ({ folder }) => [folder],
    nameOf: ({ path_prefix }) => path_prefix,
  }),
  kind('web host', 'web hosts', {
    table: webHosts,
    foldersOf: ({ folder }) => [folder],
    nameOf: ({ hostname }) => hostname,
  }),
]

const STAYING: readonly Kind[] = [
  kind('route', 'routes', {
    table: routes,
    foldersOf: ({ target }) => {
      const read = readTarget(target)
      return read?.kind === 'folder' && !read.name.includes('{sender}') ? [read.name] : []
    },
    nameOf: ({ match }) => match || 'every message',
  }),
  kind('task', 'tasks', {
    table: scheduledTasks,
    foldersOf: ({ owner }) => [owner],
    nameOf: ({ id }) => id,
  }),
  kind('secret', 'secrets', {
    table: secrets,
    foldersOf: ({ scope_kind, owner }) => (scope_kind === 'folder' ? [owner] : []),
    nameOf: ({ key }) => key,
  }),
  kind('network rule', 'network rules', {
    table: networkRules,
    foldersOf: ({ folder }) => [folder || undefined],
    nameOf: ({ target }) => target,
  }),
  kind('grant', 'grants', {
    table: acl,
    foldersOf: ({ principal, scope }, folders) => [agentOf(principal), folderOfGlob(scope, folders)],
    nameOf: ({ principal, action, scope }) => `${principal} ${action} ${scope}`,
  }),
  kind('role', 'roles', {
    table: aclMembership,
    foldersOf: ({ subject }) => [agentOf(subject)],
    nameOf: ({ role }) => role,
  }),
  kind('invite', 'invites', {
    table: invites,
    foldersOf: ({ target_glob, revoked_at }, folders) =>
      revoked_at === undefined ? [folderOfGlob(target_glob, folders)] : [],
    nameOf: ({ token_id }) => token_id,
  }),
  kind('gate', 'gates', {
    table: onboardingGates,
    foldersOf: ({ spec }, folders) => [folderOfGlob(spec, folders)],
    nameOf: ({ spec }) => spec,
  }),
  kind('approval', 'approvals', {
    table: pendingActions,
    foldersOf: ({ folder, status }) => (status === 'held' || status === 'approved' ? [folder] : []),
    nameOf: ({ id }) => id,
  }),
  kind('session', 'sessions', {
    table: conversations,
    foldersOf: ({ folder, session_id, parent_session }) => (session_id || parent_session ? [folder] : []),
    nameOf: ({ topic }) => topic || 'main topic',
    purge: (tx, { folder, topic }) =>
      conversations.update(tx, { folder, topic }, { session_id: undefined, parent_session: undefined }),
  }),
  kind('engaged chat', 'engaged chats', {
    table: engagements,
    foldersOf: ({ engaged_folder }) => [engaged_folder],
    nameOf: ({ jid }) => jid,
    purge: (tx, { jid, topic }) =>
      engagements.update(tx, { jid, topic }, { engaged_folder: undefined, engaged_until: undefined }),
  }),
  kind('chat set by @', 'chats set by @', {
    table: chats,
    foldersOf: ({ sticky_folder }) => [sticky_folder],
    nameOf: ({ jid }) => jid,
    purge: (tx, { jid }) => chats.update(tx, { jid }, { sticky_folder: undefined }),
  }),
]

/** The folder of an agent's principal, unless it is a glob. */
function agentOf(principal: string): string | undefined {
  const folder = /^folder:(.+)$/.exec(principal)?.[1]
  return folder === undefined || isGlob(folder) ? undefined : folder
}

/** The one folder that a glob means. A subtree counts for its top, unless other groups lie in it. */
function folderOfGlob(glob: string, folders: ReadonlySet<string>): string | undefined {
  const top = glob.replace(/\/\*\*$/, '')
  if (isGlob(top)) return undefined
  const isShared = top !== glob && [...folders].some((folder) => folder.startsWith(`${top}/`))
  return isShared ? undefined : top
}

/** What names these folders: what ends when their groups are removed, and what stays. */
export async function rowsOf(
  read: ReadTable,
  wanted: ReadonlySet<string>,
): Promise<{ ends: FolderRows[]; stays: FolderRows[] }> {
  const folders = await foldersOf(read)
  const isWanted = (folder: string): boolean => wanted.has(folder)
  return {
    ends: await gather(ENDING, { read, folders, isWanted }),
    stays: await gather(STAYING, { read, folders, isWanted }),
  }
}

/** Rows that removed groups have left, by folder and kind. */
export async function leftoversOf(tx: Tx): Promise<FolderRows[]> {
  const read = storeReader(tx)
  const folders = await foldersOf(read)
  const left = await gather(STAYING, { read, folders, isWanted: (folder) => !folders.has(folder) })
  return left.sort((a, b) => (a.folder === b.folder ? 0 : a.folder < b.folder ? -1 : 1))
}

/** Removes what stays of a folder, and answers with it. */
export async function purgeLeftovers(tx: Tx, folder: string): Promise<FolderRows[]> {
  const read = storeReader(tx)
  const folders = await foldersOf(read)
  const removed: FolderRows[] = []
  for (const kind of STAYING) {
    const rows = (await kind.find(read, folders)).filter((row) => row.folder === folder)
    for (const row of rows) await row.purge(tx)
    if (rows.length > 0) removed.push(asRows(kind, folder, rows))
  }
  return removed
}

export function storeReader(tx: Tx): ReadTable {
  return (table) => table.list(tx)
}

/** Such as `2 links (web:a, web:b), 1 secret (API_KEY)`. */
export function describeRows(rows: readonly FolderRows[]): string {
  return rows.map(({ kind, names }) => `${names.length} ${kind} (${shortList(names)})`).join(', ')
}

const SHOWN = 5

function shortList(names: readonly string[]): string {
  const more = names.length - SHOWN
  return `${names.slice(0, SHOWN).join(', ')}${more > 0 ? `, and ${more} more` : ''}`
}

async function foldersOf(read: ReadTable): Promise<Set<string>> {
  return new Set((await read(groups)).map(({ folder }) => folder))
}

interface Gathering {
  readonly read: ReadTable
  readonly folders: ReadonlySet<string>
  isWanted(folder: string): boolean
}

async function gather(kinds: readonly Kind[], { read, folders, isWanted }: Gathering): Promise<FolderRows[]> {
  const found: FolderRows[] = []
  for (const kind of kinds) {
    const rows = (await kind.find(read, folders)).filter(({ folder }) => isWanted(folder))
    for (const [folder, its] of Map.groupBy(rows, (row) => row.folder)) found.push(asRows(kind, folder, its))
  }
  return found
}

function asRows({ one, many }: Kind, folder: string, rows: readonly NamingRow[]): FolderRows {
  return { folder, kind: rows.length === 1 ? one : many, names: rows.map(({ name }) => name) }
}
