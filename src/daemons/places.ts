// Where each daemon listens, and where the others find it (decision P4).
import { refuse } from '../lib/refusal.ts'
import { type Listen, ListenSetting, readSettings, type Source, setting, UrlSetting } from '../lib/settings.ts'
import { DAEMON_NAMES, type DaemonName, INSTANCE_SETTINGS } from './settings.ts'

export interface Place {
  readonly listen: Listen
  /** The setting that moves it elsewhere. */
  readonly setting: string
}

const LOOPBACK = /^(127\.\d+\.\d+\.\d+|::1|localhost)$/

/** The front door at WEB_LISTEN and the others on the ports after it, each always on the same one, unless its own setting says. */
export function placeOf(name: DaemonName, sources: readonly Source[]): Place {
  const key = `${name.toUpperCase()}_LISTEN`
  const own = readSettings({ [key]: setting(ListenSetting, undefined, '') }, sources)[key]
  if (own) return { listen: own, setting: key }
  const { WEB_LISTEN: door } = readSettings({ WEB_LISTEN: INSTANCE_SETTINGS.WEB_LISTEN }, sources)
  if (name === 'proxyd') return { listen: door, setting: 'WEB_LISTEN' }
  // Only the front door is told to face the world by WEB_LISTEN.
  const host = LOOPBACK.test(door.host) ? door.host : '127.0.0.1'
  const port = door.port === 0 ? 0 : door.port + DAEMON_NAMES.indexOf(name)
  if (port > 65_535) refuse('invalid', `there is no port ${port} for ${name}`, `set ${key}, or a lower WEB_LISTEN`)
  return { listen: { host, port }, setting: key }
}

/** What the `<DAEMON>_URL` settings say. */
export function urlsOf(sources: readonly Source[]): ReadonlyMap<DaemonName, string> {
  return new Map(
    DAEMON_NAMES.flatMap((name): [DaemonName, string][] => {
      const key = `${name.toUpperCase()}_URL`
      const url = readSettings({ [key]: setting(UrlSetting, undefined, '') }, sources)[key]
      return url === undefined ? [] : [[name, url]]
    }),
  )
}
