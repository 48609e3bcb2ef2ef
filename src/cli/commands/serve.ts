// Runs the daemons of an instance until it is told to stop.
import type { OpenHost } from '../../daemons/host.ts'
import { command, type Svc } from '../command.ts'
import type { Configured } from '../instance.ts'

export const serveCommands = [
  command({
    usage: 'serve <instance> [<daemon>…]',
    about: 'run every daemon in one process, or only those that are named; prints where each listens, then ready',
    example: 'serve demo',
    run: async (svc, { instance, daemon }) => {
      const { findInstance, storeOf } = await import('../instance.ts')
      const configured = await findInstance(instance, svc.io.environment)
      for (const warning of configured.warnings) svc.print.warn(warning)
      const { storelessTimed } = await import('../../daemons/index.ts')
      const { isStoreless } = await storelessTimed()
      if (isStoreless(daemon, storeOf(configured), configured.sources)) return runStoreless(svc, configured)
      await runDaemons(svc, configured, { daemons: daemon })
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
  const [{ openInstance }, { serve }, { openLog }] = await Promise.all([
    import('../instance.ts'),
    import('../../daemons/serve.ts'),
    import('../../lib/log.ts'),
  ])
  const log = await openLog({ level: configured.settings.LOG_LEVEL })
  const onStray = (error: unknown): void => log.error({ err: error }, 'internal error')
  const host = await openInstance(configured, { clock: io.clock, onStray })
  const { sources } = configured
  const failed = Promise.withResolvers<never>()
  const served = await serve({
    host,
    sources,
    daemons: running.daemons,
    print: print.line,
    log,
    onFatal: (error) => {
      log.error({ err: error }, 'the store failed; the process ends, and what is on disk is what counts')
      failed.reject(error)
    },
  })
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
