// What is known of an adapter that has registered: all that is needed to speak to it.

import type { AddressPolicy } from './address-policy.ts'

export interface Adapter {
  readonly name: string
  /** The platform of the chat that it is asked for. */
  readonly platform: string
  /** Where its endpoints are, without a slash at the end. */
  readonly url: string
  readonly capabilities: Readonly<Record<string, boolean>>
  /** What it was given when it registered: by that it knows that it is us. */
  readonly token?: string | undefined
  /** Where it may be. */
  readonly addresses: AddressPolicy
  /** How long it is waited for; half a minute unless said. */
  readonly answerMs?: number | undefined
}
