import { dirname, join } from 'node:path'
import { dataDirVariable } from '../core/layout.ts'
import { DAEMON_NAMES, type DaemonName } from '../daemons/settings.ts'
import { NETWORK_NAMES, type NetworkName, pairedAddress } from './container-networks.ts'
import {
  CONTAINER_DATA_ROOT,
  CONTAINER_PORT,
  type ContainerSite,
  containerRoot,
  DAEMON_HOSTS,
  ENGINE_SOCKET_INSIDE,
} from './daemon-env.ts'
import { DAEMON_NEEDS, mountsOf, needsSetting } from './daemon-needs.ts'
import { EGRESS_SERVICE, type Fragment, type FragmentService, POSTGRES_SERVICE } from './fragment.ts'
import { POSTGRES_DIRECTORY, POSTGRES_SOCKET_DIRECTORY } from './mounted-directories.ts'
import { stampText } from './stamped-file.ts'

const EGRESS_PORT = 3128
const EGRESS_ADMIN_PORT = 3129
const EGRESS_STATE = '/run/egress/state.json'
const EGRESS_CONFIG = '/etc/egress-proxy.toml'

export interface ComposeInput extends ContainerSite {
  readonly user: { readonly uid: number; readonly gid: number }
  /** Paths on this machine of the files that `daemonEnv` describes. */
  readonly envFiles: Readonly<Record<DaemonName, string>>
  /** Of egress-proxy. */
  readonly stateFile: string
  /** Its configuration file, with the secret of its admin listener. */
  readonly egressConfig: string
  /** As compose publishes them: `127.0.0.1:8080`. */
  readonly published: { readonly proxyd: string; readonly routd: string }
  readonly postgres?: { readonly image: string; readonly passwordFile: string } | undefined
  /** Whether DATABASE_URL names a server that is not a container of this instance. */
  readonly hasOutsideDatabase: boolean
  /** Whether traces are exported. */
  readonly hasCollector?: boolean
  /** The socket of the engine, for agents' containers; undefined if agents run in none. */
  readonly engineSocket?: { readonly path: string; readonly gid?: number | undefined } | undefined
  readonly fragments: readonly Fragment[]
  /** By service of a package, the file with the settings that its fragment names. */
  readonly serviceEnvFiles: ReadonlyMap<string, string>
}

/** A service of a package with the fragment that describes it, in the order of their addresses. */
export interface PackageService {
  readonly name: string
  readonly fragment: Fragment
  readonly service: FragmentService
}

export function packageServices(fragments: readonly Fragment[]): readonly PackageService[] {
  return fragments
    .flatMap((fragment) => [...fragment.services].map(([name, service]) => ({ name, fragment, service })))
    .toSorted((one, other) => (one.name < other.name ? -1 : 1))
}

/** egress-proxy reads it at its start: which address may reach which hosts. */
export function egressState({ networks, fragments }: Pick<ComposeInput, 'networks' | 'fragments'>): string {
  const entries = packageServices(fragments).flatMap(({ name, fragment: { hosts } }, at) =>
    [networks.packageService(at), pairedAddress(networks.packageService(at))].map((ip) =>
      JSON.stringify({ ip, id: name, allowlist: hosts }),
    ),
  )
  return entries.length === 0 ? '[]\n' : `[\n${entries.join(',\n')}\n]\n`
}

export async function composeText(input: ComposeInput): Promise<string> {
  const { stringify } = await import('yaml')
  // Double quotes everywhere: YAML 1.1 of docker-compose 1.29 reads `on`, `1:30` and `010` in its own way.
  const yaml = stringify(escapeDollars(composeDocument(input)), {
    lineWidth: 0,
    defaultStringType: 'QUOTE_DOUBLE',
    defaultKeyType: 'PLAIN',
    aliasDuplicateObjects: false,
  })
  const body = [
    '# Change .env or services/ and run svc generate again; it refuses to overwrite a file that was edited by hand.',
    yaml,
  ].join('\n')
  return stampText(body)
}

/** Compose replaces `$x` and `${x}` by variables of the shell. */
function escapeDollars(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll('$', '$$$$')
  if (Array.isArray(value)) return value.map(escapeDollars)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, escapeDollars(each)]))
}

