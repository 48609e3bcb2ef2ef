// Turns a name into addresses, as the system would: the hosts file first, then the DNS. The questions are c-ares's own:
// the system's call (getaddrinfo) blocks one of a few threads, where eight names that hang would hold up all the others,
// and it tries the search domains of resolv.conf, so that another name would be reached than was allowed.
import { promises as dns } from 'node:dns'
import { canOpenFile } from '../open-files.ts'
import { addressesOf, answerOf, gather, LEAST_TTL_MS, type Resolved } from './answer.ts'
import { FileLook } from './file-look.ts'
import { HostsFile } from './hosts-file.ts'

export type { Resolved } from './answer.ts'

export interface Resolver {
  /** Takes a host of kind `name`: canonical, and absolute without saying so by a dot. Never rejects. */
  resolve(name: string): Promise<Resolved>
  /** What is under way fails. */
  close(): void
}

export interface ResolverOptions {
  /** Addresses, with a port where it is not 53, as `dns.setServers` takes them. Else those of the system. */
  readonly servers?: readonly string[]
  readonly hostsPath?: string
  /** For the whole of it. */
  readonly timeoutMs?: number
}

const DEADLINE_MS = 5_000
const MOST_UNDER_WAY = 1_000
const OVERLOAD: Resolved = { kind: 'failed', code: 'dns-error', rcode: 'OVERLOAD' }

export function openResolver(options: ResolverOptions = {}): Resolver {
  return new Lookups(options)
}

class Lookups implements Resolver {
  readonly #servers: readonly string[] | undefined
  readonly #timeoutMs: number
  readonly #hosts: HostsFile
  readonly #settings = new FileLook('/etc/resolv.conf')
  readonly #underWay = new Map<string, Promise<Resolved>>()
  #dns: dns.Resolver
  /** Lookups of which c-ares still has a question, also where the asker has given up or has enough. */
  #held = 0

  constructor({ servers, hostsPath = '/etc/hosts', timeoutMs = DEADLINE_MS }: ResolverOptions) {
    this.#servers = servers
    this.#timeoutMs = timeoutMs
    this.#hosts = new HostsFile(hostsPath)
    this.#settings.hasChanged(performance.now())
    this.#dns = openDns(timeoutMs, servers)
  }

  resolve(name: string): Promise<Resolved> {
    const nowMs = performance.now()
    const local = this.#hosts.find(name, nowMs) ?? loopbackOf(name)
    if (local) return Promise.resolve(addressesOf(local, LEAST_TTL_MS))
    const asked = this.#underWay.get(name)
    if (asked) return asked
    if (this.#held >= MOST_UNDER_WAY) return Promise.resolve(OVERLOAD)
    this.#followSettings(nowMs)
    const asking = this.#ask(name).finally(() => this.#underWay.delete(name))
    this.#underWay.set(name, asking)
    return asking
  }

  close(): void {
    this.#dns.cancel()
  }

  /** c-ares reads them once. What the old one still asks ends by itself. */
  #followSettings(nowMs: number): void {
    if (this.#servers || !this.#settings.hasChanged(nowMs)) return
    this.#dns = openDns(this.#timeoutMs, undefined)
  }

  #ask(name: string): Promise<Resolved> {
    this.#held++
    const hadFiles = canOpenFile()
    const four = answerOf(this.#dns.resolve4(name, { ttl: true }), hadFiles)
    const six = answerOf(this.#dns.resolve6(name, { ttl: true }), hadFiles)
    void Promise.all([four, six]).then(() => this.#held--)
    return gather(four, six, this.#timeoutMs)
  }
}

/**
 * A question that is lost is asked again. c-ares waits longer each time, and learns from the answers where to begin: with
 * a quick server at a quarter of a second, so that it takes these many to last until the deadline. It drops no question
 * alone; the longest wait bounds by how much one may outlive the deadline.
 */
function openDns(timeoutMs: number, servers: readonly string[] | undefined): dns.Resolver {
  const count = Math.max(1, (servers ?? dns.getServers()).length)
  const waits = { timeout: Math.ceil(timeoutMs / 4), maxTimeout: Math.ceil(timeoutMs / 3) }
  const resolver = new dns.Resolver({ ...waits, tries: 2 + Math.ceil(4 / count) })
  if (servers) resolver.setServers(servers)
  return resolver
}

/** These are the machine itself whatever the DNS would say, so it is not asked (RFC 6761). */
function loopbackOf(name: string): readonly string[] | undefined {
  return name === 'localhost' || name.endsWith('.localhost') ? ['127.0.0.1', '::1'] : undefined
}
