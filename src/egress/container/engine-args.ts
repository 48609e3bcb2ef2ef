// Engine arguments for the parts of one run: an internal network, the proxy on it and on an ordinary network, and the workload on
// the internal one only.
import { archiveOf } from './archive.ts'
import type { ContainerEngine } from './engine.ts'
import { ROUTE_REMOVER } from './route-remover.ts'
import { PREFIX } from './run-tag.ts'
import { addressAt, type Subnet, showSubnet } from './subnet.ts'

export interface Run {
  readonly engine: ContainerEngine
  readonly tag: string
  /** Image of the proxy. */
  readonly image: string
  /** Network through which the proxy reaches the world; the engine's default if absent. */
  readonly network: string | undefined
  readonly denyPrivate: boolean
  /** See `addsDefaultRoute`. A container of its own then holds the network of the workload, without that route. */
  readonly hasHolder: boolean
}

export interface Workload {
  readonly image: string
  readonly command: readonly string[]
  readonly isTerminal: boolean
  /** Whether the kernel supports IPv6, which is then switched off. */
  readonly hasIPv6: boolean
  /** Path of a seccomp profile; without it the engine's own applies. */
  readonly seccompPath?: string | undefined
}

interface Seed {
  readonly id: string
  readonly allowlist: readonly string[]
  readonly secret: string
}

export const LABEL = 'egress-proxy.run'
const PORT = 3128
/** Only inside the proxy's container. */
const ADMIN = '127.0.0.1:3129'
const FOLDER = 'egress-run'
/** The gateway would be the first. */
const PROXY_OFFSET = 2
const WORKLOAD_OFFSET = 3

type RunComponent = 'net' | 'holder' | 'proxy' | 'workload'

export function componentName({ tag }: Pick<Run, 'tag'>, part: RunComponent): string {
  return `${PREFIX}${tag}-${part}`
}

function workloadAddress(subnet: Subnet): string {
  return addressAt(subnet, WORKLOAD_OFFSET)
}

/**
 * Internal, so that the engine routes nothing out of it. The host gets no address on it either, or services that listen on all
 * addresses could be reached there. Docker has an option for that; podman assigns no address to an internal network without DNS.
 */
export function networkArgs(run: Run, subnet: Subnet): string[] {
  const own =
    run.engine.kind === 'podman' ? ['--disable-dns'] : ['--opt', 'com.docker.network.bridge.inhibit_ipv4=true']
  return [
    'network',
    'create',
    '--internal',
    ...labelArgs(run),
    '--subnet',
    showSubnet(subnet),
    ...own,
    componentName(run, 'net'),
  ]
}

/** The proxy forwards connections, never packets. */
export function proxyArgs(run: Run, subnet: Subnet): string[] {
  const network = run.network ?? (run.engine.kind === 'podman' ? 'podman' : 'bridge')
  return [
    ...createArgs(run, 'proxy'),
    ...['--network', network, '--cap-drop', 'ALL', '--sysctl', 'net.ipv4.ip_forward=0'],
    ...['--entrypoint', 'egress-proxy', run.image],
    ...['proxy', 'serve', '--config', `/${FOLDER}/config.toml`],
    ...['--listen', `${addressAt(subnet, PROXY_OFFSET)}:${PORT}`, '--admin', ADMIN, '--transparent', ''],
  ]
}

/** In the proxy's image, because the workload's may have no Node. */
export function holderArgs(run: Run, subnet: Subnet, workload: Workload): string[] {
  return [
    ...createArgs(run, 'holder'),
    ...privateNetworkArgs(run, subnet, workload),
    ...['--user', '0:0', '--cap-drop', 'ALL', '--cap-add', 'NET_ADMIN'],
    ...['--entrypoint', 'node', run.image, '--disable-warning=ExperimentalWarning', '--eval', ROUTE_REMOVER],
  ]
}

export function connectArgs(run: Run, subnet: Subnet): string[] {
  const address = addressAt(subnet, PROXY_OFFSET)
  return ['network', 'connect', '--ip', address, componentName(run, 'net'), componentName(run, 'proxy')]
}

