// Admission: group, route and grant of a chat or person, in one transaction. The files of the folder are prepared before it and
// claimed by the row, so that after a crash the next attempt continues, and a refusal removes them.
import { isGlob } from '../../lib/text/glob.ts'
import type { Engine, Tx } from '../../store/engine.ts'
import { execute } from '../../store/statement.ts'
import { acl } from '../access/acl.ts'
import { isAccount } from '../access/namespaces.ts'
import { folderBaseName, parentFolderOf, ROOT_FOLDER } from '../access/tiers.ts'
import { platformOf } from '../delivery/channel.ts'
import { basePlatformOf } from '../delivery/platforms.ts'
import { findReferencesOf } from '../groups/folder-references.ts'
import { groups } from '../groups/groups.ts'
import { addGroup, type GroupCreationTime } from '../groups/new-group.ts'
import { hasPrototype, hasWorkspace, makeWorkspace, removeWorkspace } from '../groups/workspace-prototype.ts'
import type { Layout } from '../layout.ts'
import { addChatRoutes, planChatRoutes } from '../routing/chat-routes.ts'
import { type OnboardingRow, onboarding } from './onboarding.ts'
import { isFolderAvailable } from './onboarding-requests.ts'

const PRODUCT = 'assistant'

interface AdmissionFiles {
  readonly engine: Engine
  readonly layout: Layout
}

/** Creates the files of a folder that has no group yet. Returns false if the name is not available. */
export async function prepareFolder(
  { engine, layout }: AdmissionFiles,
  row: OnboardingRow,
  folder: string,
): Promise<boolean> {
  const { jid } = row
  if (row.prepared !== undefined && row.prepared !== folder) await discardPreparedFolder({ engine, layout }, row)
  const parent = parentFolderOf(folder) ?? ROOT_FOLDER
  const [exists, parentExists] = await engine.read(async (tx) => [
    (await groups.find(tx, { folder })) !== undefined,
    (await groups.find(tx, { folder: parent })) !== undefined,
  ])
  if (exists) return false
  if (row.prepared !== folder) {
    // Files without a group are those of a removed group, which must not reach a stranger.
    if (await hasWorkspace(layout, folder)) return false
    if (!(await engine.transaction((tx) => claimFolder(tx, jid, folder)))) return false
  }
  const from = parentExists && (await hasPrototype(layout, parent)) ? parent : undefined
  // The row has claimed the files: another process may be making the same ones, so a failure must not remove them.
  await makeWorkspace(layout, { folder, product: PRODUCT, from, keepsPartial: true })
  return true
}

async function claimFolder(tx: Tx, jid: string, folder: string): Promise<boolean> {
  const sql = `update onboarding set prepared = $2 where jid = $1
    and not exists (select 1 from onboarding where prepared = $2 and jid <> $1)`
  return (await execute(tx, sql, [jid, folder])) > 0
}

/**
 * Removes prepared files, unless a group has them now. The claim ends first: without it no other process can admit the row, and
 * the files are not those of a new group.
 */
export async function discardPreparedFolder(
  { engine, layout }: AdmissionFiles,
  { jid, prepared }: OnboardingRow,
): Promise<void> {
  if (prepared === undefined) return
  const isUnused = await engine.transaction(async (tx) => {
    const ended = await onboarding.update(tx, { jid, prepared }, { prepared: undefined })
    return ended > 0 && (await groups.find(tx, { folder: prepared })) === undefined
  })
  if (isUnused) await removeWorkspace(layout, prepared)
}

/** Why the prepared folder cannot be given to this row, for operators; undefined if it can. */
export async function admissionFault(tx: Tx, { jid, prepared }: OnboardingRow, folder: string) {
  if (prepared !== folder || !(await isFolderAvailable(tx, folder, jid))) return `the folder ${folder} is not available`
  // A gate may name the folder before it exists. Anything else was left by an earlier group, such as its secrets.
  const { stays } = await findReferencesOf(tx, folder)
  const left = stays.find(({ kind }) => kind !== 'gate')
  return left && `the folder ${folder} would inherit ${left.names.length} ${left.kind} of an earlier group`
}

/** The caller has checked `admissionFault` in the same transaction. */
export async function admit(
  tx: Tx,
  { jid, user_sub }: OnboardingRow,
  { folder, gate }: { readonly folder: string; readonly gate?: string | undefined },
  time: GroupCreationTime,
): Promise<void> {
  const chat = isAccount(jid) ? undefined : jid
  const group = { folder, name: folderBaseName(folder), product: PRODUCT, by: 'onboarding' }
  // A route without the platform would also take chats of other platforms, whose rooms strangers cannot be trusted to name.
  await addGroup(tx, { ...group, jid: chat, namesPlatform: true }, time)
  if (user_sub !== undefined && mayHoldGrant(user_sub, jid))
    await acl.insertIfMissing(tx, {
      principal: user_sub,
      action: 'admin',
      scope: `${folder}/**`,
      effect: 'allow',
      params: '',
      predicate: '',
      granted_by: 'onboarding',
      granted_at: time.now,
    })
  await onboarding.update(tx, { jid }, { ...approved(folder, time.now), ...(gate === undefined ? {} : { gate }) })
}

function approved(folder: string, admitted_at: string) {
  return {
    status: 'approved',
    ...{ folder, admitted_at, position: undefined, prepared: undefined },
    ...{ pairing_code: undefined, pairing_expires_at: undefined },
  } as const
}

/** What a person may do in the folder that their direct chat is routed to. */
export const CHAT_ROLES = ['admin', 'member', 'none'] as const
const ROLE_GRANTS = { admin: 'admin', member: 'interact' } as const

/** Routes the chat to an existing folder. */
export async function admitTo(
  tx: Tx,
  { jid, user_sub }: OnboardingRow,
  { folder, role, by, now }: { folder: string; role: (typeof CHAT_ROLES)[number]; by: string; now: string },
): Promise<void> {
  if (!isAccount(jid))
    await addChatRoutes(tx, jid, await planChatRoutes(tx, jid, folder, { namesPlatform: true, isFirst: true }))
  if (role !== 'none' && user_sub !== undefined && mayHoldGrant(user_sub, jid))
    await acl.insertIfMissing(tx, {
      ...{ principal: user_sub, action: ROLE_GRANTS[role], scope: folder, effect: 'allow', params: '', predicate: '' },
      ...{ granted_by: by, granted_at: now },
    })
  await onboarding.update(tx, { jid }, approved(folder, now))
}

/** Not a glob, an anonymous sender or a name without its platform: the grant would be for other people too. */
export function mayHoldGrant(sub: string, jid: string): boolean {
  const platform = platformOf(jid)
  const isOfPlatform = [platform, basePlatformOf(platform)].some((name) => sub.startsWith(`${name}:`))
  return !isGlob(sub) && (sub === jid || isOfPlatform)
}
