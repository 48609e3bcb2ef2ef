// Rows that a package adds: routes of the front door and grants. They are recorded as JSON in `installed_packages`, so that
// a later change of the operator is noticed and only the package's own rows are ever replaced or removed.
import { z } from 'zod'
import { parseJson } from '../../lib/text/json.ts'
import type { Tx } from '../../store/engine.ts'
import { Acl, acl } from '../access/acl.ts'
import { unmatchableReason } from '../access/policy.ts'
import { ProxydRoute, proxydRouteFault, proxydRoutes } from '../links/proxyd-routes.ts'
import { patternText } from '../values.ts'

export const PackageName = patternText(
  /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$/,
  'must be 1 to 63 letters, digits, ".", "_" or "-", and neither "." nor "-" first',
)

export const PackageRoute = ProxydRoute.strict().superRefine((route, ctx) => {
  const message = proxydRouteFault(route)
  if (message) ctx.addIssue({ code: 'custom', message })
})

export const PackageGrant = z
  .strictObject({
    principal: Acl.shape.principal,
    action: Acl.shape.action,
    scope: Acl.shape.scope,
    effect: Acl.shape.effect.default('allow'),
    params: Acl.shape.params,
    predicate: Acl.shape.predicate,
  })
  .superRefine((grant, ctx) => {
    const message = unmatchableReason(grant)
    if (message) ctx.addIssue({ code: 'custom', message })
  })

export type PackageGrant = z.output<typeof PackageGrant>

export interface PackageRows {
  readonly proxyd_routes: readonly ProxydRoute[]
  readonly acl: readonly PackageGrant[]
}

export const NO_ROWS: PackageRows = { proxyd_routes: [], acl: [] }

/** The text of rows in `installed_packages.manifest`. */
export type RecordedRows = Readonly<Record<keyof PackageRows, string[]>>

export function recordRows(rows: PackageRows): RecordedRows {
  return { proxyd_routes: rows.proxyd_routes.map(sortedJson), acl: rows.acl.map(sortedJson) }
}

export function readRecordedRows(manifest: Readonly<Record<string, readonly string[]>> = {}): PackageRows {
  const { proxyd_routes = [], acl = [] } = manifest
  return {
    proxyd_routes: proxyd_routes.map((text) => PackageRoute.parse(parseJson(text))),
    acl: acl.map((text) => PackageGrant.parse(parseJson(text))),
  }
}

/** Principal in `granted_by` of a package's rows. */
function grantor(name: string): string {
  return `package:${name}`
}

export function describeRoute({ path, backend, redirect_to, auth }: ProxydRoute): string {
  return `route ${path} -> ${backend ?? redirect_to} (${auth})`
}

export function describeGrant({ principal, action, scope, effect, params, predicate }: PackageGrant): string {
  const conditions = [params && ` with ${params}`, predicate && ` if ${predicate}`].join('')
  return `grant ${principal} ${effect === 'deny' ? 'deny ' : ''}${action} on ${scope}${conditions}`
}

type RowState = 'missing' | 'same' | 'changed'

/** One row of a package in either table. */
interface PackageRow {
  /** Equal for rows with the same key. */
  readonly id: string
  readonly label: string
  /** Equal for equal rows. */
  readonly text: string
  state(tx: Tx): Promise<RowState>
  insert(tx: Tx, now: string): Promise<void>
  remove(tx: Tx): Promise<void>
}

function routeRow(route: ProxydRoute): PackageRow {
  const { path } = route
  const text = sortedJson(route)
  return {
    id: `route ${path}`,
    label: `route ${path}`,
    text,
    state: async (tx) => {
      const found = await proxydRoutes.find(tx, { path })
      return found ? (sortedJson(found) === text ? 'same' : 'changed') : 'missing'
    },
    insert: (tx) => proxydRoutes.insert(tx, route),
    remove: async (tx) => void (await proxydRoutes.remove(tx, { path })),
  }
}

function grantRow(name: string, grant: PackageGrant): PackageRow {
  const text = sortedJson(grant)
  return {
    id: `grant ${text}`,
    label: describeGrant(grant),
    text,
    state: async (tx) => {
      const found = await acl.find(tx, grant)
      return found ? (found.granted_by === grantor(name) ? 'same' : 'changed') : 'missing'
    },
    insert: (tx, now) => acl.insert(tx, { ...grant, granted_by: grantor(name), granted_at: now }),
    remove: async (tx) => void (await acl.remove(tx, grant)),
  }
}

function rowsOf(name: string, rows: PackageRows): PackageRow[] {
  return [...rows.proxyd_routes.map(routeRow), ...rows.acl.map((grant) => grantRow(name, grant))]
}

export interface RowChange {
  readonly name: string
  readonly before: PackageRows
  readonly after: PackageRows
}

/** Rows that the operator has changed or removed since they were installed. */
export async function findChangedRows(tx: Tx, name: string, rows: PackageRows): Promise<string[]> {
  const faults: string[] = []
  for (const row of rowsOf(name, rows)) {
    const state = await row.state(tx)
    if (state !== 'same') faults.push(`${row.label} was ${state === 'missing' ? 'removed' : 'changed'}`)
  }
  return faults
}

/** Rows that exist already and are not the package's. */
export async function findRowConflicts(tx: Tx, { name, before, after }: RowChange): Promise<string[]> {
  const own = new Set(rowsOf(name, before).map(({ id }) => id))
  const conflicts: string[] = []
  for (const row of rowsOf(name, after))
    if (!own.has(row.id) && (await row.state(tx)) !== 'missing') conflicts.push(`${row.label} already exists`)
  return conflicts
}

/** After `findRowConflicts`. Rows that stay the same keep their times. */
export async function replacePackageRows(tx: Tx, { name, before, after }: RowChange, now: string): Promise<void> {
  const [old, next] = [rowsOf(name, before), rowsOf(name, after)]
  const stays = new Set<string>()
  for (const row of next)
    if (old.some(({ id, text }) => id === row.id && text === row.text) && (await row.state(tx)) === 'same')
      stays.add(row.id)
  for (const row of old) if (!stays.has(row.id)) await row.remove(tx)
  for (const row of next) if (!stays.has(row.id)) await row.insert(tx, now)
}

/** Removes the rows of a package and returns those it keeps, because the operator has changed them. */
export async function removePackageRows(
  tx: Tx,
  name: string,
  { rows, isForced }: { readonly rows: PackageRows; readonly isForced: boolean },
): Promise<string[]> {
  const kept: string[] = []
  for (const row of rowsOf(name, rows)) {
    if (isForced || (await row.state(tx)) === 'same') await row.remove(tx)
    else if ((await row.state(tx)) === 'changed') kept.push(row.label)
  }
  return kept
}

function sortedJson(row: object): string {
  const members = Object.entries(row).filter(([, value]) => value !== undefined)
  return JSON.stringify(Object.fromEntries(members.sort(([a], [b]) => (a < b ? -1 : 1))))
}
