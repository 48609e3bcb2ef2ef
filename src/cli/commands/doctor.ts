// Says whether an instance is well, and for what is not, the command to type. It changes nothing, not even the schema.
import { access, constants, stat } from 'node:fs/promises'
import { CELL_SETTINGS } from '../../cell/settings.ts'
import { ALL_SETTINGS, LINK_SETTINGS } from '../../daemons/settings.ts'
import { readText } from '../../lib/files/atomic-file.ts'
import { Refusal } from '../../lib/refusal.ts'
import { readSettings } from '../../lib/settings.ts'
import { RUNTIME_SETTINGS } from '../../runtimes/settings.ts'
import type { Engine } from '../../store/engine.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { checkStoreContents, type DoctorFinding, readStoreContents } from '../doctor/store-checks.ts'
import {
  type ConfiguredInstance,
  ENV_MAX_BYTES,
  type InstanceLocation,
  loadInstanceConfig,
  locateInstance,
  mustFindInstanceDirectory,
  storeAddress,
} from '../instance/instance.ts'

const MARKS = { ok: ['✓', 'green'], note: ['!', 'yellow'], wrong: ['✗', 'red'] } as const
/** Sockets, files and streams of a small instance, with room. */
const DESCRIPTORS = 4096

export const doctorCommands = [
  defineSvcCommand({
    usage: 'doctor <instance> [--online] [--json]',
    about:
      'check directory, settings, models, store, rows and machine; --online also calls each model once; exit 1 when something is wrong',
    example: 'doctor demo --online',
    run: async (svc, { instance, online }) => {
      const findings = await runChecks(svc, locateInstance(instance, svc.io.environment), online)
      show(svc, findings)
      return findings.some(({ status }) => status === 'wrong') ? 1 : 0
    },
  }),
]

function show({ print }: SvcContext, findings: readonly DoctorFinding[]): void {
  if (print.json) print.record({}, findings)
  else
    for (const { check, status, detail, next } of findings) {
      const [mark, colour] = MARKS[status]
      print.line(`${print.paint(colour, mark)} ${check}: ${detail}`)
      if (next !== undefined) print.line(`    → ${next}`)
    }
}

/** In the order in which one rests on the other: what cannot be looked at is left out. */
async function runChecks(svc: SvcContext, location: InstanceLocation, isOnline: boolean): Promise<DoctorFinding[]> {
  const findings = [await attempt('directory', () => checkDirectory(location, svc))]
  if (isWrong(findings)) return findings
  findings.push(await attempt('.env', () => checkEnv(location)))
  const settings = await attempt('settings', () => checkSettings(location, svc))
  findings.push(settings, ...(await checkKeys(location)), await checkDescriptors())
  if (settings.status === 'wrong') return findings
  const zone = await attempt('time zone', () => checkTimeZone(location, svc))
  findings.push(zone)
  findings.push(await attempt('privacy', () => checkPrivacy(location, svc)))
  findings.push(await attempt('agents', () => checkAgents(location, svc)))
  const configured = await loadInstanceConfig(location, svc.io.environment)
  findings.push(...(await runStoreChecks(configured, svc.io.clock.now())))
  // A call needs the instance open, which a wrong store or time zone prevents.
  if (isOnline && !findings.some(({ check, status }) => status === 'wrong' && PRECONDITIONS.has(check))) {
    const { checkModelCalls } = await import('../doctor/model-checks.ts')
    findings.push(...(await checkModelCalls(await svc.open())))
  }
  return findings
}

const PRECONDITIONS: ReadonlySet<string> = new Set(['store', 'schema', 'time zone'])

function isWrong(findings: readonly DoctorFinding[]): boolean {
  return findings.some(({ status }) => status === 'wrong')
}

async function attempt(check: string, work: () => Promise<DoctorFinding>): Promise<DoctorFinding> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const { message, hint } = error
    return { check, status: 'wrong', detail: message, ...(hint === undefined ? {} : { next: hint }) }
  }
}

