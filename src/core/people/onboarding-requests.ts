// Requests for a folder: which names are available, and the queue of those who wait for admission.
import type { Tx } from '../../store/engine.ts'
import { integer, query, queryOne } from '../../store/statement.ts'
import { countDescendants, groups } from '../groups/groups.ts'
import { folderFault } from '../values.ts'
import { type OnboardingRow, onboarding } from './onboarding.ts'
import { chooseGate, onboardingGates } from './onboarding-gates.ts'

export type FolderRequest =
  | { readonly kind: 'queued'; readonly folder: string }
  /** A sentence for the person. */
  | { readonly kind: 'fault'; readonly text: string }

/** Queues the request of an open row. `by` will administer the folder. */
export async function requestFolder(
  tx: Tx,
  { jid, attempts }: Pick<OnboardingRow, 'jid' | 'attempts'>,
  { folder, by, now }: { readonly folder: string; readonly by: string; readonly now: string },
): Promise<FolderRequest> {
  const text = folderFault(folder)
    ? 'That is not a folder name. Use letters, digits, ".", "_" and "-", as in team/ada.'
    : (await isFolderAvailable(tx, folder, jid))
      ? undefined
      : unavailableText(folder)
  if (text !== undefined) {
    await onboarding.update(tx, { jid }, { attempts: attempts + 1 })
    return { kind: 'fault', text }
  }
  const gate = chooseGate(await onboardingGates.list(tx), folder)?.spec
  const { last } = await readQueueState(tx)
  const request = { status: 'queued', user_sub: by, gate, folder, queued_at: now, position: last + 1 } as const
  await onboarding.update(tx, { jid }, request)
  return { kind: 'queued', folder }
}

/** The same for every reason: it must not reveal which folders exist. */
export function unavailableText(folder: string): string {
  return `The name ${folder} is not available. Choose another one.`
}

/**
 * A folder that exists, has groups below it or is wanted by another request is not available: admission never gives access to
 * an existing folder.
 */
export async function isFolderAvailable(tx: Tx, folder: string, jid: string): Promise<boolean> {
  if ((await groups.find(tx, { folder })) || (await countDescendants(tx, folder)) > 0) return false
  const wanted = await query(
    tx,
    {},
    `select 1 as one from onboarding where folder = $1 and status = 'queued' and jid <> $2 limit 1`,
    [folder, jid],
  )
  return wanted.length === 0
}

/** Those who wait for the same gate and come first. */
export async function countAhead(tx: Tx, { gate, position }: OnboardingRow): Promise<number> {
  if (gate === undefined || position === undefined) return 0
  const sql = `select count(*) as ahead from onboarding where status = 'queued' and gate = $1 and position < $2`
  return (await queryOne(tx, { ahead: integer }, sql, [gate, position])).ahead
}

/** Changes when a request enters or leaves the queue. */
export function readQueueState(tx: Tx): Promise<{ waiting: number; last: number }> {
  const sql = `select count(*) as waiting, coalesce(max(position), 0) as last from onboarding where status = 'queued'`
  return queryOne(tx, { waiting: integer, last: integer }, sql)
}

/** A place in the queue. */
export interface QueuePosition {
  readonly position: number
  readonly jid: string
}

/** In the order of their requests. */
export function listQueued(
  tx: Tx,
  limit: number,
  after: QueuePosition = { position: -1, jid: '' },
): Promise<OnboardingRow[]> {
  const sql = `select ${onboarding.columns.join(', ')} from onboarding
    where status = 'queued' and (position, jid) > ($1, $2) order by position, jid limit $3`
  return query(tx, onboarding.decode, sql, [after.position, after.jid, limit])
}
