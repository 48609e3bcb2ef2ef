// Network access of agents' cells through an egress proxy in this process. Each run is a source with the allowlist of its
// folder; rule changes apply to open connections at once. The proxy starts with the first run and stops when idle.
import type { ModelAddress, Network, RunNetwork } from '../../cell/network.ts'
import { resolveAllowlist } from '../../core/access/allowlist.ts'
import { DENIAL_REASONS, NETWORK_DENIED, recordDenials } from '../../core/access/network-denials.ts'
import { networkStamp } from '../../core/change-stamps.ts'
import { HostName } from '../../core/values.ts'
import { parseAllowlistEntry } from '../../egress/policy/allowlist-entry.ts'
import type { DeniedRequest, EgressProxy, SocketSource } from '../../egress/proxy.ts'
import { timestamp } from '../../lib/clock.ts'
import type { Log } from '../../lib/log/log.ts'
import { knownLabel } from '../../lib/log/metric-registry.ts'
import type { InstanceHost } from '../../registry/context.ts'
import { StoreWatcher } from '../process/store-watcher.ts'

const IDLE_MS = 300_000
/** For all runs together; leaves file descriptors for messages. */
const CONNECTIONS_MAX = 2048
/** Size of the cache of resolved rules. */
const RESOLVED_MAX = 1000
/** Denials are written in batches of this interval. */
const RECORD_MS = 250

export interface RunNetworksOptions {
  readonly host: InstanceHost
  readonly log: Log
  /** Refuses allowed names that resolve to private addresses. */
  readonly denyPrivate: boolean
  /** Default: the resolvers of the system. */
  readonly dns?: { readonly servers?: readonly string[]; readonly hostsPath?: string } | undefined
}

interface ResolvedRules {
  /** Stamp of the rules; undefined if they could not be read. */
  readonly stamp: string | undefined
  readonly allowlist: readonly string[]
}

interface OpenSource {
  readonly folder: string
  /** Allowed in addition to the rules. */
  readonly extra: readonly string[]
  readonly source: SocketSource
  /** Stamp of its current allowlist. */
  stamp: string | undefined
}

export class RunNetworks implements Network {
  readonly #options: RunNetworksOptions
  readonly #sources = new Set<OpenSource>()
  /** By folder; valid while the stamp is unchanged. */
  readonly #resolved = new Map<string, ResolvedRules>()
  #proxy: Promise<EgressProxy> | undefined
  #watcher: StoreWatcher | undefined
  #idleTimer: NodeJS.Timeout | undefined
  #denied: DeniedRequest[] = []
  #recordTimer: NodeJS.Timeout | undefined
  #writes: Promise<void> = Promise.resolve()

  constructor(options: RunNetworksOptions) {
    this.#options = options
  }

