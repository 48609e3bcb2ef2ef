// The proxy as a part of a program: `startProxy` and, when it is no longer wanted, `close`.
import { lookup } from 'node:dns/promises'
import { networkInterfaces } from 'node:os'
import { setTimeout as wait } from 'node:timers/promises'
import { refuse } from '../lib/refusal.ts'
import type { Listen } from '../lib/settings.ts'
import { canonicalAddress } from './address-text.ts'
import { isListening } from './admin/self-test.ts'
import { type Admin, openAdmin } from './admin.ts'
import type { CoreOptions } from './core.ts'
import { type CoreHost, type CorePort, openNetCore, openThreadCore } from './core-port.ts'
import type { DeniedRequest } from './denial-batch.ts'
import { summarizeDenied } from './denied-summary.ts'
import { openResolver, type ResolverOptions } from './dns/resolver.ts'
import { lineOfWords } from './exchange.ts'
import { LIMITS, type Limits } from './limits.ts'
import { type ListenerName, listenFault } from './listen-fault.ts'
import { countOpenFiles, type FileShares, openFileLimit, shareFiles } from './open-files.ts'
import type { Snapshot } from './snapshot.ts'
import { type SocketSource, SocketSources, type SourceOptions } from './socket-sources.ts'
import { Sources } from './sources.ts'
import type { Endpoint } from './wire.ts'
import { type Kernel, openKernel } from './wires/kernel.ts'

export type { DeniedRequest } from './denial-batch.ts'
export type { SocketSource, SourceOptions } from './socket-sources.ts'

export interface ProxyOptions {
  /** Without one, no forward listener; so with the others. */
  readonly listen?: Listen | undefined
  readonly transparent?: Listen | undefined
  /** Where this machine cannot have a transparent listener, that is a warning and not a refusal. */
  readonly transparentIsOptional?: boolean | undefined
  readonly admin?: readonly Listen[] | undefined
  /** Host names by which the admin listener may be asked, besides addresses, `localhost` and names without a dot. */
  readonly adminHosts?: readonly string[] | undefined
  /** The bearer of whoever may change the registry. */
  readonly secret?: string | undefined
  /** Where the registry is kept; without it, in memory. */
  readonly statePath?: string | undefined
  readonly denyPrivate?: boolean | undefined
  readonly verifySni?: boolean | undefined
  /** A sentence that is added to every denial. */
  readonly denyMessage?: string | undefined
  /** Of the numbers, 0 stands for "no limit". */
  readonly limits?: Partial<Limits> | undefined
  readonly dns?: Pick<ResolverOptions, 'servers' | 'hostsPath'> | undefined
  readonly io?: 'auto' | 'epoll' | 'net' | undefined
  /** Given whole lines of JSON, each with its line break. */
  readonly log?: ((lines: string) => void) | undefined
  /** Told of denied requests of sources that have an id, a few times a second at most; repeats are one entry. */
  readonly onDenied?: ((denied: DeniedRequest[]) => void) | undefined
  /** How many lines `log` could not take, for the metrics. */
  readonly droppedLines?: (() => number) | undefined
}

export interface EgressProxy {
  readonly forward?: Endpoint | undefined
  readonly transparent?: Endpoint | undefined
  readonly admin: readonly Endpoint[]
  /** Who may reach what. A change is in force when its promise is kept. */
  readonly sources: Sources
  /** A source that is known by its listening socket, which a child process hands over. Refused on `io: 'net'`. */
  openSource(options: SourceOptions): Promise<SocketSource>
  snapshot(): Promise<Snapshot>
  /** Lets what is under way end, for as long as `limits.drainMs`; socket sources are closed at once. */
  close(): Promise<void>
  /** Kept when the proxy has ended by a fault of its own. */
  readonly died: Promise<unknown>
}

