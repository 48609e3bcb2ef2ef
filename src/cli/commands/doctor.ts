// Checks an instance and suggests a command for each fault. Without --fix it changes nothing, not even the schema.

import { access, constants, stat } from 'node:fs/promises'
import { checkAgents } from '../../daemons/doctor/agent-check.ts'
import { type DoctorFinding, makeFinding, runCheck } from '../../daemons/doctor/findings.ts'
import { checkLosses } from '../../daemons/doctor/loss-check.ts'
import { checkProcesses } from '../../daemons/doctor/process-check.ts'
import { checkStoreContents, readStoreContents } from '../../daemons/doctor/store-checks.ts'
import { servingProcesses } from '../../daemons/process/presence.ts'
import { readProviderSettings } from '../../daemons/provider-settings.ts'
import { INSTANCE_SETTINGS, LINK_SETTINGS, mustBeServable, RETENTION_SETTINGS } from '../../daemons/settings.ts'
import { engineSocketOf } from '../../deploy/compose-command.ts'
import { readText } from '../../lib/files/atomic-file.ts'
import { ENV_MAX_BYTES } from '../../lib/files/env-file.ts'
import { refuse } from '../../lib/refusal.ts'
import { readSettings } from '../../lib/settings.ts'
import type { Engine } from '../../store/engine.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { checkDeployment } from '../doctor/deployment-checks.ts'
import { checkDirectories, checkLeftoverFiles, checkRootFiles, envModeFix, privacyFix } from '../doctor/file-checks.ts'
import {
  type ConfiguredInstance,
  type InstanceLocation,
  loadInstanceConfig,
  locateInstance,
  mustFindInstanceDirectory,
  storeAddress,
} from '../instance/instance.ts'

const MARKS = { ok: ['✓', 'green'], note: ['!', 'yellow'], wrong: ['✗', 'red'] } as const
/** Enough for the sockets, files and streams of a small instance. */
const DESCRIPTORS_MIN = 4096

export const doctorCommands = [
  defineSvcCommand({
    usage: 'doctor <instance> [--online] [--sandbox] [--fix] [--yes|-y] [--json]',
    about:
      'check directory, settings, models, adapters, store, rows and machine; --online also calls each model once; --sandbox only starts the sandbox of agents; --fix corrects modes and directories and asks before it removes leftover files, --yes does not ask; exits with 1 if something is wrong',
    example: 'doctor demo --online',
    run: async (svc, { instance, online, sandbox, fix, yes }) => {
      if (yes && !fix) refuse('invalid', '--yes confirms what --fix removes', 'add --fix')
      if (sandbox && (fix || online)) refuse('invalid', `--sandbox does not go with --${fix ? 'fix' : 'online'}`)
      await svc.mustBeLocal()
      const location = locateInstance(instance, svc.io.environment)
      const findings = sandbox
        ? [await runCheck('agents', async () => checkAgents(await svc.findInstance()))]
        : [...(fix ? await fixAll(svc, location, yes) : []), ...(await runChecks(svc, location, online))]
      showFindings(svc, findings)
      return hasFault(findings) ? 1 : 0
    },
  }),
]

async function fixAll(svc: SvcContext, location: InstanceLocation, isConfirmed: boolean): Promise<DoctorFinding[]> {
  const { applyFixes } = await import('../doctor/fixes.ts')
  return applyFixes(svc, await runChecks(svc, location, false), isConfirmed)
}

function showFindings({ print, showCommands }: SvcContext, findings: readonly DoctorFinding[]): void {
  const shown = findings.map(({ fix: _fix, next, ...finding }) => ({
    ...finding,
    ...(next === undefined ? {} : { next: showCommands(next) }),
  }))
  if (print.json) print.record({}, shown)
  else
    for (const { check, status, detail, next } of shown) {
      const [mark, colour] = MARKS[status]
      print.line(`${print.paint(colour, mark)} ${check}: ${detail}`)
      if (next !== undefined) print.line(`    → ${next}`)
    }
}

