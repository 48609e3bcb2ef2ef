// State and services that every client connection uses: policy, dialer, limits, and access records.

import type { HostPort } from '../address/host-port.ts'
import type { CompiledSource } from '../policy/policy.ts'
import type { AccessRecord } from '../reporting/access-record.ts'
import type { TcpTransport } from '../transport/transport.ts'
import type { Dialer } from './dialer.ts'
import type { ProxyLimits } from './limits.ts'
import type { LingerLimit } from './linger-limit.ts'

/** A client connection that a policy change or a shutdown may end. */
export interface ClientSession {
  /** Hosts that it is connected or connecting to. */
  readonly destinations: readonly HostPort[]
  readonly isTunnel: boolean
  /** Bytes of the request or tunnel in progress. */
  readonly moved: { readonly up: number; readonly down: number }
  /** Ends it at once because its destination is no longer allowed. */
  revoke(): void
  /** The proxy is about to stop: ends it if it is idle, else lets it finish. */
  drain(): void
  /** Ends it at once because the proxy stops. */
  stop(): void
}

export const NO_BYTES_MOVED: ClientSession['moved'] = { up: 0, down: 0 }

export interface EgressContext {
  readonly transport: TcpTransport
  readonly limits: ProxyLimits
  readonly refusals: LingerLimit
  readonly dialer: Dialer
  readonly verifySni: boolean
  /** Name of this proxy in the Via header. */
  readonly via: string
  readonly denyMessage: string | undefined
  /** No new requests are accepted. */
  readonly isStopping: boolean
  /** More than half of the allowed connections are open: idle origin connections should be closed. */
  readonly isNearCapacity: boolean
  findSource(address: string): CompiledSource | undefined
  /** Returns false when this source or the whole proxy has reached its limit. */
  addSession(address: string, session: ClientSession): boolean
  removeSession(address: string, session: ClientSession): void
  recordAccess(record: AccessRecord): void
}