/** The registry's only entry and the secret, passed as files: neither may be an argument. */
export function seedArchive({ denyPrivate }: Run, subnet: Subnet, { id, allowlist, secret }: Seed): Buffer {
  const entry = { ip: workloadAddress(subnet), id, allowlist }
  const config = [
    ...['[proxy]', `deny_private = ${denyPrivate}`],
    ...['[admin]', `secret = "${secret}"`],
    ...['[state]', `path = "/${FOLDER}/state.json"`, ''],
  ]
  return archiveOf([
    { path: `${FOLDER}/`, text: '' },
    { path: `${FOLDER}/config.toml`, text: config.join('\n') },
    { path: `${FOLDER}/state.json`, text: JSON.stringify([entry]) },
  ])
}

/**
 * The only network of the workload. The name server is the proxy's address, where nothing answers: docker's own forwards queries to
 * the world even from an internal network.
 */
function privateNetworkArgs(run: Run, subnet: Subnet, { hasIPv6 }: Workload): string[] {
  const noIPv6 = ['all', 'default'].flatMap((name) => ['--sysctl', `net.ipv6.conf.${name}.disable_ipv6=1`])
  return [
    ...['--network', componentName(run, 'net'), '--ip', workloadAddress(subnet)],
    ...['--dns', addressAt(subnet, PROXY_OFFSET), '--dns-search', '.'],
    // Make lookups fail fast.
    ...['--dns-option', 'timeout:1', '--dns-option', 'attempts:1'],
    ...(hasIPv6 ? noIPv6 : []),
  ]
}

/**
 * An init process starts the command, because the kernel drops unhandled signals to the first process of a container. Drops the
 * capabilities to spoof addresses or change routes.
 */
export function workloadArgs(run: Run, subnet: Subnet, workload: Workload): string[] {
  const { image, command, isTerminal, seccompPath } = workload
  const [program = '', ...rest] = command
  const network = run.hasHolder
    ? ['--network', `container:${componentName(run, 'holder')}`]
    : privateNetworkArgs(run, subnet, workload)
  return [
    ...createArgs(run, 'workload'),
    '--init',
    ...['--interactive', ...(isTerminal ? ['--tty'] : [])],
    ...(hasOwnHosts(run) ? ['--no-hosts', '--hostname', HOSTNAME] : []),
    ...(seccompPath === undefined ? [] : ['--security-opt', `seccomp=${seccompPath}`]),
    ...network,
    ...['NET_RAW', 'NET_ADMIN', 'MKNOD'].flatMap((name) => ['--cap-drop', name]),
    ...Object.entries(proxyVariables(subnet)).flatMap(([name, value]) => ['--env', `${name}=${value}`]),
    ...[`--entrypoint=${program}`, image, ...rest],
  ]
}

const HOSTNAME = 'workload'

/** Podman would copy names from this machine's hosts file; docker creates one without them. */
export function hasOwnHosts({ engine }: Run): boolean {
  return engine.kind === 'podman'
}

/** The hosts file that the engine does not create. */
export function hostsArchive(subnet: Subnet): Buffer {
  const lines = ['127.0.0.1\tlocalhost', `${workloadAddress(subnet)}\t${HOSTNAME}`, '']
  return archiveOf([{ path: 'etc/hosts', text: lines.join('\n') }])
}

/** Both spellings of the common variables, and those of programs that read neither. */
function proxyVariables(subnet: Subnet): Record<string, string> {
  const url = `http://${addressAt(subnet, PROXY_OFFSET)}:${PORT}`
  const none = 'localhost,127.0.0.1,::1'
  const common = { HTTP_PROXY: url, HTTPS_PROXY: url, FTP_PROXY: url, ALL_PROXY: url, NO_PROXY: none }
  return {
    ...common,
    ...Object.fromEntries(Object.entries(common).map(([name, value]) => [name.toLowerCase(), value])),
    NODE_USE_ENV_PROXY: '1',
    npm_config_proxy: url,
    npm_config_https_proxy: url,
    npm_config_noproxy: none,
    YARN_HTTP_PROXY: url,
    YARN_HTTPS_PROXY: url,
    PIP_PROXY: url,
    BUNDLE_HTTP_PROXY: url,
    BUNDLE_HTTPS_PROXY: url,
  }
}

/** All images are local by now: never pull one of this name that a stranger has published. Discard output logs. */
function createArgs(run: Run, part: RunComponent): string[] {
  // The image's health check is for a daemon of svc.
  const fixed = ['--pull', 'never', '--log-driver', 'none', '--no-healthcheck', '--security-opt', 'no-new-privileges']
  return ['create', '--name', componentName(run, part), ...labelArgs(run), ...fixed]
}

function labelArgs({ tag }: Run): string[] {
  return ['--label', `${LABEL}=${tag}`]
}
