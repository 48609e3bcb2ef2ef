// What one run is made of, as arguments for the engine: a network without a way out, the proxy that stands on it and on an
// ordinary one, and the workload that stands on it alone.
import { archiveOf } from './archive.ts'
import type { Engine } from './engine.ts'
import { addressAt, type Subnet, showSubnet } from './subnet.ts'
import { PREFIX } from './tag.ts'

export interface Run {
  readonly engine: Engine
  readonly tag: string
  /** Of the proxy. */
  readonly image: string
  /** The network by which the proxy reaches the world; without it, the engine's own. */
  readonly network: string | undefined
  readonly denyPrivate: boolean
}

export interface Workload {
  readonly image: string
  readonly command: readonly string[]
  readonly isTerminal: boolean
  /** Whether the kernel knows IPv6, which is then switched off. */
  readonly hasIPv6: boolean
  /** A file with the filter for system calls; without it, the engine's own filter applies. */
  readonly seccompPath?: string | undefined
}

export interface Seed {
  readonly id: string
  readonly allowlist: readonly string[]
  readonly secret: string
}

export const LABEL = 'egress-proxy.run'
const PORT = 3128
/** Only inside of the proxy's container. */
const ADMIN = '127.0.0.1:3129'
const FOLDER = 'egress-run'
/** The gateway would be the first. */
const PROXY_OFFSET = 2
const WORKLOAD_OFFSET = 3

export type Part = 'net' | 'proxy' | 'workload'

export function nameOf({ tag }: Pick<Run, 'tag'>, part: Part): string {
  return `${PREFIX}${tag}-${part}`
}

export function workloadAddress(subnet: Subnet): string {
  return addressAt(subnet, WORKLOAD_OFFSET)
}

/**
 * Internal, so that the engine routes nothing out of it. The host has no address on it either: what listens on all of the
 * host's addresses could be reached there. Docker has an option for that, and does without an address if the option is given;
 * podman gives none to an internal network without names.
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
    nameOf(run, 'net'),
  ]
}

/** It forwards connections, never packets. */
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

export function connectArgs(run: Run, subnet: Subnet): string[] {
  const address = addressAt(subnet, PROXY_OFFSET)
  return ['network', 'connect', '--ip', address, nameOf(run, 'net'), nameOf(run, 'proxy')]
}

/** The registry's one entry and the secret, for the proxy to find when it starts: neither is ever an argument. */
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
 * An init process starts the command, because the kernel drops signals without a handler for the first process of a container.
 * What could speak for another address, or change the routes, is taken from the command. Its server for names is the proxy, where
 * nobody answers: docker's own passes questions on to the world, from an internal network too.
 */
export function workloadArgs(run: Run, subnet: Subnet, workload: Workload): string[] {
  const { image, command, isTerminal, hasIPv6, seccompPath } = workload
  const [program = '', ...rest] = command
  const noIPv6 = ['all', 'default'].flatMap((name) => ['--sysctl', `net.ipv6.conf.${name}.disable_ipv6=1`])
  return [
    ...createArgs(run, 'workload'),
    '--init',
    ...['--interactive', ...(isTerminal ? ['--tty'] : [])],
    ...(hasOwnHosts(run) ? ['--no-hosts', '--hostname', HOSTNAME] : []),
    ...(seccompPath === undefined ? [] : ['--security-opt', `seccomp=${seccompPath}`]),
    ...['--network', nameOf(run, 'net'), '--ip', workloadAddress(subnet)],
    ...['--dns', addressAt(subnet, PROXY_OFFSET), '--dns-search', '.'],
    // Whoever asks all the same is not kept waiting for long.
    ...['--dns-option', 'timeout:1', '--dns-option', 'attempts:1'],
    ...['NET_RAW', 'NET_ADMIN', 'MKNOD'].flatMap((name) => ['--cap-drop', name]),
    ...(hasIPv6 ? noIPv6 : []),
    ...Object.entries(proxyVariables(subnet)).flatMap(([name, value]) => ['--env', `${name}=${value}`]),
    ...[`--entrypoint=${program}`, image, ...rest],
  ]
}

const HOSTNAME = 'workload'

/** Podman would show the workload the names in the hosts file of this machine; docker makes a file without them. */
export function hasOwnHosts({ engine }: Run): boolean {
  return engine.kind === 'podman'
}

/** The hosts file that the engine is told not to make. */
export function hostsArchive(subnet: Subnet): Buffer {
  const lines = ['127.0.0.1\tlocalhost', `${workloadAddress(subnet)}\t${HOSTNAME}`, '']
  return archiveOf([{ path: 'etc/hosts', text: lines.join('\n') }])
}

/** Both spellings of what everybody reads, and the own ones of programs that do not read those. */
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

/** Images are here by now: one of this name that a stranger has published is not fetched. What they print is not kept. */
function createArgs(run: Run, part: Part): string[] {
  const fixed = ['--pull', 'never', '--log-driver', 'none', '--security-opt', 'no-new-privileges']
  return ['create', '--name', nameOf(run, part), ...labelArgs(run), ...fixed]
}

function labelArgs({ tag }: Run): string[] {
  return ['--label', `${LABEL}=${tag}`]
}