export function composeDocument(input: ComposeInput): Readonly<Record<string, unknown>> {
  const { networks, fragments } = input
  const services: Record<string, unknown> = {}
  for (const daemon of DAEMON_NAMES) services[daemon] = daemonService(daemon, input)
  services[EGRESS_SERVICE] = egressService(input)
  if (input.postgres) services[POSTGRES_SERVICE] = postgresService(input, input.postgres)
  const packaged = packageServices(fragments)
  const names = packaged.map(({ name }) => name)
  for (const [at, { name, fragment, service }] of packaged.entries())
    services[name] = packageService(input, { at, name, fragment, service, names })
  const volumes = fragments
    .flatMap((fragment) => fragment.volumes.map((volume) => volumeName(fragment, volume)))
    .toSorted()
  return {
    services,
    networks: Object.fromEntries(
      NETWORK_NAMES.map((name) => [
        name,
        {
          ...(name === 'internal' || name === 'packages' ? { internal: true } : {}),
          ipam: { config: [{ subnet: networks.subnets[name], ip_range: networks.ranges[name] }] },
        },
      ]),
    ),
    ...(volumes.length > 0 ? { volumes: Object.fromEntries(volumes.map((name) => [name, {}])) } : {}),
  }
}

/** Of every container: nothing but its own files is writable, and no process can gain rights. */
const CONFINED = {
  init: true,
  cap_drop: ['ALL'],
  security_opt: ['no-new-privileges:true'],
  restart: 'unless-stopped',
  // The default of engines grows without limit.
  logging: { driver: 'json-file', options: { 'max-size': '10m', 'max-file': '3' } },
} as const

const userOf = ({ user: { uid, gid } }: ComposeInput): string => `${uid}:${gid}`

const bind = (source: string, target: string, isReadOnly: boolean) => ({
  type: 'bind',
  source,
  target,
  ...(isReadOnly ? { read_only: true } : {}),
})

/** By address: `localhost` may mean ::1. With curl, because on a busy machine a Node in each container starts too slowly. */
function healthCheck(port: number): object {
  const test = ['CMD', 'curl', '-fsS', '--noproxy', '*', '-o', '/dev/null', `http://127.0.0.1:${port}/health`]
  return { test, interval: '15s', timeout: '10s', retries: 3, start_period: '30s' }
}

function daemonService(daemon: DaemonName, input: ComposeInput): object {
  const { instance, root, image, envFiles, networks, published, postgres, hasOutsideDatabase, engineSocket } = input
  const { isOutbound, hasPackages } = DAEMON_NEEDS[daemon]
  const isTraced = input.hasCollector === true && needsSetting(daemon, 'OTEL_EXPORTER_OTLP_ENDPOINT')
  const inside = containerRoot(input)
  const isPublished = daemon === 'proxyd' || daemon === 'routd'
  const joined: Partial<Record<NetworkName, object>> = {
    internal: daemon === 'proxyd' ? { ipv4_address: networks.proxyd } : {},
    ...(hasPackages ? { packages: {} } : {}),
    ...(isPublished ? { front: {} } : {}),
    ...(isOutbound || hasOutsideDatabase || isTraced ? { outbound: {} } : {}),
  }
  const socket = daemon === 'runed' ? engineSocket : undefined
  return {
    image,
    entrypoint: ['svc'],
    command: ['serve', instance, daemon],
    user: userOf(input),
    ...(socket?.gid === undefined ? {} : { group_add: [String(socket.gid)] }),
    // Operators type commands on this machine; a value in .env takes precedence.
    environment: {
      SVC_DATA_DIR: CONTAINER_DATA_ROOT,
      HOME: '/tmp',
      SVC_COMMAND: `${dataDirVariable(dirname(root))}svc`,
    },
    ...CONFINED,
    read_only: true,
    tmpfs: ['/tmp'],
    volumes: [
      bind(envFiles[daemon], join(inside, '.env'), true),
      ...mountsOf(daemon, postgres !== undefined || hasOutsideDatabase).map(([name, mode]) =>
        bind(join(root, name), join(inside, name), mode === 'ro'),
      ),
      ...(socket ? [bind(socket.path, ENGINE_SOCKET_INSIDE, false)] : []),
    ],
    networks: joined,
    ...(isPublished ? { ports: [`${published[daemon]}:${CONTAINER_PORT}`] } : {}),
    ...(postgres ? { depends_on: { [POSTGRES_SERVICE]: { condition: 'service_healthy' } } } : {}),
    healthcheck: healthCheck(CONTAINER_PORT),
    // A daemon finishes its requests, and runed its turns.
    stop_grace_period: '30s',
  }
}

