// `proxy serve`: runs the proxy until a signal.
import type { Log } from '../../lib/log/log.ts'
import { refuse } from '../../lib/refusal.ts'
import { defineEgressCommand } from '../cli/command.ts'
import type { EgressProxy } from '../proxy.ts'
import type { ServeSettings } from '../settings/serve-settings.ts'
import type { SocketAddress } from '../transport/transport.ts'

export const proxyCommands = [
  defineEgressCommand({
    usage: 'proxy serve [--config <path>] [--listen <addr>] [--admin <addr>] [--transparent <addr>] [--deny-private]',
    about:
      "run the proxy; print the address of each listener, then ready; <addr> is host:port or :port, '' disables it; logs to stderr",
    example: 'proxy serve --listen :3128 --admin 127.0.0.1:3129',
    run: async ({ io, print }, { config, denyPrivate, ...addresses }) => {
      // Subscribe first, so that a signal during the start is not lost.
      const stopped = io.stopped()
      const [
        { settingsSearchPaths, readServeSettings },
        { startProxy },
        { openLog, openLogStream },
        { lowerHelperThreadPriority },
      ] = await Promise.all([
        import('../settings/serve-settings.ts'),
        import('../proxy.ts'),
        import('../../lib/log/log.ts'),
        import('../thread-priority.ts'),
      ])
      const flags = { ...addresses, 'deny-private': denyPrivate ? 'true' : undefined }
      const { settings, warnings, path } = await readServeSettings(
        flags,
        settingsSearchPaths(config, io.environment),
        io.environment,
      )
      requireListener(settings)
      const stream = await openLogStream()
      const log = await openLog({ to: stream })
      for (const warning of warnings) log.warn(warning)
      io.onHangup(() => log.info('SIGHUP is ignored: settings are read at start, and the registry is always current'))
      lowerHelperThreadPriority()
      const proxy = await startProxy({
        ...settings,
        log: (lines) => stream.write(lines),
        droppedLines: () => stream.dropped,
      })
      for (const line of listeners(proxy)) print.line(line)
      log.info(path === undefined ? {} : { config: path }, 'the proxy is ready')
      print.line('ready')
      const end = await Promise.race([stopped, proxy.died.then((error) => failed(log, error))])
      log.info({ signal: end }, 'the proxy is stopping')
      await proxy.close()
      log.info('the proxy has stopped')
    },
  }),
]

function failed(log: Log, error: unknown): never {
  log.error({ err: error }, 'the proxy failed and has stopped serving')
  return refuse('unavailable', 'the proxy failed; see its log')
}

function requireListener({ listen, transparent, admin }: ServeSettings): void {
  if (listen || transparent || admin.length > 0) return
  const hint = 'give one of --listen, --transparent and --admin an address such as :3128'
  refuse('invalid', 'nothing to listen on: every listener is switched off', hint)
}

/** One line each, with the bound port. */
function listeners({ forward, transparent, admin = [] }: EgressProxy): string[] {
  const line = (name: string, { address, port }: SocketAddress): string =>
    `${name} ${address.includes(':') ? `[${address}]` : address}:${port}`
  return [
    ...(forward ? [line('forward', forward)] : []),
    ...(transparent ? [line('transparent', transparent)] : []),
    ...admin.map((endpoint) => line('admin', endpoint)),
  ]
}
