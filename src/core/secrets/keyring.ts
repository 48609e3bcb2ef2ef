// Seals secrets at rest with AES-256-GCM under SECRETS_KEY, bound to their row. See docs/decisions.md#secrets-at-rest.
import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto'
import { type Random, systemRandom } from '../../lib/clock.ts'
import { refuse } from '../../lib/refusal.ts'

// Sealed bytes: format, key id, nonce (12), tag (16), ciphertext.
const FORMAT = 1
const NONCE_BYTES = 12
const TAG_BYTES = 16
const HEAD_BYTES = 2 + NONCE_BYTES + TAG_BYTES

interface Key {
  /** Hint for the key to try first; two keys may share it. */
  readonly id: number
  readonly entry: string
  readonly secret: Buffer
}

export interface Keyring {
  /** False without SECRETS_KEY. */
  readonly hasKey: boolean
  /** `context` names the row (scope, owner, key): sealed bytes do not open under another context. */
  seal(plain: Uint8Array | string, context: string): Uint8Array
  open(sealed: Uint8Array, context: string): Buffer
  /** Derives 32 bytes from the first key for another purpose. */
  derive(purpose: string): Buffer
}

/** SECRETS_KEY is a comma-separated list: the first key seals, all keys open. Without a key, every call is refused. */
export function openKeyring(secretsKey: string | undefined, random: Random = systemRandom): Keyring {
  const entries = (secretsKey ?? '').split(',').flatMap((entry) => entry.trim() || [])
  const keys = entries.map(toKey)
  const firstKey = () => keys[0] ?? refuseKeyless()
  return {
    hasKey: keys.length > 0,
    seal(plain, context) {
      const { id, secret } = firstKey()
      const nonce = random.bytes(NONCE_BYTES)
      const cipher = createCipheriv('aes-256-gcm', secret, nonce, { authTagLength: TAG_BYTES })
      cipher.setAAD(additionalData(id, context))
      const body = Buffer.concat([
        cipher.update(typeof plain === 'string' ? Buffer.from(plain) : plain),
        cipher.final(),
      ])
      return Buffer.concat([Buffer.of(FORMAT, id), nonce, cipher.getAuthTag(), body])
    },
    open(sealed, context) {
      firstKey()
      if (sealed.length < HEAD_BYTES || sealed[0] !== FORMAT) refuse('unavailable', 'a stored secret is damaged')
      const likely = keys.toSorted((a, b) => Number(b.id === sealed[1]) - Number(a.id === sealed[1]))
      for (const { secret } of likely) {
        const plain = tryOpen(secret, sealed, context)
        if (plain) return plain
      }
      return refuse(
        'unavailable',
        'cannot open a stored secret: it is damaged, from another row, or sealed with a key that is not in SECRETS_KEY',
        'if SECRETS_KEY was changed, append the previous key to it after a comma; otherwise set the secret again',
      )
    },
    derive: (purpose) => deriveBytes(firstKey().entry, purpose),
  }
}

function toKey(entry: string): Key {
  return { id: deriveBytes(entry, 'svc seal id').readUInt8(0), entry, secret: deriveBytes(entry, 'svc seal') }
}

function deriveBytes(entry: string, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', entry, '', purpose, 32))
}

function additionalData(id: number, context: string): Buffer {
  return Buffer.concat([Buffer.of(FORMAT, id), Buffer.from(context)])
}

function tryOpen(secret: Buffer, sealed: Uint8Array, context: string): Buffer | undefined {
  const nonce = sealed.subarray(2, 2 + NONCE_BYTES)
  const decipher = createDecipheriv('aes-256-gcm', secret, nonce, { authTagLength: TAG_BYTES })
  decipher.setAAD(additionalData(sealed[1] ?? 0, context))
  decipher.setAuthTag(sealed.subarray(2 + NONCE_BYTES, HEAD_BYTES))
  const plain = decipher.update(sealed.subarray(HEAD_BYTES))
  try {
    return Buffer.concat([plain, decipher.final()])
  } catch {
    // `final` throws only if the tag does not match; another key may match.
    return undefined
  }
}

function refuseKeyless(): never {
  refuse(
    'unavailable',
    'secrets cannot be stored or read: SECRETS_KEY is not set',
    "add SECRETS_KEY=<64 hex digits> to the instance's .env; `openssl rand -hex 32` makes one",
  )
}