/** Each check depends on the earlier ones: checks that cannot run are left out. */
async function runChecks(svc: SvcContext, location: InstanceLocation, isOnline: boolean): Promise<DoctorFinding[]> {
  const findings = [await runCheck('directory', () => checkDirectory(location, svc))]
  if (hasFault(findings)) return findings
  findings.push(await runCheck('.env', () => checkEnv(location)))
  const settings = await runCheck('settings', () => checkSettings(location, svc))
  findings.push(settings, ...(await checkKeys(location)), await checkDescriptors())
  if (settings.status === 'wrong') return findings
  const configured = await loadInstanceConfig(location, svc.io.environment)
  findings.push(
    await checkTimeZone(configured.settings.TZ, configured),
    await runCheck('directories', () => checkDirectories(configured.layout)),
    await runCheck('privacy', () => checkPrivacy(configured)),
    await runCheck('files', () => checkLeftoverFiles(configured, svc.io.clock.now())),
    await runCheck('root files', () => checkRootFiles(configured)),
    ...checkProcesses((await servingProcesses(configured.layout))?.flatMap(({ processes = [] }) => processes)),
    ...(await checkDeployment(configured, engineSocketOf(svc.io.environment.get('DOCKER_HOST')))),
    await runCheck('agents', () => checkAgents(configured)),
    ...(await runStoreChecks(configured, svc.io.clock.now())),
  )
  // A call needs the instance open, which a wrong store or time zone prevents.
  if (isOnline && !findings.some(({ check, status }) => status === 'wrong' && PRECONDITIONS.has(check))) {
    const { checkModelCalls } = await import('../../daemons/doctor/model-checks.ts')
    const opened = await svc.open()
    findings.push(...(await checkModelCalls(opened.host, opened)))
  }
  return findings
}

const PRECONDITIONS: ReadonlySet<string> = new Set(['store', 'schema', 'time zone'])

function hasFault(findings: readonly DoctorFinding[]): boolean {
  return findings.some(({ status }) => status === 'wrong')
}

async function checkDirectory(location: InstanceLocation, svc: SvcContext): Promise<DoctorFinding> {
  const { root } = location.layout
  await mustFindInstanceDirectory(location, svc.io.environment)
  const isWritable = await access(root, constants.R_OK | constants.W_OK | constants.X_OK).then(
    () => true,
    () => false,
  )
  const faults = isWritable ? [] : [`this user cannot read and write ${root}`]
  return makeFinding('directory', faults, root, `sudo chown -R "$USER" ${root}`)
}

async function checkEnv({ layout: { env } }: InstanceLocation): Promise<DoctorFinding> {
  const mode = await stat(env).then(
    (stats) => stats.mode & 0o777,
    () => undefined,
  )
  if (mode === undefined)
    return { check: '.env', status: 'note', detail: `there is no ${env}: all settings come from the environment` }
  if ((mode & 0o077) === 0) return { check: '.env', status: 'ok', detail: env }
  const detail = `${env} contains secrets and other users can access it (mode ${mode.toString(8)})`
  return { check: '.env', status: 'wrong', detail, next: `chmod 600 ${env}`, fix: envModeFix(env) }
}

async function checkPrivacy({ layout }: ConfiguredInstance): Promise<DoctorFinding> {
  const { isOpenToOthers, privateDirectories } = await import('../../core/groups/private-directories.ts')
  const open: string[] = []
  for (const path of privateDirectories(layout)) if (await isOpenToOthers(layout, path)) open.push(path)
  const faults = open.length === 0 ? [] : [`other users of this machine can read ${open.join(' and ')}`]
  const finding = makeFinding(
    'privacy',
    faults,
    'other users cannot read the workspaces',
    `chmod 700 ${open.join(' ')}`,
  )
  return open.length === 0 ? finding : { ...finding, fix: privacyFix(layout, open) }
}

async function checkSettings(location: InstanceLocation, svc: SvcContext): Promise<DoctorFinding> {
  const { sources, warnings } = await loadInstanceConfig(location, svc.io.environment)
  mustBeServable(sources)
  readProviderSettings(sources)
  const unknown = warnings.filter((warning) => warning.includes('unknown key'))
  if (unknown.length > 0) return { check: 'settings', status: 'note', detail: unknown.join('; ') }
  return { check: 'settings', status: 'ok', detail: 'all are valid' }
}

/** Reports keys that the restored backup left out and the operator has not added since. */
async function checkKeys({ layout: { env } }: InstanceLocation): Promise<DoctorFinding[]> {
  const { missingKeys } = await import('../backup/settings-redaction.ts')
  const text = await readText(env, ENV_MAX_BYTES).catch(() => '')
  const missing = missingKeys(text, env)
  if (missing.length === 0) return []
  const detail = `left out of the backup that this instance was restored from: ${missing.join(', ')}`
  return [{ check: 'keys', status: 'wrong', detail, next: `add them to ${env}` }]
}

async function checkTimeZone(tz: string | undefined, { layout }: ConfiguredInstance): Promise<DoctorFinding> {
  const { timeZoneOf } = await import('../../core/schedule/schedule.ts')
  return runCheck(
    'time zone',
    async () => ({ check: 'time zone', status: 'ok', detail: timeZoneOf(tz) }),
    `set TZ=Europe/Berlin or TZ=UTC in ${layout.env}`,
  )
}

