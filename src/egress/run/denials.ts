// Collects what the proxy of a run denied, from its log, to show which hosts the list probably lacks.

const HOSTS_MAX = 1000
const SHOWN_MAX = 10
/** The workload chose the name, and it goes to a terminal. */
const PLAIN = /^[\w.:-]{1,253}$/

export class Denials {
  readonly #counts = new Map<string, number>()

  /** Reads a log line. */
  read(line: string): void {
    if (!line.includes('"verdict":"deny"')) return
    const { host, sni, port } = fieldsOf(line)
    // If a TLS name was refused, that is the one to allow.
    const name = sni ?? host
    if (typeof name !== 'string' || !PLAIN.test(name)) return
    const key = `${name}:${Number(port)}`
    const count = this.#counts.get(key) ?? 0
    if (count > 0 || this.#counts.size < HOSTS_MAX) this.#counts.set(key, count + 1)
  }

  /** Undefined if nothing was denied. */
  sentence(): string | undefined {
    if (this.#counts.size === 0) return undefined
    const hosts = [...this.#counts].sort(([, a], [, b]) => b - a)
    const shown = hosts.slice(0, SHOWN_MAX).map(([host, count]) => (count > 1 ? `${host} (${count} times)` : host))
    const more = hosts.length - shown.length
    return `denied: ${shown.join(', ')}${more > 0 ? `, and ${more} more` : ''}`
  }
}

function fieldsOf(line: string): { host?: unknown; sni?: unknown; port?: unknown } {
  try {
    return JSON.parse(line)
  } catch {
    return {}
  }
}
