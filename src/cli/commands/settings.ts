// Shows and changes the settings of an instance.
import type { SettingInForce } from '../../daemons/settings-in-force.ts'
import { throwUsageError } from '../../lib/command-line/program.ts'
import { refuse } from '../../lib/refusal.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import { readStdinText } from '../input/stdin.ts'

const VALUE_MAX_BYTES = 65_536

export const settingsCommands = [
  defineSvcCommand({
    usage: 'settings <instance> [--set] [--json]',
    about:
      'list every setting with its value, where that comes from, and what it is for; never secrets; --set: only those that are set',
    example: 'settings demo --set',
    run: async (svc, { set }) => {
      const { sources } = await openLocal(svc)
      const { listSettingsInForce } = await import('../../daemons/settings-in-force.ts')
      // A new process reads them, so none of them waits for a restart.
      const listed = listSettingsInForce(sources).map(({ needsRestart: _, ...setting }) => setting)
      svc.print.table({
        rows: set ? listed.filter(({ isDefault }) => !isDefault) : listed,
        columns: {
          SETTING: ({ key }) => key,
          VALUE: ({ isSecret, value }) => (isSecret ? '(secret)' : (value ?? '-')),
          ORIGIN: ({ origin }) => origin,
          ABOUT: ({ about, fault }) => fault ?? about,
        },
        empty: 'no setting is set: all have their defaults',
      })
    },
  }),
  defineSvcCommand({
    usage: 'settings <instance> show <key> [--json]',
    about: 'show one setting: its value, where that comes from, and how a change takes effect',
    example: 'settings demo show MAX_CONCURRENT_TURNS',
    run: async (svc, { key }) => {
      const { needsRestart: _, ...setting } = await findSettingInForce(svc, key)
      const { isSecret, value, origin, overrides, initial, about, fault } = setting
      const origins = overrides === undefined ? origin : `${origin}, which overrides ${overrides}`
      svc.print.record(
        {
          setting: key,
          value: isSecret ? '(secret)' : (value ?? '-'),
          origin: origins,
          default: initial ?? '-',
          change: CHANGES[setting.change],
          about,
          ...(fault === undefined ? {} : { fault }),
        },
        setting,
      )
    },
  }),
  defineSvcCommand({
    usage: 'settings <instance> set <key> <value> [--json]',
    about:
      'set a setting in the store, which takes precedence over .env; - reads the value from stdin, as secrets need',
    example: 'settings demo set MAX_CONCURRENT_TURNS 8',
    run: async (svc, { key, value }) => {
      const { isSecretSetting } = await import('../../core/secrets/secret-settings.ts')
      await svc.mustBeLocal()
      if (value !== '-' && isSecretSetting(key, value))
        throwUsageError(
          'a secret on the command line would stay in the shell history: - reads it from stdin',
          `svc settings ${(await svc.open()).name} set ${key} - < file`,
        )
      const text = value === '-' ? (await readStdinText(svc.io.stdin, VALUE_MAX_BYTES)).replace(/\r?\n$/, '') : value
      await save(svc, key, text)
    },
  }),
  defineSvcCommand({
    usage: 'settings <instance> unset <key> [--json]',
    about: 'remove a setting from the store, so that .env, the environment or the default counts again',
    example: 'settings demo unset MAX_CONCURRENT_TURNS',
    run: async (svc, { key }) => {
      await svc.mustBeLocal()
      const { settingsResource } = await import('../../resources/settings.ts')
      const { settings } = await svc.call(settingsResource.verbs.list, {})
      if (!settings.some((each) => each.key === key))
        refuse('not_found', `${key} is not set in the store`, `svc settings ${(await svc.open()).name} show ${key}`)
      await save(svc, key, undefined)
    },
  }),
]

const CHANGES: Readonly<Record<SettingInForce['change'], string>> = {
  live: 'takes effect at once',
  restart: 'takes effect after a restart of svc',
  env: 'only in .env or the environment, and takes effect after a restart of svc',
}

async function openLocal(svc: SvcContext) {
  await svc.mustBeLocal()
  return svc.open()
}

async function findSettingInForce(svc: SvcContext, key: string): Promise<SettingInForce> {
  const { sources } = await openLocal(svc)
  const [{ describeSetting }, { storeFault }] = await Promise.all([
    import('../../daemons/settings-in-force.ts'),
    import('../../daemons/setting-rules.ts'),
  ])
  return describeSetting(key, sources) ?? refuse('not_found', storeFault(key, []) ?? `there is no setting ${key}`)
}

async function save(svc: SvcContext, key: string, value: string | undefined): Promise<void> {
  const { settingsResource } = await import('../../resources/settings.ts')
  await svc.call(settingsResource.verbs.save, { changes: [{ key, ...(value === undefined ? {} : { value }) }] })
  const { findSetting } = await import('../../daemons/setting-rules.ts')
  const change = findSetting(key)?.change ?? 'restart'
  svc.print.record(
    { [value === undefined ? 'removed' : 'set']: key, change: CHANGES[change] },
    { key, isSet: value !== undefined, change },
  )
}
