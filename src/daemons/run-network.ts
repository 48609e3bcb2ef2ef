// The way out of the agents' cells: an egress proxy inside this process. Each run is a source of its own, whose allowlist
// is what its folder's network rules resolve to; a change of the rules applies to open connections at once. The proxy starts
// with the first run and ends when there have been none for a while.
import type { ModelEndpoint, Network, RunNetwork } from '../cell/network.ts'
import { resolveAllowlist } from '../core/allowlist.ts'
import { recordDenials } from '../core/network-denials.ts'
import { networkStamp } from '../core/stamp.ts'
import { HostName } from '../core/values.ts'
import { parseEntry } from '../egress/entry.ts'
import { type DeniedRequest, type EgressProxy, type SocketSource, startProxy } from '../egress/proxy.ts'
import { timestamp } from '../lib/clock.ts'
import type { Log } from '../lib/log.ts'
import type { Host } from '../registry/context.ts'
import { Lookout } from './lookout.ts'

const IDLE_MS = 300_000
/** Of all runs together: the files of this process are for messages first. */
const CONNECTIONS_MAX = 2048
/** Folders whose resolved rules are kept. */
const RESOLVED_MAX = 1000
/** Denials of so long are written together. */
const RECORD_MS = 250

export interface RunNetworksOptions {
  readonly host: Host
  readonly log: Log
  /** Whether allowed names that lead to private addresses are refused. */
  readonly denyPrivate: boolean
  /** Where names are looked up; the system's resolvers unless said. */
  readonly dns?: { readonly servers?: readonly string[]; readonly hostsPath?: string } | undefined
}

interface ResolvedRules {
  /** What the rules' stamp was when they were read; undefined where they could not be read. */
  readonly stamp: string | undefined
  readonly allowlist: readonly string[]
}

interface OpenSource {
  readonly folder: string
  /** Allowed besides the rules. */
  readonly extra: readonly string[]
  readonly source: SocketSource
  /** Of the list that it has. */
  stamp: string | undefined
}

export class RunNetworks implements Network {
  readonly #options: RunNetworksOptions
  readonly #sources = new Set<OpenSource>()
  /** By folder, as long as the stamp is the same. */
  readonly #resolved = new Map<string, ResolvedRules>()
  #proxy: Promise<EgressProxy> | undefined
  #rules: Lookout | undefined
  #idle: NodeJS.Timeout | undefined
  #denied: DeniedRequest[] = []
  #recording: NodeJS.Timeout | undefined
  #written: Promise<void> = Promise.resolve()

  constructor(options: RunNetworksOptions) {
    this.#options = options
  }

