// Secrets in the environment of a run: those of its folder, its ancestors and the requesting person. The deepest level wins;
// variables of a model endpoint come from one level only (see model-variables.ts). Visitors' turns get only model variables.
import { Refusal } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { placeholders, query } from '../../store/statement.ts'
import type { Reach } from '../access/reach.ts'
import { selfAndAncestors } from '../access/tiers.ts'
import { isPlainValue } from '../values.ts'
import type { Keyring } from './keyring.ts'
import { MODEL_FAMILIES, MODEL_URLS } from './model-variables.ts'
import { reservedVariableFault } from './reserved-variables.ts'
import { type Secret, secretContext, secrets } from './secrets.ts'

interface RunScope {
  readonly folder: string
  /** Account such as `github:42` of the person who requested the turn. */
  readonly sub?: string | undefined
  readonly reach: Reach
}

export interface RunSecrets {
  readonly env: Record<string, string>
  /** Names of variables that the requesting person set. */
  readonly personal: ReadonlySet<string>
  /** Names of the endpoints that no operator set; they cannot be on this machine or a private network. */
  readonly publicOnly: ReadonlySet<string>
}

type Warn = (message: string) => void

export async function readRunSecrets(tx: Tx, keyring: Keyring, scope: RunScope, warn: Warn): Promise<RunSecrets> {
  return openSecrets(await readSecretLevels(tx, scope), keyring, scope.reach, warn)
}

export function openSecrets(levels: SecretLevels, keyring: Keyring, reach: Reach, warn: Warn): RunSecrets {
  const env: Record<string, string> = {}
  const personal = new Set<string>()
  const publicOnly = new Set<string>()
  for (const { row, isModelVariable } of effectiveRows(levels)) {
    if (reach === 'chat' && !isModelVariable) continue
    if (isReserved(row, warn)) continue
    if (row.scope_kind === 'user') personal.add(row.key)
    if (MODEL_URLS.includes(row.key) && !row.isByOperator) publicOnly.add(row.key)
    const value = tryOpenValue(row, keyring, warn)
    if (value !== undefined) env[row.key] = value
    // Without its base URL, the folder's key would go to the default endpoint; without its key, the instance's would be
    // used. An empty value makes the run fail instead.
    else if (isModelVariable) env[row.key] = ''
  }
  return { env, personal, publicOnly }
}

/** Rows of the person, the folder and each ancestor, in this order; each level is sorted by key. */
export type SecretLevels = readonly (readonly RunSecret[])[]

interface RunSecret extends Secret {
  /** Set for endpoints of models. */
  readonly isByOperator: boolean
}

export async function readSecretLevels(tx: Tx, { folder, sub: requester, reach }: RunScope): Promise<SecretLevels> {
  const sub = reach === 'chat' ? undefined : requester
  const folders = selfAndAncestors(folder).toReversed()
  const ofPerson = sub === undefined ? '' : ` or (scope_kind = 'user' and owner = $${folders.length + 1})`
  const read = await query(
    tx,
    (row): RunSecret => ({ ...secrets.decode(row), isByOperator: Number(row.by_operator) === 1 }),
    `select ${secrets.columns.join(', ')}, case when scope_kind = 'folder' and exists (
         select 1 from operator_endpoints e where e.owner = secrets.owner and e.key = secrets.key) then 1 else 0 end as by_operator
       from secrets where (scope_kind = 'folder' and owner in (${placeholders(folders.length)}))${ofPerson} order by key`,
    [...folders, ...(sub === undefined ? [] : [sub])],
  )
  const personal = read.filter(({ scope_kind }) => scope_kind === 'user')
  return [personal, ...folders.map((each) => read.filter((row) => row.scope_kind === 'folder' && row.owner === each))]
}

interface EffectiveRow {
  readonly row: RunSecret
  readonly isModelVariable: boolean
}

/** One row per variable. A row that cannot be opened still hides those of ancestors. */
function effectiveRows(levels: SecretLevels): EffectiveRow[] {
  const rows = new Map<string, EffectiveRow>()
  for (const level of levels)
    for (const row of level) {
      const family = MODEL_FAMILIES.find((names) => names.includes(row.key))
      const owner = family && levels.find((each) => each.some(({ key }) => family.includes(key)))
      if (owner ? owner === level : !rows.has(row.key))
        rows.set(row.key, { row, isModelVariable: family !== undefined })
    }
  return [...rows.values()]
}

/** Rows of earlier versions, which accepted these names. */
function isReserved({ scope_kind, owner, key }: Secret, warn: Warn): boolean {
  const isForbidden = reservedVariableFault({ scope_kind, key }) !== undefined
  if (isForbidden) warn(`secret ${key} of ${scope_kind} ${owner} is not given to runs: the name is reserved`)
  return isForbidden
}

function tryOpenValue(row: Secret, keyring: Keyring, warn: Warn): string | undefined {
  const name = `secret ${row.key} of ${row.scope_kind} ${row.owner}`
  try {
    const value = keyring.open(row.value, secretContext(row)).toString()
    if (isPlainValue(value)) return value
    warn(`${name} contains control characters and is not given to runs: set it again`)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    warn(`${name} is not given to runs: ${error.message}`)
  }
  return undefined
}
