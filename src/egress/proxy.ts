// Runs the proxy as a part of a process: `startProxy` and `close`.
import { lookup } from 'node:dns/promises'
import { networkInterfaces } from 'node:os'
import { setTimeout as wait } from 'node:timers/promises'
import { type FaultHandler, guard } from '../lib/fault-boundary.ts'
import { refuse } from '../lib/refusal.ts'
import type { ListenEndpoint } from '../lib/settings.ts'
import { canonicalAddress } from './address/ip-address.ts'
import { type AdminServer, openAdminServer } from './admin/admin-server.ts'
import { isListening } from './admin/listener-probe.ts'
import { DEFAULT_PROXY_LIMITS, type ProxyLimits } from './connection/limits.ts'
import { type DnsResult, openResolver, type Resolver, type ResolverOptions } from './dns/resolver.ts'
import { SourceRegistry } from './policy/source-registry.ts'
import { formatMessageLine } from './reporting/access-record.ts'
import type { DeniedRequest } from './reporting/denial-batch.ts'
import { startDeniedSummary } from './reporting/denied-summary.ts'
import type { MetricsSnapshot } from './reporting/metrics-snapshot.ts'
import { type Kernel, openKernel } from './transport/kernel.ts'
import { type ListenerName, listenError } from './transport/listen-error.ts'
import { countOpenFiles, type FileShares, openFileLimit, shareFiles } from './transport/open-files.ts'
import type { SocketAddress } from './transport/transport.ts'
import type { DataPlaneOptions } from './worker/data-plane.ts'
import {
  type DataPlaneClient,
  type DataPlaneHost,
  openInProcessDataPlane,
  openWorkerDataPlane,
} from './worker/data-plane-client.ts'
import { type SocketSource, SocketSources, type SourceOptions } from './worker/socket-sources.ts'

export type { DeniedRequest } from './reporting/denial-batch.ts'
export type { SocketSource, SourceOptions } from './worker/socket-sources.ts'

export interface ProxyOptions {
  /** A listener without an endpoint is not opened. */
  readonly listen?: ListenEndpoint | undefined
  readonly transparent?: ListenEndpoint | undefined
  /** Warn instead of refusing when this machine cannot open a transparent listener. */
  readonly transparentIsOptional?: boolean | undefined
  readonly admin?: readonly ListenEndpoint[] | undefined
  /** Host names accepted by the admin listener, in addition to addresses, `localhost` and names without a dot. */
  readonly adminHosts?: readonly string[] | undefined
  /** Bearer token that may change the registry. */
  readonly secret?: string | undefined
  /** File of the registry; without it the registry is kept in memory. */
  readonly statePath?: string | undefined
  readonly denyPrivate?: boolean | undefined
  readonly verifySni?: boolean | undefined
  /** Appended to every denial. */
  readonly denyMessage?: string | undefined
  /** 0 means "no limit". */
  readonly limits?: Partial<ProxyLimits> | undefined
  readonly dns?: Pick<ResolverOptions, 'servers' | 'hostsPath'> | undefined
  readonly io?: 'auto' | 'epoll' | 'net' | undefined
  /** Receives complete JSON lines, each with its line break. */
  readonly log?: ((lines: string) => void) | undefined
  /** Called a few times a second at most with the denied requests of sources that have an id; repeats are merged. */
  readonly onDenied?: ((denied: DeniedRequest[]) => void) | undefined
  /** Called for an internal error that ended one connection or lookup; by default it is logged. */
  readonly onFault?: ((error: unknown) => void) | undefined
  /** Number of lines that `log` has dropped, for the metrics. */
  readonly droppedLines?: (() => number) | undefined
}

export interface EgressProxy {
  readonly forward?: SocketAddress | undefined
  readonly transparent?: SocketAddress | undefined
  readonly admin: readonly SocketAddress[]
  /** A change has taken effect when its promise resolves. */
  readonly sources: SourceRegistry
  /** Opens a source identified by a listening socket that a child process hands over. Refused with `io: 'net'`. */
  openSource(options: SourceOptions): Promise<SocketSource>
  snapshot(): Promise<MetricsSnapshot>
  /** Waits for open connections to finish, up to `limits.drainMs`; closes socket sources at once. */
  close(): Promise<void>
  /** Resolves when the proxy has ended because of an internal error. */
  readonly died: Promise<unknown>
}

