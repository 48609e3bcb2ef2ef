// An authenticator in software, for responses that no browser would send: other origins, counters, flags and attestations.
import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'

type CborValue = number | string | Uint8Array | CborValue[] | Map<number | string, CborValue>

function cborHead(major: number, value: number): Buffer {
  if (value < 24) return Buffer.of((major << 5) | value)
  return value < 256
    ? Buffer.of((major << 5) | 24, value)
    : Buffer.of((major << 5) | 25, Math.floor(value / 256), value % 256)
}

function cbor(value: CborValue): Buffer {
  if (typeof value === 'number') return value < 0 ? cborHead(1, -1 - value) : cborHead(0, value)
  if (typeof value === 'string') return Buffer.concat([cborHead(3, Buffer.byteLength(value)), Buffer.from(value)])
  if (value instanceof Uint8Array) return Buffer.concat([cborHead(2, value.length), value])
  if (Array.isArray(value)) return Buffer.concat([cborHead(4, value.length), ...value.map(cbor)])
  return Buffer.concat([cborHead(5, value.size), ...[...value].flatMap((entry) => entry.map(cbor))])
}

const base64url = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64url')
const sha256 = (bytes: Uint8Array | string): Buffer => createHash('sha256').update(bytes).digest()

const FLAGS = { present: 0x01, verified: 0x04, eligible: 0x08, backedUp: 0x10, attested: 0x40 }

export interface ResponseOptions {
  readonly origin: string
  readonly challenge: string
  readonly rpId?: string
  readonly counter?: number
  readonly isVerified?: boolean
  readonly isEligible?: boolean
  readonly isBackedUp?: boolean
  readonly userHandle?: string
  /** Certificates of the attestation. */
  readonly certificates?: readonly Uint8Array[]
}

export class SoftAuthenticator {
  readonly id = base64url(randomBytes(16))
  readonly #privateKey: KeyObject
  readonly #publicKey: Buffer

  constructor() {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    const { x = '', y = '' } = publicKey.export({ format: 'jwk' })
    this.#privateKey = privateKey
    this.#publicKey = cbor(
      new Map<number, CborValue>([
        [1, 2],
        [3, -7],
        [-1, 1],
        [-2, Buffer.from(x, 'base64url')],
        [-3, Buffer.from(y, 'base64url')],
      ]),
    )
  }

  /** The response of `navigator.credentials.create`. */
  register(options: ResponseOptions) {
    const id = Buffer.from(this.id, 'base64url')
    const authData = Buffer.concat([
      authenticatorData(options, FLAGS.attested),
      Buffer.alloc(16),
      Buffer.of(0, id.length),
      id,
      this.#publicKey,
    ])
    const { certificates } = options
    const statement = new Map<string, CborValue>(certificates ? [['x5c', [...certificates]]] : [])
    const attestationObject = cbor(
      new Map<string, CborValue>([
        ['fmt', certificates ? 'packed' : 'none'],
        ['attStmt', statement],
        ['authData', authData],
      ]),
    )
    const clientDataJSON = clientData('webauthn.create', options)
    return this.#response({
      clientDataJSON: base64url(clientDataJSON),
      attestationObject: base64url(attestationObject),
    })
  }

  /** The response of `navigator.credentials.get`. */
  signIn(options: ResponseOptions) {
    const clientDataJSON = clientData('webauthn.get', options)
    const data = authenticatorData(options, 0)
    const signature = sign('sha256', Buffer.concat([data, sha256(clientDataJSON)]), this.#privateKey)
    return this.#response({
      clientDataJSON: base64url(clientDataJSON),
      authenticatorData: base64url(data),
      signature: base64url(signature),
      ...(options.userHandle === undefined ? {} : { userHandle: options.userHandle }),
    })
  }

  #response<R>(response: R) {
    return { id: this.id, rawId: this.id, type: 'public-key', response, clientExtensionResults: {} } as const
  }
}

function clientData(type: string, { origin, challenge }: ResponseOptions): Buffer {
  return Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin: false }))
}

function authenticatorData(options: ResponseOptions, extra: number): Buffer {
  const { rpId = 'localhost', counter = 0, isVerified = true, isEligible = false, isBackedUp = false } = options
  const flags =
    FLAGS.present |
    (isVerified ? FLAGS.verified : 0) |
    (isEligible ? FLAGS.eligible : 0) |
    (isBackedUp ? FLAGS.backedUp : 0) |
    extra
  const count = Buffer.alloc(4)
  count.writeUInt32BE(counter)
  return Buffer.concat([sha256(rpId), Buffer.of(flags), count])
}
