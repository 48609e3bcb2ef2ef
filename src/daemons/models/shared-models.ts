// The models of all groups, each once with the groups that use it, and those whose cost is not known.
import { containsFolder, selfAndAncestors } from '../../core/access/tiers.ts'
import { groups } from '../../core/groups/groups.ts'
import { MODEL_FAMILIES } from '../../core/secrets/model-variables.ts'
import { secrets } from '../../core/secrets/secrets.ts'
import type { Tx } from '../../store/engine.ts'
import { integer, query, text } from '../../store/statement.ts'
import { describeModel, type ModelConfig, type ModelConfigQuery, readModelConfig } from './model-config.ts'

/** Groups with the same model configuration. */
export interface SharedModel {
  readonly config: ModelConfig
  readonly folders: readonly string[]
}

/** Groups without settings of their own share the configuration of the instance. With `top`, only it and the folders below it. */
export async function readSharedModels(
  tx: Tx,
  from: Omit<ModelConfigQuery, 'folder'>,
  top?: string,
): Promise<SharedModel[]> {
  const all = (await groups.list(tx)).filter(({ folder }) => top === undefined || containsFolder(top, folder))
  const variables = new Set(MODEL_FAMILIES.flat())
  const owners = new Set(
    (await secrets.list(tx, { scope_kind: 'folder' }))
      .filter(({ key }) => variables.has(key))
      .map(({ owner }) => owner),
  )
  const hasOwnModel = ({ folder, config }: (typeof all)[number]): boolean =>
    config !== undefined || selfAndAncestors(folder).some((each) => owners.has(each))
  const plain = all.filter((group) => !hasOwnModel(group)).map(({ folder }) => folder)
  const shared: SharedModel[] = plain.length > 0 ? [{ config: await readModelConfig(tx, from), folders: plain }] : []
  for (const { folder } of all.filter(hasOwnModel)) {
    const config = await readModelConfig(tx, { ...from, folder })
    const same = shared.findIndex((each) => modelKey(each.config) === modelKey(config))
    const known = shared[same]
    if (known) shared[same] = { ...known, folders: [...known.folders, folder] }
    else shared.push({ config, folders: [folder] })
  }
  return shared
}

function modelKey({ runtime, endpoint, model, key, program, command, price, warnings }: ModelConfig): string {
  return JSON.stringify([runtime, endpoint, model, key, program, command, price, warnings])
}

const FOLDERS_SHOWN = 3

export function formatFolders(folders: readonly string[]): string {
  const more = folders.length - FOLDERS_SHOWN
  return `${folders.slice(0, FOLDERS_SHOWN).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

/** What a cap cannot limit: turns with a model whose cost is not known. */
export interface UncountedModel {
  readonly sentence: string
  /** The folder whose model it is; undefined for the model of the instance. */
  readonly folder?: string | undefined
}

/** The models without a price that are used in `top` and below it, or in any folder. */
export async function findUncountedModels(
  tx: Tx,
  from: Omit<ModelConfigQuery, 'folder'>,
  top?: string,
): Promise<UncountedModel[]> {
  const shared = await readSharedModels(tx, from, top)
  return shared.filter(hasNoPrice).map(({ config, folders }) => ({
    sentence: `no price is known for ${describeModel(config)}, so turns of ${formatFolders(folders)} count no cost and no cap limits them`,
    folder: config.folder,
  }))
}

function hasNoPrice({ config }: SharedModel): boolean {
  return config.price?.kind === 'unknown'
}

/** The command that states the price of a model. */
export function suggestPriceCommand(instance: string, folder: string | undefined): string {
  return `svc model ${instance}${folder === undefined ? '' : ` ${folder}`} --price <input>/<cached>/<output>, or --price free`
}

/**
 * The folders and people whose caps cannot limit turns because a model has no price. With `folder`, those that apply there, without
 * the names of people: its administrators need not know them.
 */
export async function listIdleCaps(
  tx: Tx,
  from: Omit<ModelConfigQuery, 'folder'>,
  folder?: string,
): Promise<readonly string[]> {
  const capped = await query(
    tx,
    { name: text, is_person: integer },
    `select folder as name, 0 as is_person from groups where cost_cap_cents_per_day is not null
     union all select sub, 1 from users where cost_cap_cents_per_day is not null order by is_person, name`,
  )
  if (capped.length === 0) return []
  const shared = await readSharedModels(tx, from, folder)
  const uncounted = shared.filter(hasNoPrice).flatMap(({ folders }) => folders)
  if (uncounted.length === 0) return []
  const folders = capped.filter(
    ({ name, is_person }) => is_person === 0 && uncounted.some((each) => containsFolder(name, each)),
  )
  const people = capped.filter(({ is_person }) => is_person === 1)
  if (folder === undefined) return [...folders, ...people].map(({ name }) => name)
  return [...folders.map(({ name }) => name), ...(people.length > 0 ? ['some people'] : [])]
}
