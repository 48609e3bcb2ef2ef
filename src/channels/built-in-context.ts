// What the built-in channels need of their process.
import type { ChannelContext } from '../core/delivery/channel.ts'
import type { Keyring } from '../core/secrets/keyring.ts'
import type { AddressPolicy } from './address-policy.ts'

export interface BuiltInContext extends ChannelContext {
  readonly keyring: Keyring
  /** Scheme and host of the links of this instance. */
  readonly webBase: string
  /** Aborted when the process stops. */
  readonly stopping?: AbortSignal | undefined
  /** The addresses that may get answers of webhooks. */
  answerAddresses(): Promise<AddressPolicy>
}
