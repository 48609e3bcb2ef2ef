// Which addresses may get the answers of webhooks: public ones, and private ones if the operator allows them.
import type { LookupFunction } from 'node:net'
import { type AddressPolicy, isPrivateAddress } from '../../channels/address-policy.ts'
import { addressClassOf } from '../../egress/address/address-class.ts'

export interface AnswerAddresses {
  readonly isPrivateAllowed: boolean
  /** Resolves names; the system resolver by default. */
  readonly lookup?: LookupFunction
}

export function answerAddressPolicy(
  { isPrivateAllowed, lookup }: AnswerAddresses = { isPrivateAllowed: false },
): AddressPolicy {
  const isAllowed = (address: string): boolean => {
    const kind = addressClassOf(address)
    // The IPv6 addresses of metadata services are in private ranges.
    return kind === 'public' || (isPrivateAllowed && kind !== 'metadata' && isPrivateAddress(address))
  }
  const refusal = isPrivateAllowed
    ? 'its address is neither public nor private'
    : 'its address is not public, and ANSWER_ALLOW_LOCAL is not set'
  return { isPublicAllowed: true, rule: { isAllowed, refusal }, lookup }
}
