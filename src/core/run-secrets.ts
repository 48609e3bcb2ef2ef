// The secrets that a run has in its environment: those of its folder and the folders above it, and those of the person who
// asked. The deepest level wins; variables of a model endpoint come from one level only (see model-variables.ts). Visitors'
// turns get those of the model alone.
import { Refusal } from '../lib/refusal.ts'
import type { Tx } from '../store/engine.ts'
import { run } from '../store/statement.ts'
import { MODEL_FAMILIES } from './model-variables.ts'
import type { Reach } from './reach.ts'
import { isLoaderVariable, isServiceVariable } from './reserved-variables.ts'
import type { Keyring } from './seal.ts'
import { type Secret, secretContext, secrets } from './secrets.ts'
import { ancestry } from './tiers.ts'
import { isPlainValue } from './values.ts'

export interface Runner {
  readonly folder: string
  /** The person who asked for the turn, if they have an account. */
  readonly sub?: string | undefined
  /** Of the turn. */
  readonly reach: Reach
}

export interface RunSecrets {
  readonly env: Record<string, string>
  /** Which of them the person who asked has set for themselves. */
  readonly personal: ReadonlySet<string>
}

type Warn = (sentence: string) => void

export async function runSecrets(tx: Tx, keyring: Keyring, runner: Runner, warn: Warn): Promise<RunSecrets> {
  const levels = await levelsOf(tx, runner)
  const found: Record<string, string> = {}
  const personal = new Set<string>()
  for (const { row, isModelVariable } of effectiveRows(levels)) {
    if (runner.reach === 'chat' && !isModelVariable) continue
    if (isReserved(row, warn)) continue
    if (row.scope_kind === 'user') personal.add(row.key)
    const value = openedValue(row, keyring, warn)
    if (value !== undefined) found[row.key] = value
    // Without its base URL a key would be sent elsewhere, and without its key a folder would use the instance's. Blank, the
    // variable still marks the endpoint as the folder's own, and the run fails.
    else if (isModelVariable) found[row.key] = ''
  }
  return { env: found, personal }
}

/** The rows of the person, then of the folder, then of each folder above it. */
async function levelsOf(tx: Tx, { folder, sub: asker, reach }: Runner): Promise<Secret[][]> {
  const sub = reach === 'chat' ? undefined : asker
  const folders = ancestry(folder).toReversed()
  const marks = folders.map((_, index) => `$${index + 1}`).join(', ')
  const ofPerson = sub === undefined ? '' : ` or (scope_kind = 'user' and owner = $${folders.length + 1})`
  const { rows } = await run(
    tx,
    `select ${secrets.columns.join(', ')} from secrets
       where (scope_kind = 'folder' and owner in (${marks}))${ofPerson} order by key`,
    [...folders, ...(sub === undefined ? [] : [sub])],
  )
  const read = rows.map((row) => secrets.decode(row))
  const personal = read.filter(({ scope_kind }) => scope_kind === 'user')
  return [personal, ...folders.map((at) => read.filter((row) => row.scope_kind === 'folder' && row.owner === at))]
}

interface EffectiveRow {
  readonly row: Secret
  readonly isModelVariable: boolean
}

/** One row for each variable. Whether it can be opened is not asked: an unreadable row still hides those above it. */
function effectiveRows(levels: readonly (readonly Secret[])[]): EffectiveRow[] {
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

function isReserved({ scope_kind, owner, key }: Secret, warn: Warn): boolean {
  const isForbidden = isServiceVariable(key) || (scope_kind === 'user' && isLoaderVariable(key))
  if (isForbidden) warn(`secret ${key} of ${scope_kind} ${owner} is not given to runs: the name is reserved`)
  return isForbidden
}

function openedValue(row: Secret, keyring: Keyring, warn: Warn): string | undefined {
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
