// Timeouts and limits of the proxy. None of them interrupts a transfer that makes progress. See docs/decisions.md#proxy-limits.

export interface ProxyLimits {
  /** From accepting a connection to the complete head of its request. */
  readonly headMs: number
  /** Connecting to one address. */
  readonly connectMs: number
  /** Connecting to all addresses of a name. */
  readonly dialMs: number
  readonly dnsMs: number
  /** From the end of a request to the head of its response; 0 is unlimited. */
  readonly responseMs: number
  /** Between two requests on a client connection. */
  readonly keepAliveMs: number
  /** Keeping an idle origin connection for the next request. */
  readonly originIdleMs: number
  /** A tunnel or body without a byte in either direction, also after one side has ended. */
  readonly idleMs: number
  /** For a client to close after its last response. */
  readonly lingerMs: number
  /** For a client to read an error response. */
  readonly refusalMs: number
  /** For open connections to finish when the proxy stops. */
  readonly drainMs: number
  readonly maxConnections: number
  readonly maxPerSource: number
  /** Refused clients that still read their error response, in addition to `maxConnections`. */
  readonly maxRefused: number
}

export const DEFAULT_PROXY_LIMITS: ProxyLimits = {
  headMs: 10_000,
  connectMs: 10_000,
  dialMs: 30_000,
  dnsMs: 5_000,
  // Language models may take minutes to send the first byte.
  responseMs: 900_000,
  keepAliveMs: 60_000,
  // Many origins close idle connections after five seconds; closing earlier avoids a close while a request is on its way.
  originIdleMs: 4_000,
  idleMs: 3_600_000,
  lingerMs: 60_000,
  refusalMs: 1_000,
  drainMs: 10_000,
  maxConnections: 65_536,
  maxPerSource: 4096,
  maxRefused: 256,
}
