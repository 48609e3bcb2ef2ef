// A registered adapter, with all that requests to it need.
import type { AddressPolicy } from './address-policy.ts'

export interface Adapter {
  readonly name: string
  /** The platform of the chat that the channel is opened for. */
  readonly platform: string
  /** Base URL of its endpoints, without a trailing slash. */
  readonly url: string
  readonly capabilities: Readonly<Record<string, boolean>>
  /** The token that svc issued at registration; it authenticates svc to the adapter. */
  readonly token?: string | undefined
  /** The addresses that it may have. */
  readonly addresses: AddressPolicy
  /** Timeout of a response; 30 seconds by default. */
  readonly timeoutMs?: number | undefined
}