export async function startProxy(options: ProxyOptions): Promise<EgressProxy> {
  const log = options.log ?? ((lines) => void process.stderr.write(lines))
  const warn = (sentence: string): void => log(lineOfWords('warn', sentence))
  const kernel = kernelFor(options)
  if (options.transparent && !kernel) {
    if (!options.transparentIsOptional) refuse('unsupported', `${NO_TRANSPARENT} can be opened: ${ITS_NEEDS}`)
    warn(`${NO_TRANSPARENT} is opened: ${ITS_NEEDS}`)
  }
  const { promise: died, resolve: dies } = Promise.withResolvers<unknown>()
  const sources = await Sources.open(options.statePath, warn)
  const files = shareFiles(openFileLimit(), countOpenFiles())
  const limits = limitsOf(options.limits, files)
  const resolver = openResolver({ ...options.dns, timeoutMs: limits.dnsMs })
  let core: CorePort | undefined
  let closing: Promise<void> | undefined
  const snapshot = async (): Promise<Snapshot> => ({
    ...(await (core?.snapshot() ?? refuse('unavailable', 'the proxy is starting'))),
    droppedLines: options.droppedLines?.() ?? 0,
  })
  const testForward = async () => {
    if (!options.listen) return 'none'
    const at = core?.listening.forward
    // The kernel answers for a thread that hangs: it must say something itself, too.
    const answers = core && Promise.race([core.apply([]).then(() => true), wait(ANSWER_MS, false, { ref: false })])
    return at && (await answers) && (await isListening(at)) ? 'alive' : 'dead'
  }
  const onFault = (incident: string, error: unknown): void => warn(`admin request ${incident} failed: ${error}`)
  const parts = {
    sources,
    snapshot,
    testForward,
    isDraining: () => closing !== undefined,
    secret: options.secret,
    // A name that it listens at is one by which it is asked.
    hosts: [...(options.adminHosts ?? []), ...(options.admin ?? []).map((listen) => listen.host)],
  }
  const admin = await openAdmin(options.admin ?? [], parts, { onFault })
  const host: CoreHost = {
    log,
    warn,
    denied: (denied) => options.onDenied?.(denied),
    ask: (name) => void resolver.resolve(name).then((resolved) => core?.resolved(name, resolved)),
    died: dies,
  }
  try {
    core = await openCore(options, { limits, maxFiles: files.wires }, admin, host, kernel)
  } catch (error) {
    await admin.close()
    resolver.close()
    throw error
  }
  const running = core
  sources.listen((change) => running.apply([change]))
  await running.apply(sources.list().map((entry) => ({ kind: 'set', entry })))
  const summary = summarizeDenied(snapshot, log)
  const socketSources = new SocketSources(running, kernel)
  const shut = async (): Promise<void> => {
    await socketSources.close()
    await running.stop()
    await summary.close()
    await admin.close()
    await running.close()
    resolver.close()
  }
  const close = (): Promise<void> => {
    closing ??= shut()
    return closing
  }
  const openSource = (source: SourceOptions): Promise<SocketSource> => socketSources.open(source)
  return { ...running.listening, admin: admin.endpoints, sources, openSource, snapshot, close, died }
}

const NO_TRANSPARENT = 'no transparent listener'
/** Only the kernel knows where a redirected connection was going. */
const ITS_NEEDS = 'it needs Linux, a Node with node:ffi, and io auto or epoll'

function kernelFor({ io = 'auto' }: ProxyOptions): Kernel | undefined {
  const kernel = io === 'net' ? undefined : openKernel()
  if (io === 'epoll' && !kernel)
    refuse('unsupported', 'io epoll needs Linux and a Node with node:ffi', 'leave io at auto')
  return kernel
}

async function openCore(
  options: ProxyOptions,
  room: Pick<CoreOptions, 'limits' | 'maxFiles'>,
  admin: Admin,
  host: CoreHost,
  kernel: Kernel | undefined,
): Promise<CorePort> {
  const { denyPrivate = false, verifySni = true, denyMessage } = options
  const core: CoreOptions = {
    listen: options.listen && (await placeOf('forward', options.listen)),
    transparent: options.transparent && (await placeOf('transparent', options.transparent)),
    denyPrivate,
    verifySni,
    denyMessage,
    ...room,
    ownPorts: admin.endpoints.map(({ port }) => port),
    reportsDenied: options.onDenied !== undefined,
  }
  if (kernel) return openThreadCore(core, host, kernel)
  return openNetCore({ ...core, transparent: undefined }, host)
}

/** Names become addresses; "everywhere" is both families where the machine has both. */
async function placeOf(name: ListenerName, listen: Listen): Promise<Listen> {
  const { host, port } = listen
  if (host === '::') return { host: hasIPv6() ? '::' : '0.0.0.0', port }
  const { address } = await lookup(host).catch((error: unknown) => {
    throw listenFault(name, listen, error)
  })
  return { host: canonicalAddress(address) ?? address, port }
}

function hasIPv6(): boolean {
  return Object.values(networkInterfaces()).some((all) => all?.some(({ family }) => family === 'IPv6'))
}

/** How long the data side may take to say that it is there: a machine that is busy for a second has not lost it. */
const ANSWER_MS = 3000

/** One source alone must not take the connections of all others. */
const SOURCE_PART = 1 / 4

function limitsOf(given: Partial<Limits> = {}, files: FileShares): Limits {
  const all = { ...LIMITS, ...given }
  const maxConnections = Math.min(given.maxConnections || files.connections, files.connections)
  const share = Math.min(LIMITS.maxPerSource, Math.max(1, Math.floor(maxConnections * SOURCE_PART)))
  return {
    ...all,
    idleMs: Math.min(all.idleMs || FOREVER_MS, FOREVER_MS),
    responseMs: Math.min(all.responseMs, FOREVER_MS),
    maxPerSource: (given.maxPerSource ?? share) || Number.POSITIVE_INFINITY,
    maxConnections,
    maxRefused: files.refused,
  }
}

/** The longest that a timer of Node's lasts. */
const FOREVER_MS = 2 ** 31 - 1
