// Listen addresses and URLs of the daemons. See docs/decisions.md#one-process-or-many.
import { refuse } from '../../lib/refusal.ts'
import {
  type ListenEndpoint,
  ListenSetting,
  readSettings,
  type SettingSource,
  setting,
  UrlSetting,
} from '../../lib/settings.ts'
import { DAEMON_NAMES, type DaemonName, INSTANCE_SETTINGS, webBaseUrl } from '../settings.ts'

export interface ListenAddress {
  readonly listen: ListenEndpoint
  /** The setting to change it. */
  readonly setting: string
}

const LOOPBACK = /^(127\.\d+\.\d+\.\d+|::1|localhost)$/

/** proxyd listens on WEB_LISTEN, the others on fixed ports after it, unless <DAEMON>_LISTEN is set. */
export function listenAddressOf(name: DaemonName, sources: readonly SettingSource[]): ListenAddress {
  const key = `${name.toUpperCase()}_LISTEN`
  const own = readSettings({ [key]: setting(ListenSetting, undefined, '') }, sources)[key]
  if (own) return { listen: own, setting: key }
  const { WEB_LISTEN: webListen } = readSettings({ WEB_LISTEN: INSTANCE_SETTINGS.WEB_LISTEN }, sources)
  if (name === 'proxyd') return { listen: webListen, setting: 'WEB_LISTEN' }
  // A public WEB_LISTEN exposes only proxyd.
  const host = LOOPBACK.test(webListen.host) ? webListen.host : '127.0.0.1'
  const port = webListen.port === 0 ? 0 : webListen.port + DAEMON_NAMES.indexOf(name)
  if (port > 65_535)
    refuse('invalid', `the port of ${name} would be ${port}, above 65535`, `set ${key}, or a lower port in WEB_LISTEN`)
  return { listen: { host, port }, setting: key }
}

/** The settings `<DAEMON>_URL`. */
export function daemonUrls(sources: readonly SettingSource[]): ReadonlyMap<DaemonName, string> {
  return new Map(
    DAEMON_NAMES.flatMap((name): [DaemonName, string][] => {
      const key = `${name.toUpperCase()}_URL`
      const url = readSettings({ [key]: setting(UrlSetting, undefined, '') }, sources)[key]
      return url === undefined ? [] : [[name, url]]
    }),
  )
}

/** Scheme and host of printed links. */
export function linkBaseUrl(sources: readonly SettingSource[]): string {
  return webBaseUrl(linkHost(sources))
}

/** WEB_HOST. Its default, which `svc create` writes, means this machine at the port where proxyd listens. */
export function linkHost(sources: readonly SettingSource[]): string {
  const { WEB_HOST } = readSettings({ WEB_HOST: INSTANCE_SETTINGS.WEB_HOST }, sources)
  const { initial } = INSTANCE_SETTINGS.WEB_HOST
  const { host, port } = listenAddressOf('proxyd', sources).listen
  if ((WEB_HOST !== '' && WEB_HOST !== initial) || port === 0) return WEB_HOST || initial
  const isLocal = LOOPBACK.test(host) || EVERY_ADDRESS.includes(host)
  return isLocal ? `localhost:${port}` : `http://${formatListenAddress({ host, port })}`
}

const EVERY_ADDRESS: readonly string[] = ['0.0.0.0', '::']

export function formatListenAddress({ host, port }: ListenEndpoint): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}
