// Runs the daemons of an instance until it is told to stop.
import type { OpenHost } from '../../daemons/process/host.ts'
import type { ServingProcess } from '../../daemons/process/presence.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import type { ConfiguredInstance } from '../instance/instance.ts'

export const serveCommands = [
  defineSvcCommand({
    usage: 'serve <instance> [<daemon>…] [--port|-p <n>]',
    about:
      'run every daemon in one process, or only those that are named; prints where each listens, then ready; --port is where the front door listens, whatever .env says',
    example: 'serve demo --port 9000',
    run: async (svc, { instance, daemon, port: typed }) => {
      const [{ findInstance, storeAddress }, { parsePortFlag, withPort }] = await Promise.all([
        import('../instance/instance.ts'),
        import('../input/port-flag.ts'),
      ])
      const port = typed === undefined ? undefined : parsePortFlag(typed)
      const configured = await findInstance(instance, svc.io.environment)
      for (const warning of configured.warnings) svc.print.warn(warning)
      const { storelessTimed } = await import('../../daemons/index.ts')
      const { isStoreless } = await storelessTimed()
      if (isStoreless(daemon, storeAddress(configured), configured.sources)) return runStoreless(svc, configured)
      await runDaemons(svc, withPort(configured, port), { daemons: daemon })
    },
  }),
]

async function runStoreless({ io, print }: SvcContext, { settings, sources }: ConfiguredInstance): Promise<void> {
  const stopped = io.stopped()
  const [{ storelessTimed }, { openLog }] = await Promise.all([
    import('../../daemons/index.ts'),
    import('../../lib/log/log.ts'),
  ])
  const { serveStoreless } = await storelessTimed()
  const close = await serveStoreless({ sources, print: print.line, log: await openLog({ level: settings.LOG_LEVEL }) })
  await stopped
  await close()
}

interface RunDaemonsOptions {
  readonly daemons: readonly string[]
  /** Called when all of them listen, with where the front door is. */
  onReady?(host: OpenHost, door: string | undefined): Promise<void>
}

export async function runDaemons(
  { io, print }: SvcContext,
  configured: ConfiguredInstance,
  running: RunDaemonsOptions,
): Promise<void> {
  // Asked for first, so that a signal during the start is not lost.
  const stopped = io.stopped()
  const [{ openInstance, sourcesReader }, { serve }, { openLog }] = await Promise.all([
    import('../instance/instance.ts'),
    import('../../daemons/serve.ts'),
    import('../../lib/log/log.ts'),
  ])
  await mustNotBeServed(configured, running.daemons)
  const log = await openLog({ level: configured.settings.LOG_LEVEL })
  // What the disk or the store cannot do is a sentence; everything else is a bug, with its stack.
  const onStray = (error: unknown): void =>
    error instanceof Refusal ? log.error(error.message) : log.error({ err: error }, 'internal error')
  const host = await openInstance(configured, { clock: io.clock, onBackgroundError: onStray })
  const { sources } = configured
  const failed = Promise.withResolvers<never>()
  const served = await withPortHint(configured, () =>
    serve({
      host,
      sources,
      currentSources: sourcesReader(configured, io.environment),
      daemons: running.daemons,
      print: print.line,
      log,
      onFatal: (error) => {
        const cause = error instanceof Refusal ? { reason: error.message } : { err: error }
        log.error(cause, 'the store failed; the process ends, and what is on disk is what counts')
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
  } catch (error) {
    // On a disk that failed sockets cannot be removed either; what failed first is what the operator must read.
    await served.close().catch(() => {})
    throw error
  }
  await served.close()
}

/** Where another process has the same daemon at the same port, blaming the port would hide that. On other ports it may take over. */
async function mustNotBeServed(
  { name, layout, sources }: ConfiguredInstance,
  wanted: readonly string[],
): Promise<void> {
  const [{ urlOfProcess, servingProcesses }, { selectDaemons }, { listenAddressOf }] = await Promise.all([
    import('../../daemons/process/presence.ts'),
    import('../../daemons/serve.ts'),
    import('../../daemons/process/listen-addresses.ts'),
  ])
  const places = selectDaemons(wanted).map((daemon) => ({ daemon, port: listenAddressOf(daemon, sources).listen.port }))
  const hasOne = ({ urls }: ServingProcess): boolean =>
    places.some(({ daemon, port }) => URL.parse(urls[daemon] ?? '')?.port === String(port))
  const other = (await servingProcesses(layout))?.find(hasOne)
  if (other)
    refuse(
      'conflict',
      `${name} is being served already, at ${urlOfProcess(other)} (process ${other.pid})`,
      'stop that process first',
    )
}

/** Says where another address goes. A variable would not do: what the instance's own file says, decides. */
async function withPortHint<T>({ layout }: ConfiguredInstance, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Refusal) || !error.hint?.startsWith('set ')) throw error
    return refuse(error.code, error.message, `${error.hint} in ${layout.env}, or start it with --port <n>`)
  }
}