async function checkDirectory(location: InstanceLocation, svc: SvcContext): Promise<DoctorFinding> {
  const { root } = location.layout
  await mustFindInstanceDirectory(location, svc.io.environment)
  const isWritable = await access(root, constants.R_OK | constants.W_OK | constants.X_OK).then(
    () => true,
    () => false,
  )
  if (isWritable) return { check: 'directory', status: 'ok', detail: root }
  const detail = `${root} cannot be written by this user`
  return { check: 'directory', status: 'wrong', detail, next: `sudo chown -R "$USER" ${root}` }
}

async function checkEnv({ layout: { env } }: InstanceLocation): Promise<DoctorFinding> {
  const mode = await stat(env).then(
    (stats) => stats.mode & 0o777,
    () => undefined,
  )
  if (mode === undefined)
    return { check: '.env', status: 'note', detail: `there is no ${env}: all is set by the environment` }
  if ((mode & 0o077) === 0) return { check: '.env', status: 'ok', detail: env }
  const detail = `${env} holds secrets and others can open it (mode ${mode.toString(8)})`
  return { check: '.env', status: 'wrong', detail, next: `chmod 600 ${env}` }
}

async function checkPrivacy(location: InstanceLocation, svc: SvcContext): Promise<DoctorFinding> {
  const { layout } = await loadInstanceConfig(location, svc.io.environment)
  const { isOpenToOthers, privateDirectories } = await import('../../core/groups/private-directories.ts')
  const open: string[] = []
  for (const path of privateDirectories(layout)) if (await isOpenToOthers(layout, path)) open.push(path)
  if (open.length === 0) return { check: 'privacy', status: 'ok', detail: 'other users cannot read the workspaces' }
  const detail = `other users of this machine can read ${open.join(' and ')}`
  return { check: 'privacy', status: 'wrong', detail, next: `chmod 700 ${open.join(' ')}` }
}

async function checkSettings(location: InstanceLocation, svc: SvcContext): Promise<DoctorFinding> {
  const { sources, warnings } = await loadInstanceConfig(location, svc.io.environment)
  readSettings(ALL_SETTINGS, sources)
  const odd = warnings.filter((warning) => warning.includes('unknown key'))
  if (odd.length > 0) return { check: 'settings', status: 'note', detail: odd.join('; ') }
  return { check: 'settings', status: 'ok', detail: 'all can be read' }
}

/** Keys that a backup without them has left out, and that the operator has not supplied since. */
async function checkKeys({ layout: { env } }: InstanceLocation): Promise<DoctorFinding[]> {
  const { missingKeys } = await import('../backup/settings-redaction.ts')
  const text = await readText(env, ENV_MAX_BYTES).catch(() => '')
  const missing = missingKeys(text, env)
  if (missing.length === 0) return []
  const detail = `${missing.join(', ')} left out of the backup that this instance was restored from`
  return [{ check: 'keys', status: 'wrong', detail, next: `write them into ${env}` }]
}

async function checkTimeZone(location: InstanceLocation, svc: SvcContext): Promise<DoctorFinding> {
  const { settings, layout } = await loadInstanceConfig(location, svc.io.environment)
  const { timeZoneOf } = await import('../../core/schedule/schedule.ts')
  try {
    return { check: 'time zone', status: 'ok', detail: timeZoneOf(settings.TZ) }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return {
      check: 'time zone',
      status: 'wrong',
      detail: error.message,
      next: `set TZ=Europe/Berlin or TZ=UTC in ${layout.env}`,
    }
  }
}

/** The hard limit, to which Node raises itself. Other systems than Linux do not say it in a file. */
async function checkDescriptors(): Promise<DoctorFinding> {
  const text = await readText('/proc/self/limits', 65_536).catch(() => '')
  const limit = /^Max open files\s+\S+\s+(\S+)/m.exec(text)?.[1]
  const isEnough = limit === undefined || limit === 'unlimited' || Number(limit) >= DESCRIPTORS
  if (isEnough) return { check: 'descriptors', status: 'ok', detail: limit ?? 'not known here' }
  const detail = `only ${limit} files may be open at once; ${DESCRIPTORS} are better`
  return { check: 'descriptors', status: 'note', detail, next: `ulimit -Hn ${DESCRIPTORS}` }
}

