// What `svc doctor` says about models: whether each group has all that its runtime needs, and with --online whether it answers.

import { selfAndAncestors } from '../../core/access/tiers.ts'
import { groups } from '../../core/groups/groups.ts'
import { groupDirs } from '../../core/layout.ts'
import { openKeyring } from '../../core/secrets/keyring.ts'
import { MODEL_FAMILIES } from '../../core/secrets/model-variables.ts'
import { secrets } from '../../core/secrets/secrets.ts'
import { Refusal } from '../../lib/refusal.ts'
import type { Engine, Tx } from '../../store/engine.ts'
import type { OpenedInstance } from '../command.ts'
import type { ConfiguredInstance } from '../instance/instance.ts'
import { type ModelConfig, type ModelConfigQuery, readModelConfig } from '../model/model-config.ts'
import { findModelFaults } from '../model/model-faults.ts'
import { type DoctorFinding, makeFinding } from './store-checks.ts'

/** Groups that use the same model in the same way. */
interface SharedModel {
  readonly config: ModelConfig
  readonly folders: readonly string[]
}

export async function checkModels(
  engine: Engine,
  { name, layout, settings, sources }: ConfiguredInstance,
): Promise<DoctorFinding> {
  const keyring = openKeyring(settings.SECRETS_KEY)
  const shared = await engine.read((tx) => readSharedModels(tx, { keyring, sources }))
  const faults = shared.flatMap(({ config, folders }) =>
    [...config.warnings, ...findModelFaults(config, groupDirs(layout, folders[0] ?? 'main').home)].map((fault) => ({
      // Set for all groups or for one: the command differs.
      folder: config.folder,
      fault: `${formatFolders(folders)}: ${fault}`,
    })),
  )
  const next = `svc model ${name}${faults[0]?.folder === undefined ? '' : ` ${faults[0].folder}`}`
  const fine = shared.map(({ config, folders }) => `${formatFolders(folders)}: ${describe(config)}`).join('; ')
  const isDemo = shared.every(({ config }) => config.runtime === 'demo')
  return makeFinding(
    'models',
    [...new Set(faults.map(({ fault }) => fault))],
    isDemo ? `the built-in demo answers; svc model ${name} sets a real model` : fine,
    next,
  )
}

/** One real call for each configuration. */
export async function checkModelCalls({ name, layout, sources, host }: OpenedInstance): Promise<DoctorFinding[]> {
  const { testModel } = await import('../model/test-call.ts')
  const shared = await host.engine.read((tx) => readSharedModels(tx, { keyring: host.keyring, sources }))
  const findings: DoctorFinding[] = []
  for (const { config, folders } of shared) {
    const [folder = 'main'] = folders
    if (config.runtime === 'demo' || findModelFaults(config, groupDirs(layout, folder).home).length > 0) continue
    const next = `svc model ${name}${config.folder === undefined ? '' : ` ${config.folder}`}`
    findings.push(await attempt(describe(config), next, () => testModel(host, layout, { ...config, folder })))
  }
  return findings
}

async function attempt(model: string, next: string, call: () => Promise<{ ms: number }>): Promise<DoctorFinding> {
  const check = 'model call'
  try {
    const { ms } = await call()
    return { check, status: 'ok', detail: `${model} answers in ${(ms / 1000).toFixed(1)} s` }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return { check, status: 'wrong', detail: error.message, next }
  }
}

/** Groups without a word of their own share the configuration of the instance. */
async function readSharedModels(tx: Tx, reading: Omit<ModelConfigQuery, 'folder'>): Promise<SharedModel[]> {
  const all = await groups.list(tx)
  const variables = new Set(MODEL_FAMILIES.flat())
  const owners = new Set(
    (await secrets.list(tx, { scope_kind: 'folder' }))
      .filter(({ key }) => variables.has(key))
      .map(({ owner }) => owner),
  )
  const isSpecial = ({ folder, config }: (typeof all)[number]): boolean =>
    config !== undefined || selfAndAncestors(folder).some((each) => owners.has(each))
  const plain = all.filter((group) => !isSpecial(group)).map(({ folder }) => folder)
  const shared: SharedModel[] = plain.length > 0 ? [{ config: await readModelConfig(tx, reading), folders: plain }] : []
  for (const { folder } of all.filter(isSpecial)) {
    const config = await readModelConfig(tx, { ...reading, folder })
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

const NAMED = 3

function formatFolders(folders: readonly string[]): string {
  const more = folders.length - NAMED
  return `${folders.slice(0, NAMED).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

function describe({ runtime, model, endpoint, command, program }: ModelConfig): string {
  if (runtime === 'openai') return `${model} at ${endpoint}`
  if (runtime === 'claude') return `${program}${model === undefined ? '' : ` with ${model}`}`
  return runtime === 'command' ? `the program ${JSON.stringify(command)}` : 'the built-in demo'
}
