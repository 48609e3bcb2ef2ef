// The acl rows that concern one folder, in words, and whether a row is the last that makes somebody its administrator.
import { compileSegments, isGlob, MAX_PATTERN } from '../../lib/text/glob.ts'
import type { Tx } from '../../store/engine.ts'
import { placeholders, query } from '../../store/statement.ts'
import { acl } from './acl.ts'
import { type AclRow, OPERATOR_ROLE } from './policy.ts'
import { selfAndAncestors } from './tiers.ts'

/** Scopes that are neither a folder nor a subtree: only these have to be matched one by one. */
const OTHER_GLOB = `(case when scope like '%/**' then substr(scope, 1, length(scope) - 3) else scope end)`
const HAS_WILDCARD = ['*', '?', '[', '\\'].map(
  (character) => `replace(${OTHER_GLOB}, '${character}', '') <> ${OTHER_GLOB}`,
)

/** Rows whose scope includes the folder, by principal. */
export async function listFolderGrants(tx: Tx, folder: string): Promise<ReturnType<typeof acl.decode>[]> {
  const names = [folder, '**', ...selfAndAncestors(folder).map((each) => `${each}/**`)]
  const marks = placeholders(names.length)
  const rows = await query(
    tx,
    acl.decode,
    `select ${acl.columns.join(', ')} from acl
     where scope in (${marks}) or ${HAS_WILDCARD.join(' or ')}
     order by principal, action, scope, params, predicate, effect`,
    names,
  )
  return rows.filter(({ scope }) => reaches(scope, folder))
}

function reaches(scope: string, folder: string): boolean {
  return scope.length <= MAX_PATTERN && Boolean(compileSegments(scope)?.(folder))
}

/** `github:1 may administer team and all folders below it.` */
export function explainGrant({ principal, action, scope, effect, params, predicate }: AclRow): string {
  const verb = effect === 'deny' ? 'must not' : 'may'
  const when = predicate === '' ? '' : `, if ${predicate}`
  return `${describePrincipal(principal)} ${describeAction(action, verb, params)} ${describeFolders(scope)}${when}.`
}

function describePrincipal(principal: string): string {
  if (principal === '**') return 'Everyone, also without an account,'
  const at = principal.indexOf(':')
  const [space, name] = [principal.slice(0, at), principal.slice(at + 1)]
  if (space === 'role') return name === 'operator' ? 'Operators' : `Members of the role ${name}`
  if (space === 'folder') return isGlob(name) ? `The agents of ${name}` : `The agent of ${name}`
  return isGlob(principal) ? `All accounts like ${principal}` : principal
}

function describeAction(action: string, verb: string, params: string): string {
  const only = params === '' ? '' : ` with ${params}`
  if (action.startsWith('hold:'))
    return verb === 'may'
      ? `must wait for an approval before each ${toolName(action)}${only} on`
      : `need no approval for ${toolName(action)}${only} on`
  if (action === '*') return `${verb} do everything in`
  if (action === 'admin') return `${verb} administer`
  if (action === 'interact') return `${verb} talk to`
  if (action === 'assume') return `${verb} act as`
  return `${verb} use ${toolName(action)}${only} on`
}

function toolName(action: string): string {
  const name = action.replace(/^(?:hold:)?mcp:/, '')
  return name === '*' ? 'all tools' : isGlob(name) ? `the tools ${name}` : `the tool ${name}`
}

function describeFolders(scope: string): string {
  if (scope === '**') return 'every folder and the instance'
  const base = scope.slice(0, -'/**'.length)
  if (scope.endsWith('/**') && !isGlob(base)) return `${base} and all folders below it`
  return isGlob(scope) ? `the folders ${scope}` : scope
}

/** Whether this row alone makes a person the administrator of the folder: without it only operators remain. */
export function isLastAdministrator(row: AclRow, rows: readonly AclRow[], folder: string): boolean {
  const others = rows.filter((other) => other !== row && givesAdministration(other, folder))
  return givesAdministration(row, folder) && others.length === 0
}

function givesAdministration({ principal, action, scope, effect, params }: AclRow, folder: string): boolean {
  const isForPeople = principal !== OPERATOR_ROLE && !principal.startsWith('folder:')
  const isAdministration = effect === 'allow' && (action === 'admin' || action === '*') && params === ''
  return isForPeople && isAdministration && reaches(scope, folder)
}
