// Options for authenticators and verification of their responses, with @simplewebauthn/server. It is loaded on first use,
// because most processes never need its 25 packages.
import { z } from 'zod'
import { CredentialId, type PasskeyRow } from '../../core/people/passkeys.ts'
import { Refusal, refuse } from '../../lib/refusal.ts'
import { type PasskeyAddress, passkeyAddress } from './passkey-address.ts'

/** EdDSA, ES256 and RS256. By default the library prefers an experimental algorithm. */
const ALGORITHMS = [-8, -7, -257]
const TIMEOUT_MS = 4 * 60_000

const Encoded = z.string().max(16_384)

/** What `PublicKeyCredential.toJSON` returns, without the members that the library ignores. */
const ResponseShape = z.object({
  id: CredentialId,
  rawId: CredentialId,
  type: z.literal('public-key'),
  clientExtensionResults: z.object({}).default({}),
})

export const RegistrationResponse = ResponseShape.extend({
  response: z.object({
    clientDataJSON: Encoded,
    attestationObject: Encoded,
    transports: z
      .array(z.string().regex(/^[a-z-]{1,32}$/))
      .max(16)
      .optional(),
  }),
})

export const AuthenticationResponse = ResponseShape.extend({
  response: z.object({
    clientDataJSON: Encoded,
    authenticatorData: Encoded,
    signature: Encoded,
    userHandle: z.string().max(128).nullish(),
  }),
})

/** An authenticator with which this person may sign in, as verified. */
export type VerifiedPasskey = Pick<
  PasskeyRow,
  'id' | 'public_key' | 'counter' | 'transports' | 'is_backup_eligible' | 'is_backed_up'
>

/** The use of a passkey, as verified. */
export type PasskeyUse = Pick<PasskeyRow, 'id' | 'counter' | 'is_backup_eligible' | 'is_backed_up'>

interface NewPasskey {
  readonly sub: string
  readonly challenge: string
  readonly userHandle: string
  readonly existing: readonly PasskeyRow[]
}

type AddressHost = Parameters<typeof passkeyAddress>[0]

export async function registrationOptions(host: AddressHost, request: NewPasskey): Promise<object> {
  const { rpId } = mustHaveAddress(host)
  const { generateRegistrationOptions } = await import('@simplewebauthn/server')
  return generateRegistrationOptions({
    rpName: `svc at ${rpId}`,
    rpID: rpId,
    userName: request.sub,
    userDisplayName: request.sub,
    userID: decode(request.userHandle),
    challenge: decode(request.challenge),
    timeout: TIMEOUT_MS,
    attestationType: 'none',
    excludeCredentials: request.existing.map(({ id, transports }) => ({ id, transports })),
    // Discoverable, so that the sign-in page asks for no name. Verification requires the person to be verified, too.
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
    supportedAlgorithmIDs: ALGORITHMS,
  })
}

export async function authenticationOptions(host: AddressHost, challenge: string): Promise<object> {
  const { rpId } = mustHaveAddress(host)
  const { generateAuthenticationOptions } = await import('@simplewebauthn/server')
  return generateAuthenticationOptions({
    rpID: rpId,
    challenge: decode(challenge),
    timeout: TIMEOUT_MS,
    userVerification: 'required',
  })
}

export async function verifyRegistration(
  host: AddressHost,
  response: z.output<typeof RegistrationResponse>,
  challenge: string,
): Promise<VerifiedPasskey> {
  const { rpId, origin } = mustHaveAddress(host)
  const { verifyRegistrationResponse } = await import('@simplewebauthn/server')
  const { transports = [], ...attestation } = response.response
  return verified(async () => {
    await mustHaveNoCertificates(attestation.attestationObject)
    const { registrationInfo } = await verifyRegistrationResponse({
      response: { ...response, response: attestation },
      expectedChallenge: challenge,
      expectedOrigin: origin,
      expectedRPID: rpId,
      requireUserVerification: true,
      supportedAlgorithmIDs: ALGORITHMS,
    })
    if (!registrationInfo) return undefined
    const { credential, credentialDeviceType, credentialBackedUp } = registrationInfo
    return {
      id: credential.id,
      public_key: credential.publicKey,
      counter: credential.counter,
      transports,
      is_backup_eligible: credentialDeviceType === 'multiDevice',
      is_backed_up: credentialBackedUp,
    }
  })
}

/** We ask for no attestation. Verifying a chain of certificates may fetch URLs that it names. */
async function mustHaveNoCertificates(attestationObject: string): Promise<void> {
  const { decodeAttestationObject } = await import('@simplewebauthn/server/helpers')
  if (decodeAttestationObject(decode(attestationObject)).get('attStmt').get('x5c') !== undefined)
    throw new Error('the attestation has certificates')
}

export async function verifyAuthentication(
  host: AddressHost,
  response: z.output<typeof AuthenticationResponse>,
  challenge: string,
  { id, public_key, user_handle }: PasskeyRow,
): Promise<PasskeyUse> {
  const { rpId, origin } = mustHaveAddress(host)
  const { verifyAuthenticationResponse } = await import('@simplewebauthn/server')
  const { userHandle, ...assertion } = response.response
  return verified(async () => {
    if (userHandle && userHandle !== user_handle) throw new Error('the user handle is not that of the passkey')
    const { verified: isValid, authenticationInfo } = await verifyAuthenticationResponse({
      response: { ...response, response: assertion },
      expectedChallenge: challenge,
      expectedOrigin: origin,
      expectedRPID: rpId,
      // The verb compares counters, after the signature: the library refuses a fall without naming it.
      credential: { id, publicKey: Uint8Array.from(public_key), counter: 0 },
      requireUserVerification: true,
    })
    if (!isValid) return undefined
    const { newCounter, credentialDeviceType, credentialBackedUp } = authenticationInfo
    return {
      id,
      counter: newCounter,
      is_backup_eligible: credentialDeviceType === 'multiDevice',
      is_backed_up: credentialBackedUp,
    }
  })
}

/** Errors of the library quote origins and challenges: the client gets one sentence, and the log has `cause`. */
async function verified<T>(verify: () => Promise<T | undefined>): Promise<T> {
  let cause: unknown
  try {
    const result = await verify()
    if (result !== undefined) return result
  } catch (error) {
    cause = error
  }
  const refusal = new Refusal('invalid', 'the response of the passkey could not be verified', 'try again')
  refusal.cause = cause
  throw refusal
}

function mustHaveAddress(host: AddressHost): PasskeyAddress {
  const address = passkeyAddress(host)
  if (address.fault !== undefined) refuse('unsupported', address.fault)
  return address
}

function decode(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(Buffer.from(text, 'base64url'))
}
