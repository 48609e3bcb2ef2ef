// Lists the instances on this machine and whether each is being served.
import { Refusal } from '../../lib/refusal.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import type { ConfiguredInstance } from '../instance/instance.ts'

interface ListedInstance {
  readonly name: string
  readonly directory: string
  /** The address of an instance on another machine. */
  readonly remote?: string | undefined
  /** The current or configured address; undefined if the settings cannot be read. */
  readonly listen?: string | undefined
  /** Undefined if this user has no permission to find out. */
  readonly served?: boolean | undefined
  readonly processes: readonly { readonly pid?: number | undefined; readonly urls: Readonly<Record<string, string>> }[]
}

export const listCommands = [
  defineSvcCommand({
    usage: 'list [--json]',
    about:
      'list the instances in the data directory, their addresses, and whether a process on this machine serves them; remote ones are on other machines',
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
          SERVED: ({ remote, served }) =>
            remote !== undefined ? 'remote' : served === undefined ? 'unknown' : served ? 'yes' : 'no',
          LISTEN: ({ remote, listen = '-' }) => remote ?? listen,
          DIRECTORY: ({ directory }) => directory,
        },
        empty: `no instances in ${dir}; svc create <name> creates one`,
      })
      if (names.length === 0 && !svc.io.environment.get('SVC_DATA_DIR'))
        svc.print.say('SVC_DATA_DIR is not set; if your instances are elsewhere, set it to their directory')
    },
  }),
]

async function inspectInstance(svc: SvcContext, name: string): Promise<ListedInstance> {
  const [{ isRemoteInstance, loadInstanceConfig, locateInstance }, { urlOfProcess, servingProcesses }] =
    await Promise.all([import('../instance/instance.ts'), import('../../daemons/process/presence.ts')])
  const location = locateInstance(name, svc.io.environment)
  if (await isRemoteInstance(location)) {
    const { readSignIn } = await import('../remote/sign-in-file.ts')
    const signIn = await withoutRefusal(svc, () => readSignIn(location))
    return { name, directory: location.layout.root, remote: signIn?.base ?? '-', processes: [] }
  }
  const processes = await servingProcesses(location.layout)
  const current = processes?.map(urlOfProcess).find((address) => address !== undefined)
  const listen = current ?? (await configuredAddress(svc, () => loadInstanceConfig(location, svc.io.environment)))
  const served = processes && processes.length > 0
  return { name, directory: location.layout.root, listen, served, processes: processes ?? [] }
}

async function configuredAddress(
  svc: SvcContext,
  read: () => Promise<ConfiguredInstance>,
): Promise<string | undefined> {
  const { formatListenAddress } = await import('../../daemons/process/listen-addresses.ts')
  const configured = await withoutRefusal(svc, read)
  return configured && `http://${formatListenAddress(configured.settings.WEB_LISTEN)}`
}

/** Warns about an unreadable file instead of failing, so that the other instances are listed. */
async function withoutRefusal<T>(svc: SvcContext, read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    svc.print.warn(error.message)
    return undefined
  }
}