/** Who agents are, what they can see and reach, and whether a cell can be made here. */
async function checkAgents(location: InstanceLocation, svc: SvcContext): Promise<DoctorFinding> {
  const { sources } = await loadInstanceConfig(location, svc.io.environment)
  const settings = readSettings({ ...CELL_SETTINGS, AGENT_RUNTIME: RUNTIME_SETTINGS.AGENT_RUNTIME }, sources)
  const { describeCells } = await import('../../cell/describe.ts')
  const { openCell } = await import('../../cell/open-cell.ts')
  try {
    const cell = await openCell({ settings, ...location.layout })
    cell.close()
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'unavailable') throw error
    // The demo needs no cell.
    const status = settings.AGENT_RUNTIME === 'demo' ? 'note' : 'wrong'
    return { check: 'agents', status, detail: `agents cannot run in cells: ${error.message}`, next: error.hint ?? '' }
  }
  const { user, files, network } = describeCells(settings)
  const detail = `run as ${user}; see ${files}; reach ${network}`
  if (settings.SANDBOX === 'bwrap' && settings.NETWORK === 'rules') return { check: 'agents', status: 'ok', detail }
  return { check: 'agents', status: 'note', detail, next: 'remove SANDBOX=none and NETWORK=open from .env' }
}

async function runStoreChecks(configured: ConfiguredInstance, nowMs: number): Promise<DoctorFinding[]> {
  const { openEngine } = await import('../../store/index.ts')
  const findings: DoctorFinding[] = []
  let engine: Engine | undefined
  findings.push(
    await attempt('store', async () => {
      engine = await openEngine(storeAddress(configured))
      return checkStore(engine, configured)
    }),
  )
  if (!engine) return findings
  try {
    if (!isWrong(findings)) findings.push(...(await runRowChecks(engine, configured, nowMs)))
    return findings
  } finally {
    await engine.close()
  }
}

async function checkStore(engine: Engine, { layout, settings }: ConfiguredInstance): Promise<DoctorFinding> {
  if (settings.DATABASE_URL !== undefined) return { check: 'store', status: 'ok', detail: 'PostgreSQL answers' }
  const { query, text } = await import('../../store/statement.ts')
  const [row] = await engine.read((tx) => query(tx, { quick_check: text }, 'pragma quick_check(1)'))
  const verdict = row?.quick_check
  if (verdict === 'ok') return { check: 'store', status: 'ok', detail: `${layout.store} is sound` }
  const detail = `${layout.store} is damaged: ${verdict}`
  return { check: 'store', status: 'wrong', detail, next: 'restore it from a backup' }
}

async function runRowChecks(engine: Engine, configured: ConfiguredInstance, nowMs: number): Promise<DoctorFinding[]> {
  const { name, layout, settings, sources } = configured
  const { PRODUCT_TABLES } = await import('../../daemons/tables.ts')
  const { pendingSteps } = await import('../../store/migrate.ts')
  const schema = await attempt('schema', async () => {
    const behind = await pendingSteps(engine, PRODUCT_TABLES)
    if (behind === 0) return { check: 'schema', status: 'ok', detail: 'up to date' }
    const detail = `${behind} steps behind this version`
    return {
      check: 'schema',
      status: 'wrong',
      detail,
      next: `svc group ${name} list brings it up to date, after a copy`,
    }
  })
  if (schema.status === 'wrong') return [schema]
  const { LINK_QUOTA, FOLDER_QUOTA } = readSettings(LINK_SETTINGS, sources)
  const kept = await engine.read((tx) => readStoreContents(tx, { chat: LINK_QUOTA, folder: FOLDER_QUOTA }))
  const isShared = settings.DATABASE_URL !== undefined
  const contents = { ...kept, instance: name, layout, secretsKey: settings.SECRETS_KEY, nowMs, isShared }
  const { checkModels } = await import('../doctor/model-checks.ts')
  const models = await attempt('models', () => checkModels(engine, configured))
  return [schema, models, ...(await checkStoreContents(contents))]
}
