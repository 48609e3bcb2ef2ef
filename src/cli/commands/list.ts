// The instances on this machine, and whether each is being served.
import { Refusal } from '../../lib/refusal.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import type { ConfiguredInstance } from '../instance/instance.ts'

interface ListedInstance {
  readonly name: string
  readonly directory: string
  /** Where it is served, else where it would be; nothing where its settings cannot be read. */
  readonly listen?: string | undefined
  /** Nothing where this user may not look. */
  readonly served?: boolean | undefined
  readonly processes: readonly { readonly pid?: number | undefined; readonly urls: Readonly<Record<string, string>> }[]
}

export const listCommands = [
  defineSvcCommand({
    usage: 'list [--json]',
    about:
      'show every instance below the data directory, where it listens, and whether a process of this machine serves it now',
    example: 'list',
    run: async (svc) => {
      const { listInstances } = await import('../instance/instance.ts')
      const { dir, names } = await listInstances(svc.io.environment)
      const rows: ListedInstance[] = []
      for (const name of names) rows.push(await inspectInstance(svc, name))
      svc.print.table({
        rows,
        columns: {
          NAME: ({ name }) => name,
          SERVED: ({ served }) => (served === undefined ? 'unknown' : served ? 'yes' : 'no'),
          LISTEN: ({ listen = '-' }) => listen,
          DIRECTORY: ({ directory }) => directory,
        },
        empty: `no instances in ${dir}; svc create <name> makes one`,
      })
      if (names.length === 0 && !svc.io.environment.get('SVC_DATA_DIR'))
        svc.print.say('SVC_DATA_DIR is not set; it says where your instances are, if they are elsewhere')
    },
  }),
]

async function inspectInstance(svc: SvcContext, name: string): Promise<ListedInstance> {
  const [{ loadInstanceConfig, locateInstance }, { urlOfProcess, servingProcesses }] = await Promise.all([
    import('../instance/instance.ts'),
    import('../../daemons/process/presence.ts'),
  ])
  const location = locateInstance(name, svc.io.environment)
  const processes = await servingProcesses(location.layout)
  const known = processes?.map(urlOfProcess).find((address) => address !== undefined)
  const listen = known ?? (await configuredAddress(svc, () => loadInstanceConfig(location, svc.io.environment)))
  const served = processes && processes.length > 0
  return { name, directory: location.layout.root, listen, served, processes: processes ?? [] }
}

/** One instance whose .env cannot be read does not hide the others. */
async function configuredAddress(
  svc: SvcContext,
  read: () => Promise<ConfiguredInstance>,
): Promise<string | undefined> {
  try {
    const { host, port } = (await read()).settings.WEB_LISTEN
    return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    svc.print.warn(error.message)
    return undefined
  }
}
