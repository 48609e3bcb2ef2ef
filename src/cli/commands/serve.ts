// Runs the daemons of an instance until a termination signal.
import { dirname } from 'node:path'
import type { OpenHost } from '../../daemons/process/host.ts'
import type { ServingProcess } from '../../daemons/process/presence.ts'
import type { RunningInstance } from '../../daemons/serve.ts'
import type { FaultPlace } from '../../lib/fault-boundary.ts'
import type { Log } from '../../lib/log/log.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { defineSvcCommand, type SvcContext } from '../command.ts'
import type { ConfiguredInstance } from '../instance/instance.ts'
import { commandWriter, programAnywhere } from '../output/shown-commands.ts'

export const serveCommands = [
  defineSvcCommand({
    usage: 'serve <instance> [<daemon>…] [--port|-p <n>]',
    about:
      'run all daemons, or only the named ones in one process; prints the address of each, then ready; --port sets the port of proxyd and overrides .env',
    example: 'serve demo --port 9000',
    run: async (svc, { daemon, port: typed }) => {
      const [{ storeAddress }, { parsePortFlag, withPort }] = await Promise.all([
        import('../instance/instance.ts'),
        import('../input/port-flag.ts'),
      ])
      const port = typed === undefined ? undefined : parsePortFlag(typed)
      const configured = await svc.findInstance()
      const { storelessTimed } = await import('../../daemons/index.ts')
      const { isStoreless } = await storelessTimed()
      if (isStoreless(daemon, storeAddress(configured), configured.sources)) await runStoreless(svc, configured)
      else await runDaemons(svc, withPort(configured, port), { daemons: daemon })
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
  const log = await openLog({ level: settings.LOG_LEVEL })
  io.onUncaught?.((error) => logUncaught(log, error))
  const close = await serveStoreless({ sources, print: print.line, log })
  await reportReady()
  await stopped
  await close()
}

/** See docs/architecture.md#fault-boundaries. */
function logUncaught(log: Log, error: unknown): void {
  log.error({ place: 'process', err: error }, 'an exception was not caught; exiting')
}

/** For `systemctl start`, which waits for it. */
async function reportReady(): Promise<void> {
  const { notifySystemd } = await import('../../lib/systemd-notify.ts')
  notifySystemd('READY=1')
}

interface RunDaemonsOptions {
  readonly daemons: readonly string[]
  /** Called when all daemons listen, with the address of proxyd. */
  onReady?(host: OpenHost, proxydUrl: string | undefined): Promise<void>
}

export async function runDaemons(
  { io, print, commands }: SvcContext,
  configured: ConfiguredInstance,
  options: RunDaemonsOptions,
): Promise<void> {
  // Called first, so that a signal during startup is not lost.
  const stopped = io.stopped()
  const [{ openInstance, sourcesReader }, { serve }, { openLog }] = await Promise.all([
    import('../instance/instance.ts'),
    import('../../daemons/serve.ts'),
    import('../../lib/log/log.ts'),
  ])
  const { line } = io
  if (line?.role !== 'runner') await mustNotBeServed(configured, options.daemons)
  const log = await openLog({ level: configured.settings.LOG_LEVEL })
  // A refusal is a failure of disk or store; any other error is a bug and needs its stack.
  const onBackgroundError = (error: unknown, place: FaultPlace): void =>
    error instanceof Refusal ? log.error({ place }, error.message) : log.error({ place, err: error }, 'internal error')
  const { SVC_COMMAND: program } = configured.settings
  const showCommands = commandWriter(Object.keys(commands), () =>
    program ? { program, asRoot: program } : programAnywhere(dirname(configured.layout.root)),
  )
  const host = await openInstance(configured, { clock: io.clock, showCommands, onBackgroundError })
  io.onUncaught?.((error) => {
    host.faults.count('process')
    logUncaught(log, error)
  })
  const { LiveSettings } = await import('../../daemons/process/live-settings.ts')
  const live = await LiveSettings.open({ host, log, files: sourcesReader(configured, io.environment) })
  const sources = await live.sources()
  const failed = Promise.withResolvers<never>()
  const { spawnRunner } = await import('../../supervisor/program.ts')
  const shared = {
    host,
    spawnRunner,
    sources,
    live,
    log,
    onFatal: (error: unknown) => {
      const cause = error instanceof Refusal ? { reason: error.message } : { err: error }
      log.error(cause, 'the store failed; exiting, and only data on disk is kept')
      failed.reject(error)
    },
  }
  const open = async (): Promise<{ urls?: RunningInstance['urls']; over?: Promise<void>; close(): Promise<void> }> => {
    if (line?.role !== 'runner')
      return withPortHint(configured, () => serve({ ...shared, daemons: options.daemons, print: print.line, line }))
    const { runnerProgram } = await import('../../daemons/index.ts')
    const { runTurns } = await runnerProgram()
    return runTurns({ ...shared, line })
  }
  const served = await open()
  // The parent does it for its children.
  if (!line) await reportReady()
  const runUntilStopped = async (): Promise<void> => {
    if (served.urls && !line?.formerUrls) await options.onReady?.(host, served.urls.proxyd)
    await Promise.race([stopped, ...(served.over ? [served.over] : [])])
  }
  try {
    await Promise.race([runUntilStopped(), failed.promise])
  } catch (error) {
    // After a disk failure `close` may fail too; report the first error.
    await served.close().catch(() => {})
    throw error
  }
  await served.close()
  line?.close()
}

/** Refuses if another process serves the same daemon on the same port. On other ports a new version may take over. */
async function mustNotBeServed(
  { name, layout, sources }: ConfiguredInstance,
  wanted: readonly string[],
): Promise<void> {
  const [{ urlOfProcess, servingProcesses }, { selectDaemons }, { listenAddressOf }] = await Promise.all([
    import('../../daemons/process/presence.ts'),
    import('../../daemons/serve.ts'),
    import('../../daemons/process/listen-addresses.ts'),
  ])
  const addresses = selectDaemons(wanted).map((daemon) => ({
    daemon,
    port: listenAddressOf(daemon, sources).listen.port,
  }))
  const servesOne = ({ urls }: ServingProcess): boolean =>
    addresses.some(({ daemon, port }) => URL.parse(urls[daemon] ?? '')?.port === String(port))
  const other = (await servingProcesses(layout))?.find(servesOne)
  if (other)
    refuse(
      'conflict',
      `${name} is already being served at ${urlOfProcess(other)} (process ${other.pid})`,
      'stop that process first',
    )
}

/** Adds the .env of the instance to a hint about the address, because a shell variable would not override it. */
async function withPortHint<T>({ layout }: ConfiguredInstance, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof Refusal) || !error.hint?.startsWith('set ')) throw error
    return refuse(error.code, error.message, `${error.hint} in ${layout.env}, or start it with --port <n>`)
  }
}
