// The .env of a daemon's container: the settings that it needs, with addresses as seen from inside.
import { join } from 'node:path'
import { DAEMON_NAMES, type DaemonName, PLATFORM_URL_SETTINGS } from '../daemons/settings.ts'
import { readTrustedProxies } from '../lib/http/client-address.ts'
import type { ContainerNetworks } from './container-networks.ts'
import { needsSetting, peersOf } from './daemon-needs.ts'
import { POSTGRES_SERVICE } from './fragment.ts'

/** Every daemon listens there, in its own container. */
export const CONTAINER_PORT = 8080
/** Parent of the data directory in a container. */
export const CONTAINER_DATA_ROOT = '/data'

/** Where runed finds the socket of the engine. */
export const ENGINE_SOCKET_INSIDE = '/var/run/docker.sock'

/** What the settings of containers depend on, besides .env. */
export interface ContainerSite {
  readonly instance: string
  /** The data directory on this machine. */
  readonly root: string
  readonly image: string
  readonly networks: ContainerNetworks
  /** Password of the PostgreSQL service; undefined without one. */
  readonly postgresPassword?: string | undefined
}

/** The data directory in a container. */
export function containerRoot({ instance }: Pick<ContainerSite, 'instance'>): string {
  return join(CONTAINER_DATA_ROOT, `svc_${instance}`)
}

export function daemonEnv(
  daemon: DaemonName,
  entries: ReadonlyMap<string, string>,
  site: ContainerSite,
): ReadonlyMap<string, string> {
  const env = new Map([...entries].filter(([key]) => needsSetting(daemon, key)))
  for (const [key, value] of generatedEnv(daemon, entries, site)) env.set(key, value)
  return new Map([...env].toSorted(([one], [other]) => (one < other ? -1 : 1)))
}

function* generatedEnv(
  daemon: DaemonName,
  entries: ReadonlyMap<string, string>,
  { root, image, networks, postgresPassword }: ContainerSite,
): Generator<[string, string]> {
  yield [`${daemon.toUpperCase()}_LISTEN`, `0.0.0.0:${CONTAINER_PORT}`]
  const isPostgres = postgresPassword !== undefined || Boolean(entries.get('DATABASE_URL'))
  for (const peer of peersOf(daemon, isPostgres)) yield [`${peer.toUpperCase()}_URL`, daemonUrl(peer)]
  const trusted = trustedProxies(daemon, entries.get('TRUSTED_PROXIES') ?? '', networks)
  if (trusted !== '') yield ['TRUSTED_PROXIES', trusted]
  if (postgresPassword !== undefined) yield ['DATABASE_URL', postgresUrl(`${POSTGRES_SERVICE}:5432`, postgresPassword)]
  if (daemon === 'routd') yield ['ADAPTER_HOST', daemon]
  if (daemon === 'proxyd') yield ['SETTINGS_SET', setKeys(entries)]
  if (daemon === 'runed') {
    // Bubblewrap needs rights that a container does not have.
    if (entries.get('SANDBOX') !== 'none') yield ['SANDBOX', 'container']
    yield ['AGENT_IMAGE', entries.get('AGENT_IMAGE') || image]
    yield ['ENGINE_SOCKET', ENGINE_SOCKET_INSIDE]
    yield ['HOST_DATA_DIR', root]
  }
}

export function daemonUrl(daemon: DaemonName): string {
  return `http://${daemon}:${CONTAINER_PORT}`
}

export function postgresUrl(host: string, password: string): string {
  return `postgres://svc:${encodeURIComponent(password)}@${host}/svc`
}

/** The others see proxyd as their client. proxyd sees programs of this machine at the gateway of its network. */
function trustedProxies(daemon: DaemonName, written: string, networks: ContainerNetworks): string {
  const own = written.split(',').flatMap((entry) => entry.trim() || [])
  if (daemon !== 'proxyd') return [...own, networks.proxyd].join(',')
  return readTrustedProxies(written)?.('127.0.0.1') ? [...own, networks.frontGateway].join(',') : own.join(',')
}

/** Names only: routes that depend on a setting need no value. */
export function setKeys(entries: ReadonlyMap<string, string>): string {
  return [...entries]
    .flatMap(([key, value]) => (value === '' ? [] : [key]))
    .toSorted()
    .join(',')
}

/** Settings whose URL names this machine, which inside a container is the container itself. */
export function unreachableUrls(entries: ReadonlyMap<string, string>): readonly string[] {
  const urls = [
    ...['TTS_URL', 'STT_URL', 'OPENAI_BASE_URL', 'ANTHROPIC_BASE_URL', 'DATABASE_URL'],
    ...Object.keys(PLATFORM_URL_SETTINGS),
  ]
  return urls.filter((key) => isLoopbackUrl(entries.get(key) ?? ''))
}

function isLoopbackUrl(text: string): boolean {
  const host = URL.parse(text)?.hostname ?? ''
  return host === 'localhost' || host === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(host)
}

/** Names of all services of svc, which services of packages reach without the proxy. */
export const DAEMON_HOSTS: readonly string[] = DAEMON_NAMES
