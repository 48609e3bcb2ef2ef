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
  const isAllowed = (address: string): boolean =>
    addressClassOf(address) === 'public' || (isPrivateAllowed && isPrivateAddress(address))
  return { isPublicAllowed: true, rule: { isAllowed, refusal: 'its address is not public' }, lookup }
}