function egressService(input: ComposeInput): object {
  return {
    image: input.image,
    entrypoint: ['egress-proxy'],
    command: ['proxy', 'serve'],
    user: userOf(input),
    environment: {
      HOME: '/tmp',
      EGRESS_PROXY_ADDR: `0.0.0.0:${EGRESS_PORT}`,
      // In its own container only: a client of this listener decides what services may reach.
      EGRESS_ADMIN_ADDR: `127.0.0.1:${EGRESS_ADMIN_PORT}`,
      EGRESS_TRANSPARENT_ADDR: '',
      EGRESS_STATE_PATH: EGRESS_STATE,
      EGRESS_DENY_PRIVATE: 'true',
    },
    ...CONFINED,
    read_only: true,
    tmpfs: ['/tmp'],
    volumes: [bind(input.stateFile, EGRESS_STATE, true), bind(input.egressConfig, EGRESS_CONFIG, true)],
    networks: { packages: { ipv4_address: input.networks.egressProxy }, outbound: {} },
    healthcheck: healthCheck(EGRESS_ADMIN_PORT),
    stop_grace_period: '15s',
  }
}

const POSTGRES_PASSWORD_FILE = '/run/password'

function postgresService(input: ComposeInput, { image, passwordFile }: NonNullable<ComposeInput['postgres']>): object {
  return {
    image,
    user: userOf(input),
    environment: {
      POSTGRES_USER: 'svc',
      POSTGRES_DB: 'svc',
      POSTGRES_PASSWORD_FILE,
      // The order of bytes, as in SQLite; other orders change with the C library and damage indexes.
      POSTGRES_INITDB_ARGS: '--auth=scram-sha-256 --data-checksums --encoding=UTF8 --locale=C',
      PGDATA: '/var/lib/postgresql/data/cluster',
    },
    ...CONFINED,
    read_only: true,
    tmpfs: ['/tmp'],
    volumes: [
      bind(join(input.root, POSTGRES_DIRECTORY), '/var/lib/postgresql/data', false),
      bind(join(input.root, POSTGRES_SOCKET_DIRECTORY), '/var/run/postgresql', false),
      bind(passwordFile, POSTGRES_PASSWORD_FILE, true),
    ],
    networks: { internal: {} },
    healthcheck: {
      // By TCP: while the image prepares the database, it listens on the socket only.
      test: ['CMD', 'pg_isready', '--host=127.0.0.1', '--username=svc', '--dbname=svc'],
      interval: '5s',
      timeout: '5s',
      retries: 5,
      start_period: '60s',
    },
    shm_size: '256m',
    stop_signal: 'SIGINT',
    stop_grace_period: '1m',
  }
}

interface PlacedService extends PackageService {
  readonly at: number
  /** Of all packages. */
  readonly names: readonly string[]
}

/** Volumes of two packages may have the same name. */
function volumeName(fragment: Fragment, volume: string): string {
  return `${fragment.name}_${volume}`
}

function packageService(input: ComposeInput, { at, name, fragment, service, names }: PlacedService): object {
  const { root, networks, serviceEnvFiles } = input
  const proxy = `http://${EGRESS_SERVICE}:${EGRESS_PORT}`
  const direct = ['localhost', '127.0.0.1', ...DAEMON_HOSTS, ...names].join(',')
  const envFile = serviceEnvFiles.get(name)
  const { environment = {}, volumes = [], depends_on, user, command, entrypoint, image, ...rest } = service
  return {
    image,
    ...(entrypoint === undefined ? {} : { entrypoint }),
    ...(command === undefined ? {} : { command }),
    // Without a group, engines choose that of root.
    ...(user === undefined ? {} : { user: user.includes(':') ? user : `${user}:${user}` }),
    ...CONFINED,
    environment: {
      // Programs disagree about the case.
      ...{ HTTP_PROXY: proxy, HTTPS_PROXY: proxy, NO_PROXY: direct },
      ...{ http_proxy: proxy, https_proxy: proxy, no_proxy: direct },
      ...environment,
    },
    ...(envFile === undefined ? {} : { env_file: [envFile] }),
    ...(volumes.length === 0
      ? {}
      : {
          volumes: volumes.map(({ kind, source, target, isReadOnly }) =>
            kind === 'file'
              ? bind(join(root, 'services', fragment.name, source), target, true)
              : {
                  type: 'volume',
                  source: volumeName(fragment, source),
                  target,
                  ...(isReadOnly ? { read_only: true } : {}),
                },
          ),
        }),
    networks: { packages: { ipv4_address: networks.packageService(at) } },
    ...(depends_on === undefined
      ? {}
      : {
          depends_on: Object.fromEntries(
            Object.entries(depends_on).map(([other, condition]) => [other, { condition }]),
          ),
        }),
    ...rest,
  }
}
