// How long things may take, and how many there may be (decision X7). No limit cuts a transfer that moves.

export interface Limits {
  /** From the first look at a connection to the whole head of its request. */
  readonly headMs: number
  /** One address. */
  readonly connectMs: number
  /** All addresses of a name. */
  readonly dialMs: number
  readonly dnsMs: number
  /** From the end of a request to the head of its answer. */
  readonly responseMs: number
  /** Between two requests on one connection. */
  readonly keepAliveMs: number
  /** A tunnel without a byte in either direction. */
  readonly idleMs: number
  /** The same, after one side has ended. */
  readonly lingerMs: number
  /** What is under way when the proxy stops. */
  readonly drainMs: number
  readonly maxConnections: number
  readonly maxPerSource: number
}

export const LIMITS: Limits = {
  headMs: 10_000,
  connectMs: 10_000,
  dialMs: 30_000,
  dnsMs: 5_000,
  responseMs: 120_000,
  keepAliveMs: 60_000,
  idleMs: 3_600_000,
  lingerMs: 60_000,
  drainMs: 10_000,
  maxConnections: 65_536,
  maxPerSource: 4096,
}
