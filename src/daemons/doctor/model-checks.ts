// Checks of models: whether the settings of each group are complete and, for `svc doctor --online`, whether a call succeeds.
import { selfAndAncestors } from '../../core/access/tiers.ts'
import { groups } from '../../core/groups/groups.ts'
import { groupDirs, type Layout } from '../../core/layout.ts'
import type { Keyring } from '../../core/secrets/keyring.ts'
import { MODEL_FAMILIES } from '../../core/secrets/model-variables.ts'
import { secrets } from '../../core/secrets/secrets.ts'
import type { SettingSource } from '../../lib/settings.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { Engine, Tx } from '../../store/engine.ts'
import { describeModel, type ModelConfig, type ModelConfigQuery, readModelConfig } from '../models/model-config.ts'
import { findModelFaults } from '../models/model-faults.ts'
import { type DoctorFinding, makeFinding, runCheck } from './findings.ts'

/** Groups with the same model configuration. */
interface SharedModel {
  readonly config: ModelConfig
  readonly folders: readonly string[]
}

export interface ModelCheckOptions {
  readonly instance: string
  readonly layout: Layout
  readonly keyring: Keyring
  readonly sources: readonly SettingSource[]
}

export async function checkModels(
  engine: Engine,
  { instance, layout, keyring, sources }: ModelCheckOptions,
): Promise<DoctorFinding> {
  const shared = await engine.read((tx) => readSharedModels(tx, { keyring, sources }))
  const faults = shared.flatMap(({ config, folders }) =>
    [...config.warnings, ...findModelFaults(config, groupDirs(layout, folders[0] ?? 'main').home)].map((fault) => ({
      folder: config.folder,
      fault: `${formatFolders(folders)}: ${fault}`,
    })),
  )
  const fine = shared.map(({ config, folders }) => `${formatFolders(folders)}: ${describeModel(config)}`).join('; ')
  const isDemo = shared.every(({ config }) => config.runtime === 'demo')
  return makeFinding(
    'models',
    [...new Set(faults.map(({ fault }) => fault))],
    isDemo ? `the built-in demo answers; svc model ${instance} sets a real model` : fine,
    suggestModelCommand(instance, faults[0]?.folder),
  )
}

/** Makes one real call for each configuration. */
export async function checkModelCalls(
  host: InstanceHost,
  { layout, sources }: Pick<ModelCheckOptions, 'layout' | 'sources'>,
): Promise<DoctorFinding[]> {
  const { testModel } = await import('../models/test-call.ts')
  const shared = await host.engine.read((tx) => readSharedModels(tx, { keyring: host.keyring, sources }))
  const check = 'model call'
  const findings: DoctorFinding[] = []
  for (const { config, folders } of shared) {
    const [folder = 'main'] = folders
    if (config.runtime === 'demo' || findModelFaults(config, groupDirs(layout, folder).home).length > 0) continue
    const call = async (): Promise<DoctorFinding> => {
      const { ms } = await testModel(host, layout, { ...config, folder })
      return { check, status: 'ok', detail: `${describeModel(config)} answered in ${(ms / 1000).toFixed(1)} s` }
    }
    findings.push(await runCheck(check, call, suggestModelCommand(host.instance, config.folder)))
  }
  return findings
}

/** `folder` is undefined if the model is set for the whole instance. */
function suggestModelCommand(instance: string, folder: string | undefined): string {
  return `svc model ${instance}${folder === undefined ? '' : ` ${folder}`}`
}

/** Groups without settings of their own share the configuration of the instance. */
async function readSharedModels(tx: Tx, query: Omit<ModelConfigQuery, 'folder'>): Promise<SharedModel[]> {
  const all = await groups.list(tx)
  const variables = new Set(MODEL_FAMILIES.flat())
  const owners = new Set(
    (await secrets.list(tx, { scope_kind: 'folder' }))
      .filter(({ key }) => variables.has(key))
      .map(({ owner }) => owner),
  )
  const hasOwnModel = ({ folder, config }: (typeof all)[number]): boolean =>
    config !== undefined || selfAndAncestors(folder).some((each) => owners.has(each))
  const plain = all.filter((group) => !hasOwnModel(group)).map(({ folder }) => folder)
  const shared: SharedModel[] = plain.length > 0 ? [{ config: await readModelConfig(tx, query), folders: plain }] : []
  for (const { folder } of all.filter(hasOwnModel)) {
    const config = await readModelConfig(tx, { ...query, folder })
    const same = shared.findIndex((each) => modelKey(each.config) === modelKey(config))
    const known = shared[same]
    if (known) shared[same] = { ...known, folders: [...known.folders, folder] }
    else shared.push({ config, folders: [folder] })
  }
  return shared
}

function modelKey({ runtime, endpoint, model, key, program, command, warnings }: ModelConfig): string {
  return JSON.stringify([runtime, endpoint, model, key, program, command, warnings])
}

const FOLDERS_SHOWN = 3

function formatFolders(folders: readonly string[]): string {
  const more = folders.length - FOLDERS_SHOWN
  return `${folders.slice(0, FOLDERS_SHOWN).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}