  async open(folder: string, endpoint?: ModelAddress): Promise<RunNetwork> {
    clearTimeout(this.#idleTimer)
    const proxy = await this.#start()
    const { stamp, allowlist } = await this.#resolve(folder)
    // Unless it may be private, the model's host is an ordinary allowlist entry.
    const extra = endpoint && !endpoint.mayBePrivate && HostName.safeParse(endpoint.host).success ? [endpoint.host] : []
    const endpoints = endpoint?.mayBePrivate ? [{ host: endpoint.host, port: endpoint.port }] : []
    const source = await proxy.openSource({ id: folder, allowlist: [...allowlist, ...extra], endpoints })
    const opened: OpenSource = { folder, extra, source, stamp }
    this.#sources.add(opened)
    // The rules may have changed since they were read.
    if (this.#watcher) this.#watcher.checkSoon()
    else this.#watcher = new StoreWatcher({ host: this.#options.host, check: () => this.#applyRules() })
    return {
      handover: source.handover,
      release: () => source.release(),
      close: async () => {
        if (!this.#sources.delete(opened)) return
        if (this.#sources.size === 0) this.#stopWhenIdle()
        await source.close()
      },
    }
  }

  async close(): Promise<void> {
    clearTimeout(this.#idleTimer)
    await this.#watcher?.close()
    this.#watcher = undefined
    const proxy = this.#proxy
    this.#proxy = undefined
    await (await proxy?.catch(() => undefined))?.close()
    clearTimeout(this.#recordTimer)
    this.#record()
    await this.#writes
  }

  #start(): Promise<EgressProxy> {
    const { log, host } = this.#options
    const starting = this.#proxy ?? this.#startProxy()
    if (!this.#proxy)
      starting
        .then(
          ({ died }) =>
            died.then((error) => {
              if (this.#proxy !== starting) return
              host.faults.count('network')
              log.error({ err: error }, 'the egress proxy of agents ended; the next run starts another one')
              this.#proxy = undefined
            }),
          () => {
            if (this.#proxy === starting) this.#proxy = undefined
          },
        )
        .catch(host.faults.handler('network'))
    this.#proxy = starting
    return starting
  }

  /** Loads the proxy on demand: most processes run no agents. */
  async #startProxy(): Promise<EgressProxy> {
    const { startProxy } = await import('../../egress/proxy.ts')
    const { denyPrivate, dns, host } = this.#options
    return startProxy({
      denyPrivate,
      dns,
      limits: { maxConnections: CONNECTIONS_MAX },
      denyMessage: `An operator can allow it: svc network ${host.instance} allow <folder> <host>`,
      log: () => undefined,
      onDenied: (denied) => this.#queueDenials(denied),
      onFault: host.faults.handler('network'),
    })
  }

  /** Not at once, because a start takes longer than a short run. */
  #stopWhenIdle(): void {
    clearTimeout(this.#idleTimer)
    const { faults } = this.#options.host
    const stop = (): void => {
      if (this.#sources.size > 0) return
      const [proxy, watcher] = [this.#proxy, this.#watcher]
      this.#proxy = this.#watcher = undefined
      const closing = [watcher?.close(), proxy?.then((running) => running.close())]
      Promise.all(closing).catch(faults.handler('network'))
    }
    this.#idleTimer = setTimeout(faults.guard('network', stop), IDLE_MS).unref()
  }

  /** Fails closed: an allowlist that cannot be read is empty. */
  async #resolve(folder: string): Promise<ResolvedRules> {
    const { host, log } = this.#options
    try {
      return await host.engine.read(async (tx) => {
        const stamp = await networkStamp.read(tx)
        const cached = this.#resolved.get(folder)
        if (cached?.stamp === stamp) return cached
        const allowlist = (await resolveAllowlist(tx, folder)).filter((name) => this.#isValidEntry(folder, name))
        if (this.#resolved.size >= RESOLVED_MAX) this.#resolved.clear()
        this.#resolved.set(folder, { stamp, allowlist })
        return { stamp, allowlist }
      })
    } catch (error) {
      log.error({ folder, err: error }, 'cannot read the network rules: all hosts are denied')
      return { stamp: undefined, allowlist: [] }
    }
  }

  /** The proxy refuses a whole list for one invalid entry, such as a bare top-level domain. */
  #isValidEntry(folder: string, name: string): boolean {
    const parsed = parseAllowlistEntry(name)
    if ('host' in parsed) return true
    this.#options.log.warn({ folder, rule: name }, `ignored an invalid network rule: ${parsed.fault}`)
    return false
  }

  async #applyRules(): Promise<void> {
    const { host } = this.#options
    if (this.#sources.size === 0) return
    const stamp = await host.engine.read((tx) => networkStamp.read(tx)).catch(() => undefined)
    for (const opened of [...this.#sources]) {
      if (stamp !== undefined && opened.stamp === stamp) continue
      const rules = await this.#resolve(opened.folder)
      opened.stamp = rules.stamp
      await opened.source.set([...rules.allowlist, ...opened.extra])
    }
  }

  #queueDenials(denied: readonly DeniedRequest[]): void {
    const { metrics, faults } = this.#options.host
    for (const { reason, count } of denied)
      metrics.add(NETWORK_DENIED, { reason: knownLabel(DENIAL_REASONS, reason) }, count)
    this.#denied.push(...denied)
    this.#recordTimer ??= setTimeout(
      faults.guard('network', () => this.#record()),
      RECORD_MS,
    )
  }

  #record(): void {
    this.#recordTimer = undefined
    const denied = this.#denied.splice(0)
    if (denied.length === 0) return
    const { host, log } = this.#options
    for (const { id, at, ...rest } of denied) log.info({ folder: id, ...rest }, 'denied a host to an agent')
    const rows = denied.map(({ id, at, ...rest }) => ({ folder: id, at: timestamp(at), ...rest }))
    this.#writes = this.#writes
      .then(() => host.engine.transaction((tx) => recordDenials(tx, rows)))
      .catch((error) => host.faults.report('network', error))
  }
}
