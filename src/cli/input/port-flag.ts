// `--port`: where the front door listens, whatever .env says. The other daemons take the ports after it.
import { listenAddressOf } from '../../daemons/process/listen-addresses.ts'
import { INSTANCE_SETTINGS } from '../../daemons/settings.ts'
import { refuse } from '../../lib/refusal.ts'
import { type ListenEndpoint, readSettings, type SettingSource, sourceOf } from '../../lib/settings.ts'
import type { ConfiguredInstance } from '../instance/instance.ts'
import { parseInteger } from './integer-argument.ts'

/** 0 takes any free port, for each daemon. */
export function parsePortFlag(text: string): number {
  const port = parseInteger('--port', text)
  return port >= 0 && port <= 65_535 ? port : refuse('invalid', `--port must be from 0 to 65535, not ${port}`)
}

/** The instance as `svc serve --port` runs it. */
export function withPort(configured: ConfiguredInstance, port: number | undefined): ConfiguredInstance {
  if (port === undefined) return configured
  const { sources } = configured
  const door = listenAddressOf('proxyd', sources)
  const entries = new Map([['WEB_LISTEN', addressOf(configured.settings.WEB_LISTEN, port)]])
  entries.set(door.setting, addressOf(door.listen, port))
  const host = followingHost(configured, port)
  if (host !== undefined) entries.set('WEB_HOST', host)
  const told: SettingSource[] = [sourceOf('--port', entries), ...sources]
  return { ...configured, sources: told, settings: readSettings(INSTANCE_SETTINGS, told) }
}

function addressOf({ host }: ListenEndpoint, port: number): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** Links that lead to this machine at the port of .env lead to the new one; a public host is of a proxy in front. */
function followingHost({ settings: { WEB_HOST, WEB_LISTEN } }: ConfiguredInstance, port: number): string | undefined {
  const [, host, before] = /^(?:http:\/\/)?(localhost|127\.0\.0\.1):(\d+)\/?$/.exec(WEB_HOST) ?? []
  return host !== undefined && port !== 0 && Number(before) === WEB_LISTEN.port ? `${host}:${port}` : undefined
}