export async function startProxy(options: ProxyOptions): Promise<EgressProxy> {
  const log = options.log ?? ((lines) => void process.stderr.write(lines))
  const warn = (sentence: string): void => log(formatMessageLine('warn', sentence))
  const kernel = openKernelFor(options)
  if (options.transparent && !kernel) {
    if (!options.transparentIsOptional) refuse('unsupported', `${NO_TRANSPARENT} can be opened: ${ITS_NEEDS}`)
    warn(`${NO_TRANSPARENT} is opened: ${ITS_NEEDS}`)
  }
  const { promise: died, resolve: onDied } = Promise.withResolvers<unknown>()
  const sources = await SourceRegistry.open(options.statePath, warn)
  const files = shareFiles(openFileLimit(), countOpenFiles())
  const limits = limitsOf(options.limits, files)
  const resolver = openResolver({ ...options.dns, timeoutMs: limits.dnsMs })
  let dataPlane: DataPlaneClient | undefined
  let closing: Promise<void> | undefined
  const snapshot = async (): Promise<MetricsSnapshot> => ({
    ...(await (dataPlane?.snapshot() ?? refuse('unavailable', 'the proxy is starting'))),
    droppedLines: options.droppedLines?.() ?? 0,
  })
  const testForward = async () => {
    if (!options.listen) return 'none'
    const at = dataPlane?.listening.forward
    // The kernel accepts connections even if the worker hangs, so the worker itself must reply too.
    const replies =
      dataPlane && Promise.race([dataPlane.apply([]).then(() => true), wait(REPLY_MS, false, { ref: false })])
    return at && (await replies) && (await isListening(at)) ? 'alive' : 'dead'
  }
  const onFault = (incident: string, error: unknown): void => warn(`admin request ${incident} failed: ${error}`)
  const reportFault = options.onFault ?? ((error: unknown): void => warn(`internal error: ${error}`))
  const parts = {
    sources,
    snapshot,
    testForward,
    isDraining: () => closing !== undefined,
    secret: options.secret,
    // Names that it listens on are accepted in requests.
    hosts: [...(options.adminHosts ?? []), ...(options.admin ?? []).map((listen) => listen.host)],
  }
  const admin = await openAdminServer(options.admin ?? [], parts, { onFault })
  const host: DataPlaneHost = {
    log,
    warn,
    reportDenied: (denied) => options.onDenied?.(denied),
    lookUp: guard(reportFault, async (name: string) => {
      const resolved = await resolveOrFail(resolver, name, reportFault)
      dataPlane?.completeLookup(name, resolved)
    }),
    onFault: reportFault,
    died: onDied,
  }
  try {
    dataPlane = await openDataPlane(options, { limits, maxFiles: files.transport }, admin, host, kernel)
  } catch (error) {
    await admin.close()
    resolver.close()
    throw error
  }
  const running = dataPlane
  sources.subscribe((change) => running.apply([change]))
  await running.apply(sources.list().map((entry) => ({ kind: 'set', entry })))
  const summary = startDeniedSummary(snapshot, log)
  const socketSources = new SocketSources(running, kernel)
  const shutDown = async (): Promise<void> => {
    await socketSources.close()
    await running.stop()
    await summary.close()
    await admin.close()
    await running.close()
    resolver.close()
  }
  const close = (): Promise<void> => {
    closing ??= shutDown()
    return closing
  }
  const openSource = (source: SourceOptions): Promise<SocketSource> => socketSources.open(source)
  return { ...running.listening, admin: admin.endpoints, sources, openSource, snapshot, close, died }
}

/** A connection must not wait for a lookup that failed by an internal error. */
async function resolveOrFail(resolver: Resolver, name: string, onFault: FaultHandler): Promise<DnsResult> {
  try {
    return await resolver.resolve(name)
  } catch (error) {
    onFault(error)
    return { kind: 'failed', code: 'dns-error', rcode: 'FAULT' }
  }
}

const NO_TRANSPARENT = 'no transparent listener'
/** Only the kernel knows the original destination of a redirected connection. */
const ITS_NEEDS = 'it needs Linux, a Node with node:ffi, and io auto or epoll'

function openKernelFor({ io = 'auto' }: ProxyOptions): Kernel | undefined {
  const kernel = io === 'net' ? undefined : openKernel()
  if (io === 'epoll' && !kernel)
    refuse('unsupported', 'io epoll needs Linux and a Node with node:ffi', 'leave io at auto')
  return kernel
}

async function openDataPlane(
  options: ProxyOptions,
  room: Pick<DataPlaneOptions, 'limits' | 'maxFiles'>,
  admin: AdminServer,
  host: DataPlaneHost,
  kernel: Kernel | undefined,
): Promise<DataPlaneClient> {
  const { denyPrivate = false, verifySni = true, denyMessage } = options
  const dataPlaneOptions: DataPlaneOptions = {
    listen: options.listen && (await resolveEndpoint('forward', options.listen)),
    transparent: options.transparent && (await resolveEndpoint('transparent', options.transparent)),
    denyPrivate,
    verifySni,
    denyMessage,
    ...room,
    ownPorts: admin.endpoints.map(({ port }) => port),
    reportsDenied: options.onDenied !== undefined,
  }
  if (kernel) return openWorkerDataPlane(dataPlaneOptions, host, kernel)
  return openInProcessDataPlane({ ...dataPlaneOptions, transparent: undefined }, host)
}

/** Resolves names; "::" becomes "0.0.0.0" where the machine has no IPv6. */
async function resolveEndpoint(name: ListenerName, listen: ListenEndpoint): Promise<ListenEndpoint> {
  const { host, port } = listen
  if (host === '::') return { host: hasIPv6() ? '::' : '0.0.0.0', port }
  const { address } = await lookup(host).catch((error: unknown) => {
    throw listenError(name, listen, error)
  })
  return { host: canonicalAddress(address) ?? address, port }
}

function hasIPv6(): boolean {
  return Object.values(networkInterfaces()).some((all) => all?.some(({ family }) => family === 'IPv6'))
}

/** How long the data plane may take to reply to a health check; a busy machine may need a second. */
const REPLY_MS = 3000

/** One source must not use up the connections of all others. */
const SOURCE_SHARE = 1 / 4

function limitsOf(given: Partial<ProxyLimits> = {}, files: FileShares): ProxyLimits {
  const all = { ...DEFAULT_PROXY_LIMITS, ...given }
  const maxConnections = Math.min(given.maxConnections || files.connections, files.connections)
  const share = Math.min(DEFAULT_PROXY_LIMITS.maxPerSource, Math.max(1, Math.floor(maxConnections * SOURCE_SHARE)))
  return {
    ...all,
    idleMs: Math.min(all.idleMs || TIMER_MAX_MS, TIMER_MAX_MS),
    responseMs: Math.min(all.responseMs, TIMER_MAX_MS),
    maxPerSource: (given.maxPerSource ?? share) || Number.POSITIVE_INFINITY,
    maxConnections,
    maxRefused: files.refused,
  }
}

/** The longest delay of a Node timer. */
const TIMER_MAX_MS = 2 ** 31 - 1
