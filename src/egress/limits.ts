// How long things may take, and how many there may be (decision X7). No limit cuts a transfer that moves.

export interface Limits {
  /** From the first look at a connection to the whole head of its request. */
  readonly headMs: number
  /** One address. */
  readonly connectMs: number
  /** All addresses of a name. */
  readonly dialMs: number
  readonly dnsMs: number
  /** From the end of a request to the head of its answer; 0 is for ever. */
  readonly responseMs: number
  /** Between two requests on one connection. */
  readonly keepAliveMs: number
  /** A connection to an origin that is kept for the next request. */
  readonly originIdleMs: number
  /** A tunnel or a body without a byte in either direction, also where one side has ended. */
  readonly idleMs: number
  /** For a client to end after its last answer. */
  readonly lingerMs: number
  /** For a client to read a refusal. */
  readonly refusalMs: number
  /** What is under way when the proxy stops. */
  readonly drainMs: number
  readonly maxConnections: number
  readonly maxPerSource: number
  /** Clients that are being told that they were refused, besides those of `maxConnections`. */
  readonly maxRefused: number
}

export const LIMITS: Limits = {
  headMs: 10_000,
  connectMs: 10_000,
  dialMs: 30_000,
  dnsMs: 5_000,
  // Answers of language models may take minutes before their first byte.
  responseMs: 900_000,
  keepAliveMs: 60_000,
  // Many origins close idle connections after five seconds. What is left sooner is never closed under a request.
  originIdleMs: 4_000,
  idleMs: 3_600_000,
  lingerMs: 60_000,
  refusalMs: 1_000,
  drainMs: 10_000,
  maxConnections: 65_536,
  maxPerSource: 4096,
  maxRefused: 256,
}
