// The flag `--port`: the port of proxyd, which overrides .env. The other daemons listen on the ports after it.
import { formatListenAddress, listenAddressOf } from '../../daemons/process/listen-addresses.ts'
import { INSTANCE_SETTINGS } from '../../daemons/settings.ts'
import { refuse } from '../../lib/refusal.ts'
import { readSettings, type SettingSource, sourceOf } from '../../lib/settings.ts'
import type { ConfiguredInstance } from '../instance/instance.ts'
import { parseInteger } from './integer-argument.ts'

/** With 0 each daemon listens on any free port. */
export function parsePortFlag(text: string): number {
  const port = parseInteger('--port', text)
  return port >= 0 && port <= 65_535 ? port : refuse('invalid', `--port must be from 0 to 65535, not ${port}`)
}

/** The instance with the settings that `svc serve --port` runs it with. */
export function withPort(
  configured: ConfiguredInstance,
  port: number | undefined,
  origin = '--port',
): ConfiguredInstance {
  if (port === undefined) return configured
  const { sources } = configured
  const proxyd = listenAddressOf('proxyd', sources)
  const entries = new Map([['WEB_LISTEN', formatListenAddress({ ...configured.settings.WEB_LISTEN, port })]])
  entries.set(proxyd.setting, formatListenAddress({ ...proxyd.listen, port }))
  const host = localWebHost(configured, port)
  if (host !== undefined) entries.set('WEB_HOST', host)
  const overridden: SettingSource[] = [sourceOf(origin, entries), ...sources]
  return { ...configured, sources: overridden, settings: readSettings(INSTANCE_SETTINGS, overridden) }
}

/** WEB_HOST with the new port if it points to the port of .env on this machine. A public host belongs to a proxy. */
function localWebHost({ settings: { WEB_HOST, WEB_LISTEN } }: ConfiguredInstance, port: number): string | undefined {
  const [, host, oldPort] = /^(?:http:\/\/)?(localhost|127\.0\.0\.1):(\d+)\/?$/.exec(WEB_HOST) ?? []
  return host !== undefined && port !== 0 && Number(oldPort) === WEB_LISTEN.port ? `${host}:${port}` : undefined
}
