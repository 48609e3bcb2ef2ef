// Runs the daemons of an instance until it is told to stop.
import type { OpenHost } from '../../daemons/host.ts'
import type { ServingProcess } from '../../daemons/presence.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { command, type Svc } from '../command.ts'
import type { Configured } from '../instance.ts'

export const serveCommands = [
  command({
    usage: 'serve <instance> [<daemon>…] [--port|-p <n>]',
    about:
      'run every daemon in one process, or only those that are named; prints where each listens, then ready; --port is where the front door listens, whatever .env says',
    example: 'serve demo --port 9000',
    run: async (svc, { instance, daemon, port: typed }) => {
      const [{ findInstance, storeOf }, { readPort, withPort }] = await Promise.all([
        import('../instance.ts'),
        import('../port-flag.ts'),
      ])
      const port = typed === undefined ? undefined : readPort(typed)
      const configured = await findInstance(instance, svc.io.environment)
      for (const warning of configured.warnings) svc.print.warn(warning)
      const { storelessTimed } = await import('../../daemons/index.ts')
      const { isStoreless } = await storelessTimed()
      if (isStoreless(daemon, storeOf(configured), configured.sources)) return runStoreless(svc, configured)
      await runDaemons(svc, withPort(configured, port), { daemons: daemon })
    },
  }),
]

async function runStoreless({ io, print }: Svc, { settings, sources }: Configured): Promise<void> {
  const stopped = io.stopped()
  const [{ storelessTimed }, { openLog }] = await Promise.all([
    import('../../daemons/index.ts'),
    import('../../lib/log.ts'),
  ])
  const { serveStoreless } = await storelessTimed()
  const close = await serveStoreless({ sources, print: print.line, log: await openLog({ level: settings.LOG_LEVEL }) })
  await stopped
  await close()
}

interface Running {
  readonly daemons: readonly string[]
  /** Called when all of them listen, with where the front door is. */
  onReady?(host: OpenHost, door: string | undefined): Promise<void>
}

export async function runDaemons({ io, print }: Svc, configured: Configured, running: Running): Promise<void> {
  // Asked for first, so that a signal during the start is not lost.
  const stopped = io.stopped()
  const [{ openInstance, sourcesReader }, { serve }, { openLog }] = await Promise.all([
    import('../instance.ts'),
    import('../../daemons/serve.ts'),
    import('../../lib/log.ts'),
  ])
  await mustBeFree(configured, running.daemons)
  const log = await openLog({ level: configured.settings.LOG_LEVEL })
  const onStray = (error: unknown): void => log.error({ err: error }, 'internal error')
  const host = await openInstance(configured, { clock: io.clock, onStray })
  const { sources } = configured
  const failed = Promise.withResolvers<never>()
  const served = await hinting(configured, () =>
    serve({
      host,
      sources,
      currentSources: sourcesReader(configured, io.environment),
      daemons: running.daemons,
      print: print.line,
      log,
      onFatal: (error) => {
        log.error({ err: error }, 'the store failed; the process ends, and what is on disk is what counts')
        failed.reject(error)
      },
    }),
  )
  const ending = async (): Promise<void> => {
    await running.onReady?.(host, served.urls.proxyd)
    await stopped
  }
  try {
    await Promise.race([ending(), failed.promise])
  } finally {
    await served.close()
  }
}

/** Where another process has the same daemon at the same port, blaming the port would hide that. On other ports it may take over. */
async function mustBeFree({ name, layout, sources }: Configured, wanted: readonly string[]): Promise<void> {
  const [{ addressOf, servingProcesses }, { namesOf }, { placeOf }] = await Promise.all([
    import('../../daemons/presence.ts'),
    import('../../daemons/serve.ts'),
    import('../../daemons/places.ts'),
  ])
  const places = namesOf(wanted).map((daemon) => ({ daemon, port: placeOf(daemon, sources).listen.port }))
  const hasOne = ({ urls }: ServingProcess): boolean =>
    places.some(({ daemon, port }) => URL.parse(urls[daemon] ?? '')?.port === String(port))
  const other = (await servingProcesses(layout))?.find(hasOne)
  if (other)
    refuse(
      'conflict',
      `${name} is being served already, at ${addressOf(other)} (process ${other.pid})`,
      'stop that process first',
    )
}

/** Says where another address goes. A variable would not do: what the instance's own file says, decides. */
async function hinting<T>({ layout }: Configured, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Refusal) || !error.hint?.startsWith('set ')) throw error
    return refuse(error.code, error.message, `${error.hint} in ${layout.env}, or start it with --port <n>`)
  }
}
