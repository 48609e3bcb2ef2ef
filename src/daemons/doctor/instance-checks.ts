// The checks of `svc doctor` that a running process can make of its own instance, for the dashboard. They run at once, each
// with a time limit, and change nothing.
import { listNearBudgets } from '../../core/turns/spend.ts'
import { timestamp } from '../../lib/clock.ts'
import { readSettings, type SettingSource } from '../../lib/settings.ts'
import type { InstanceHost } from '../../registry/context.ts'
import type { Tx } from '../../store/engine.ts'
import { integer, queryOne } from '../../store/statement.ts'
import type { ProcessStatus } from '../../supervisor/messages.ts'
import { readProviderSettings } from '../provider-settings.ts'
import { INSTANCE_SETTINGS, LINK_SETTINGS, mustBeServable, RETENTION_SETTINGS } from '../settings.ts'
import { listSettingsInForce } from '../settings-in-force.ts'
import { type AdapterState, checkAdapters } from './adapter-check.ts'
import { checkAgents } from './agent-check.ts'
import { asNote, type DoctorFinding, makeFinding, runCheck } from './findings.ts'
import { checkLosses } from './loss-check.ts'
import { checkModels, checkPrices } from './model-checks.ts'
import { checkProcesses } from './process-check.ts'
import { checkStoreContents, readStoreContents } from './store-checks.ts'
import { checkStoredSettings } from './stored-settings-check.ts'

export interface InstanceCheckOptions {
  readonly host: InstanceHost
  /** Of the start, and as they are now. */
  readonly sources: readonly SettingSource[]
  readonly current: readonly SettingSource[]
  /** Throws if the store does not work. */
  readonly health: () => Promise<void>
  /** Whether agents run in this process, whose settings and machine are then theirs. */
  readonly hasAgents: boolean
  /** The processes of the instance; undefined if its daemons run in this one. */
  readonly processes?: readonly ProcessStatus[] | undefined
  /** As the caller may see them. */
  readonly adapters: () => Promise<AdapterState>
  readonly limitMs?: number
}

const LIMIT_MS = 5000

type Check = readonly [name: string, run: () => Promise<readonly DoctorFinding[]>]

/** In a fixed order. */
export async function checkInstance(options: InstanceCheckOptions): Promise<DoctorFinding[]> {
  const { limitMs = LIMIT_MS, host } = options
  const found = await Promise.all(
    checksOf(options).map(([name, run]) => withTimeLimit(name, run, { limitMs, instance: host.instance })),
  )
  return found.flat()
}

function checksOf(options: InstanceCheckOptions): readonly Check[] {
  const { host, sources, current, health, hasAgents, adapters } = options
  const { layout, instance, engine, clock } = host
  return [
    ['store', one('store', () => checkHealth(health))],
    ['lost rows', () => checkLosses(engine, instance)],
    ['processes', async () => checkProcesses(options.processes)],
    ['settings', one('settings', async () => checkSettings(sources, current))],
    [
      'stored settings',
      one('stored settings', async () => {
        const stored = await engine.read((tx) => host.storedSettings.read(tx))
        return checkStoredSettings(stored, current, instance)
      }),
    ],
    [
      'agents',
      one('agents', async () =>
        hasAgents && layout ? checkAgents({ layout, sources }) : elsewhere('agents', `svc doctor ${instance}`),
      ),
    ],
    [
      'models',
      one('models', async () =>
        hasAgents && layout
          ? checkModels(engine, { instance, layout, keyring: host.keyring, sources: current })
          : elsewhere('models', `svc doctor ${instance}`),
      ),
    ],
    ['adapters', one('adapters', async () => checkAdapters(await adapters(), instance))],
    [
      'prices',
      one('prices', async () =>
        hasAgents && layout
          ? checkPrices(engine, { instance, keyring: host.keyring, sources: current })
          : elsewhere('prices', `svc doctor ${instance}`),
      ),
    ],
    ['budgets', one('budgets', () => engine.read((tx) => checkBudgets(tx, instance, timestamp(clock.now()))))],
    ['rows', () => checkRows(options)],
  ]
}

function one(name: string, work: () => Promise<DoctorFinding>): Check[1] {
  return async () => [await runCheck(name, work)]
}

async function withTimeLimit(
  name: string,
  run: Check[1],
  { limitMs, instance }: { readonly limitMs: number; readonly instance: string },
): Promise<readonly DoctorFinding[]> {
  const late = Promise.withResolvers<readonly DoctorFinding[]>()
  const detail = `not known: the check took longer than ${limitMs / 1000} s`
  const timer = setTimeout(
    () => late.resolve([{ check: name, status: 'note', detail, next: `svc doctor ${instance}` }]),
    limitMs,
  )
  const running = run()
  // A check that fails after its limit has no reader.
  running.catch(() => {})
  try {
    return await Promise.race([running, late.promise])
  } finally {
    clearTimeout(timer)
  }
}

function elsewhere(check: string, next: string): DoctorFinding {
  return { check, status: 'note', detail: 'not known here: another process runs them', next }
}

async function checkHealth(health: () => Promise<void>): Promise<DoctorFinding> {
  await health()
  return { check: 'store', status: 'ok', detail: 'can be read and written' }
}

function checkSettings(sources: readonly SettingSource[], current: readonly SettingSource[]): DoctorFinding {
  mustBeServable(current)
  readProviderSettings(current)
  const changed = listSettingsInForce(sources, current).filter(({ needsRestart }) => needsRestart)
  const faults = changed.map(({ key }) => `${key} has changed since the start`)
  return asNote(makeFinding('settings', faults, 'all are valid', 'restart svc to use them'))
}

/** Turns of a folder whose budget is spent wait until the next day. */
async function checkBudgets(tx: Tx, instance: string, now: string): Promise<DoctorFinding> {
  const sql = 'select count(*) as count from groups where cost_cap_cents_per_day is not null'
  const { count } = await queryOne(tx, { count: integer }, sql)
  const near = (await listNearBudgets(tx, {}, now)).filter(({ by }) => by === 'folder')
  const faults = near.map(({ name: folder, cap, spent, status }) => {
    const isSpent = status === 'EXHAUSTED'
    const fault = `${folder} has spent ${spent} of ${cap} cents today${isSpent ? ': its messages are refused' : ''}`
    return { folder, fault, isSpent }
  })
  const finding = makeFinding(
    'budgets',
    faults.map(({ fault }) => fault),
    count === 0 ? 'no folder has a daily budget' : `none is nearly spent (${count})`,
    `svc budget ${instance} set folder ${faults[0]?.folder} --daily <cents>`,
  )
  return faults[0]?.isSpent ? finding : asNote(finding)
}

async function checkRows({ host, sources, current }: InstanceCheckOptions): Promise<DoctorFinding[]> {
  const { layout, engine, instance, clock, timeZone } = host
  if (!layout) return [elsewhere('rows', `svc doctor ${instance}`)]
  const { LINK_QUOTA, FOLDER_QUOTA } = readSettings(LINK_SETTINGS, sources)
  const { DATABASE_URL, SECRETS_KEY } = readSettings(INSTANCE_SETTINGS, sources)
  const quotas = { chat: LINK_QUOTA, folder: FOLDER_QUOTA }
  const keep = readSettings(RETENTION_SETTINGS, current)
  const nowMs = clock.now()
  const rows = await engine.read((tx) => readStoreContents(tx, { quotas, keep, timeZone, nowMs }))
  const isShared = DATABASE_URL !== undefined
  return checkStoreContents({ ...rows, instance, layout, secretsKey: SECRETS_KEY, nowMs, isShared })
}
