// Shows the settings of an instance and where each value comes from.
import { defineSvcCommand } from '../command.ts'

export const settingsCommands = [
  defineSvcCommand({
    usage: 'settings <instance> [--set] [--json]',
    about:
      'list every setting with its value, where that comes from, and what it is for; never secrets; --set: only those that are set',
    example: 'settings demo --set',
    run: async (svc, { set }) => {
      await svc.mustBeLocal()
      const { listSettingsInForce } = await import('../../daemons/settings-in-force.ts')
      const { sources } = await svc.findInstance()
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
]