/** Checks the hard limit, to which Node raises its soft limit. Only Linux has this file. */
async function checkDescriptors(): Promise<DoctorFinding> {
  const text = await readText('/proc/self/limits', 65_536).catch(() => '')
  const limit = /^Max open files\s+\S+\s+(\S+)/m.exec(text)?.[1]
  const isEnough = limit === undefined || limit === 'unlimited' || Number(limit) >= DESCRIPTORS_MIN
  if (isEnough) return { check: 'descriptors', status: 'ok', detail: limit ?? 'limit unknown' }
  const detail = `only ${limit} files can be open at once; ${DESCRIPTORS_MIN} are recommended`
  return { check: 'descriptors', status: 'note', detail, next: `ulimit -Hn ${DESCRIPTORS_MIN}` }
}

async function runStoreChecks(configured: ConfiguredInstance, nowMs: number): Promise<DoctorFinding[]> {
  const { openEngine } = await import('../../store/index.ts')
  const findings: DoctorFinding[] = []
  let engine: Engine | undefined
  findings.push(
    await runCheck('store', async () => {
      engine = await openEngine(storeAddress(configured))
      return checkStore(engine, configured)
    }),
  )
  if (!engine) return findings
  try {
    if (hasFault(findings)) return findings
    const losses = await checkLosses(engine, configured.name)
    return [...findings, ...losses, ...(await runRowChecks(engine, configured, nowMs))]
  } finally {
    await engine.close()
  }
}

async function checkStore(engine: Engine, { layout, settings }: ConfiguredInstance): Promise<DoctorFinding> {
  if (settings.DATABASE_URL !== undefined) return { check: 'store', status: 'ok', detail: 'PostgreSQL answers' }
  const { query, text } = await import('../../store/statement.ts')
  const [row] = await engine.read((tx) => query(tx, { quick_check: text }, 'pragma quick_check(1)'))
  const faults = row?.quick_check === 'ok' ? [] : [`${layout.store} is damaged: ${row?.quick_check}`]
  return makeFinding('store', faults, `${layout.store} is intact`, 'restore it from a backup')
}

async function runRowChecks(engine: Engine, configured: ConfiguredInstance, nowMs: number): Promise<DoctorFinding[]> {
  const { name, layout, settings } = configured
  const { PRODUCT_TABLES } = await import('../../daemons/tables.ts')
  const { countPendingSteps } = await import('../../store/migrate.ts')
  const schema = await runCheck('schema', async () => {
    const behind = await countPendingSteps(engine, PRODUCT_TABLES)
    const faults = behind === 0 ? [] : [`${behind} ${behind === 1 ? 'step' : 'steps'} behind this version`]
    return makeFinding('schema', faults, 'up to date', `svc group ${name} list makes a copy and migrates it`)
  })
  if (schema.status === 'wrong') return [schema]
  const { openKeyring } = await import('../../core/secrets/keyring.ts')
  const { StoredSettingsReader } = await import('../../core/settings/stored-settings.ts')
  const { parseFixedSettings, settingRules } = await import('../../daemons/setting-rules.ts')
  const { checkStoredSettings } = await import('../../daemons/doctor/stored-settings-check.ts')
  const keyring = openKeyring(settings.SECRETS_KEY)
  const reader = new StoredSettingsReader(keyring, settingRules(parseFixedSettings(settings.SETTINGS_FIXED)))
  const stored = await engine.read((tx) => reader.read(tx))
  const sources = [stored, ...configured.sources]
  const { LINK_QUOTA, FOLDER_QUOTA } = readSettings(LINK_SETTINGS, sources)
  const quotas = { chat: LINK_QUOTA, folder: FOLDER_QUOTA }
  const keep = readSettings(RETENTION_SETTINGS, sources)
  const { TZ } = readSettings({ TZ: INSTANCE_SETTINGS.TZ }, sources)
  const zone = await checkTimeZone(TZ, configured)
  const timeZone = zone.status === 'ok' ? zone.detail : 'UTC'
  const rows = await engine.read((tx) => readStoreContents(tx, { quotas, keep, timeZone, nowMs }))
  const isShared = settings.DATABASE_URL !== undefined
  const contents = { ...rows, instance: name, layout, secretsKey: settings.SECRETS_KEY, nowMs, isShared }
  const { checkModels, checkPrices } = await import('../../daemons/doctor/model-checks.ts')
  const options = { instance: name, layout, sources, keyring }
  const models = await runCheck('models', async () => checkModels(engine, options))
  const prices = await runCheck('prices', async () => checkPrices(engine, options))
  const { checkAdapters } = await import('../../daemons/doctor/adapter-check.ts')
  const { readChannels } = await import('../../resources/channel-registrations.ts')
  const channels = await engine.read((tx) => readChannels(tx, keyring, nowMs))
  const adapters = checkAdapters(channels, name)
  const found = [schema, checkStoredSettings(stored, sources, name), models, adapters, prices]
  return [...found, ...(await checkStoreContents(contents))]
}