  async open(folder: string, endpoint?: ModelEndpoint): Promise<RunNetwork> {
    clearTimeout(this.#idle)
    const proxy = await this.#start()
    const { stamp, allowlist } = await this.#resolve(folder)
    // Without leave for private addresses it is a name like any other.
    const extra = endpoint && !endpoint.mayBePrivate && HostName.safeParse(endpoint.host).success ? [endpoint.host] : []
    const endpoints = endpoint?.mayBePrivate ? [{ host: endpoint.host, port: endpoint.port }] : []
    const source = await proxy.openSource({ id: folder, allowlist: [...allowlist, ...extra], endpoints })
    const opened: OpenSource = { folder, extra, source, stamp }
    this.#sources.add(opened)
    // The rules may have changed since they were read.
    if (this.#rules) this.#rules.soon()
    else this.#rules = new Lookout({ host: this.#options.host, look: () => this.#follow() })
    return {
      handover: source.handover,
      release: () => source.release(),
      close: async () => {
        if (!this.#sources.delete(opened)) return
        if (this.#sources.size === 0) this.#rest()
        await source.close()
      },
    }
  }

  async close(): Promise<void> {
    clearTimeout(this.#idle)
    await this.#rules?.close()
    this.#rules = undefined
    const proxy = this.#proxy
    this.#proxy = undefined
    await (await proxy?.catch(() => undefined))?.close()
    clearTimeout(this.#recording)
    this.#record()
    await this.#written
  }

  #start(): Promise<EgressProxy> {
    const { log, denyPrivate, dns, host } = this.#options
    const starting =
      this.#proxy ??
      startProxy({
        denyPrivate,
        dns,
        limits: { maxConnections: CONNECTIONS_MAX },
        denyMessage: `An operator can allow it: svc network ${host.instance} allow <folder> <host>`,
        log: () => undefined,
        onDenied: (denied) => this.#note(denied),
      })
    if (!this.#proxy)
      void starting.then(
        ({ died }) =>
          died.then((error) => {
            if (this.#proxy !== starting) return
            log.error({ err: error }, 'the proxy of the agents ended; the next run starts another one')
            this.#proxy = undefined
          }),
        () => {
          if (this.#proxy === starting) this.#proxy = undefined
        },
      )
    this.#proxy = starting
    return starting
  }

  /** Stops the proxy and the watch of the rules after a while without runs; starting either takes longer than a short run. */
  #rest(): void {
    clearTimeout(this.#idle)
    this.#idle = setTimeout(() => {
      if (this.#sources.size > 0) return
      const [proxy, rules] = [this.#proxy, this.#rules]
      this.#proxy = this.#rules = undefined
      const closing = [rules?.close(), proxy?.then((running) => running.close())]
      void Promise.all(closing).catch((error) => this.#options.host.onStray?.(error))
    }, IDLE_MS).unref()
  }

  /** An allowlist that cannot be read is an empty one. */
  async #resolve(folder: string): Promise<ResolvedRules> {
    const { host, log } = this.#options
    try {
      return await host.engine.read(async (tx) => {
        const stamp = await networkStamp.read(tx)
        const known = this.#resolved.get(folder)
        if (known?.stamp === stamp) return known
        const allowlist = (await resolveAllowlist(tx, folder)).filter((name) => this.#isEntry(folder, name))
        if (this.#resolved.size >= RESOLVED_MAX) this.#resolved.clear()
        this.#resolved.set(folder, { stamp, allowlist })
        return { stamp, allowlist }
      })
    } catch (error) {
      log.error({ folder, err: error }, 'the network rules could not be read: everything is denied')
      return { stamp: undefined, allowlist: [] }
    }
  }

  /** The proxy refuses a whole list for one entry that would allow far more than was meant, such as a bare top-level name. */
  #isEntry(folder: string, name: string): boolean {
    const parsed = parseEntry(name)
    if ('host' in parsed) return true
    this.#options.log.warn({ folder, rule: name }, `a network rule allows nothing: ${parsed.fault}`)
    return false
  }

  async #follow(): Promise<void> {
    const { host } = this.#options
    if (this.#sources.size === 0) return
    const stamp = await host.engine.read((tx) => networkStamp.read(tx)).catch(() => undefined)
    for (const opened of [...this.#sources]) {
      if (stamp !== undefined && opened.stamp === stamp) continue
      const now = await this.#resolve(opened.folder)
      opened.stamp = now.stamp
      await opened.source.set([...now.allowlist, ...opened.extra])
    }
  }

  #note(denied: readonly DeniedRequest[]): void {
    this.#denied.push(...denied)
    this.#recording ??= setTimeout(() => this.#record(), RECORD_MS)
  }

  #record(): void {
    this.#recording = undefined
    const denied = this.#denied.splice(0)
    if (denied.length === 0) return
    const { host, log } = this.#options
    for (const { id, at, ...rest } of denied) log.info({ folder: id, ...rest }, 'an agent was denied a host')
    const rows = denied.map(({ id, at, ...rest }) => ({ folder: id, at: timestamp(at), ...rest }))
    this.#written = this.#written
      .then(() => host.engine.transaction((tx) => recordDenials(tx, rows)))
      .catch((error) => host.onStray?.(error))
  }
}
