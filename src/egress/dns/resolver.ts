// Resolves names as the system would: hosts file first, then DNS through c-ares. getaddrinfo blocks one of a few threads, so
// eight hanging names would stall all others, and it tries the search domains of resolv.conf, which could reach another name
// than the one that was allowed.
import { promises as dns } from 'node:dns'
import { canOpenFile } from '../transport/open-files.ts'
import { addressesOf, combineFamilies, type DnsResult, MIN_TTL_MS, readFamilyResult } from './dns-result.ts'
import { FileChangeDetector } from './file-change-detector.ts'
import { HostsFile } from './hosts-file.ts'

export type { DnsResult } from './dns-result.ts'

export interface Resolver {
  /** `name` is canonical and absolute. Never rejects. */
  resolve(name: string): Promise<DnsResult>
  /** Queries in progress fail. */
  close(): void
}

export interface ResolverOptions {
  /** Addresses, with a port other than 53, as `dns.setServers` takes them. By default those of the system. */
  readonly servers?: readonly string[]
  readonly hostsPath?: string
  /** Timeout of a whole lookup. */
  readonly timeoutMs?: number
}

const DEADLINE_MS = 5_000
const MAX_LOOKUPS = 1_000
const OVERLOAD: DnsResult = { kind: 'failed', code: 'dns-error', rcode: 'OVERLOAD' }

export function openResolver(options: ResolverOptions = {}): Resolver {
  return new DnsResolver(options)
}

class DnsResolver implements Resolver {
  readonly #servers: readonly string[] | undefined
  readonly #timeoutMs: number
  readonly #hosts: HostsFile
  readonly #settings = new FileChangeDetector('/etc/resolv.conf')
  readonly #pending = new Map<string, Promise<DnsResult>>()
  #dns: dns.Resolver
  /** Lookups with a c-ares query in progress, also those whose caller has timed out or has enough. */
  #activeLookups = 0

  constructor({ servers, hostsPath = '/etc/hosts', timeoutMs = DEADLINE_MS }: ResolverOptions) {
    this.#servers = servers
    this.#timeoutMs = timeoutMs
    this.#hosts = new HostsFile(hostsPath)
    this.#settings.hasChanged(performance.now())
    this.#dns = openDns(timeoutMs, servers)
  }

  resolve(name: string): Promise<DnsResult> {
    const nowMs = performance.now()
    const local = this.#hosts.find(name, nowMs) ?? loopbackOf(name)
    if (local) return Promise.resolve(addressesOf(local, MIN_TTL_MS))
    const pending = this.#pending.get(name)
    if (pending) return pending
    if (this.#activeLookups >= MAX_LOOKUPS) return Promise.resolve(OVERLOAD)
    this.#followSettings(nowMs)
    const lookup = this.#query(name).finally(() => this.#pending.delete(name))
    this.#pending.set(name, lookup)
    return lookup
  }

  close(): void {
    this.#dns.cancel()
  }

  /** c-ares reads resolv.conf only once. Queries of the old resolver finish on their own. */
  #followSettings(nowMs: number): void {
    if (this.#servers || !this.#settings.hasChanged(nowMs)) return
    this.#dns = openDns(this.#timeoutMs, undefined)
  }

  #query(name: string): Promise<DnsResult> {
    this.#activeLookups++
    const hadFiles = canOpenFile()
    const four = readFamilyResult(this.#dns.resolve4(name, { ttl: true }), hadFiles)
    const six = readFamilyResult(this.#dns.resolve6(name, { ttl: true }), hadFiles)
    const ended = (): void => {
      this.#activeLookups--
    }
    Promise.all([four, six]).then(ended, ended)
    return combineFamilies(four, six, this.#timeoutMs)
  }
}

/**
 * Retries lost queries. c-ares waits longer each time and learns the first wait from responses: 250 ms with a fast server, so
 * it takes this many tries to reach the deadline. A single query cannot be cancelled; the longest wait bounds how far one
 * outlives the deadline.
 */
function openDns(timeoutMs: number, servers: readonly string[] | undefined): dns.Resolver {
  const count = Math.max(1, (servers ?? dns.getServers()).length)
  const waits = { timeout: Math.ceil(timeoutMs / 4), maxTimeout: Math.ceil(timeoutMs / 3) }
  const resolver = new dns.Resolver({ ...waits, tries: 2 + Math.ceil(4 / count) })
  if (servers) resolver.setServers(servers)
  return resolver
}

/** Loopback names (RFC 6761), which are never sent to the DNS. */
function loopbackOf(name: string): readonly string[] | undefined {
  return name === 'localhost' || name.endsWith('.localhost') ? ['127.0.0.1', '::1'] : undefined
}
