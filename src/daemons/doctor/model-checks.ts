// Checks of models: whether the settings of each group are complete and, for `svc doctor --online`, whether a call succeeds.
import { groupDirs, type Layout } from '../../core/layout.ts'
import type { Keyring } from '../../core/secrets/keyring.ts'
import type { SettingSource } from '../../lib/settings.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { Engine } from '../../store/engine.ts'
import { describeModel } from '../models/model-config.ts'
import { findModelFaults } from '../models/model-faults.ts'
import {
  findUncountedModels,
  formatFolders,
  listIdleCaps,
  readSharedModels,
  suggestPriceCommand,
} from '../models/shared-models.ts'
import { type DoctorFinding, makeFinding, runCheck } from './findings.ts'

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

/** A cap cannot limit turns whose cost is not known. */
export async function checkPrices(
  engine: Engine,
  { instance, ...query }: Omit<ModelCheckOptions, 'layout'>,
): Promise<DoctorFinding> {
  const check = 'prices'
  return engine.read(async (tx) => {
    const caps = await listIdleCaps(tx, query)
    if (caps.length === 0) return { check, status: 'ok', detail: 'no cap depends on a price that is not known' }
    const models = await findUncountedModels(tx, query)
    const idle = `caps that do not limit all turns: ${formatFolders(caps)}`
    return makeFinding(
      check,
      [idle, ...models.map(({ sentence }) => sentence)],
      '',
      suggestPriceCommand(instance, models[0]?.folder),
    )
  })
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
