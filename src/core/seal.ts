// Secrets at rest (decision T9): AES-256-GCM under SECRETS_KEY, bound to the row that they belong to.
import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto'
import { type Random, systemRandom } from '../lib/clock.ts'
import { refuse } from '../lib/refusal.ts'

// Sealed bytes: format, key id, nonce (12), tag (16), ciphertext.
const FORMAT = 1
const NONCE_BYTES = 12
const TAG_BYTES = 16
const HEAD_BYTES = 2 + NONCE_BYTES + TAG_BYTES

interface Key {
  /** A hint which key to try first; two keys may share it. */
  readonly id: number
  readonly entry: string
  readonly secret: Buffer
}

export interface Keyring {
  /** `context` names the row (scope, owner, key): the same bytes under another context do not open. */
  seal(plain: Uint8Array | string, context: string): Uint8Array
  open(sealed: Uint8Array, context: string): Buffer
  /** 32 bytes of the first key for another purpose, which `purpose` names (decision L16). */
  derive(purpose: string): Buffer
}

/** SECRETS_KEY is a comma list: the first entry seals, all open. Without one, everything that needs a key is refused. */
export function openKeyring(secretsKey: string | undefined, random: Random = systemRandom): Keyring {
  const keys = entriesOf(secretsKey).map(keyOf)
  const first = () => keys[0] ?? refuseKeyless()
  return {
    seal(plain, context) {
      const { id, secret } = first()
      const nonce = random.bytes(NONCE_BYTES)
      const cipher = createCipheriv('aes-256-gcm', secret, nonce, { authTagLength: TAG_BYTES })
      cipher.setAAD(boundTo(id, context))
      const body = Buffer.concat([
        cipher.update(typeof plain === 'string' ? Buffer.from(plain) : plain),
        cipher.final(),
      ])
      return Buffer.concat([Buffer.of(FORMAT, id), nonce, cipher.getAuthTag(), body])
    },
    open(sealed, context) {
      first()
      if (sealed.length < HEAD_BYTES || sealed[0] !== FORMAT) refuse('unavailable', 'a stored secret is damaged')
      const likely = keys.toSorted((a, b) => Number(b.id === sealed[1]) - Number(a.id === sealed[1]))
      for (const { secret } of likely) {
        const plain = tryOpen(secret, sealed, context)
        if (plain) return plain
      }
      return refuse(
        'unavailable',
        'a stored secret does not open: it is damaged, of another row, or sealed with a key that SECRETS_KEY lacks',
        'if SECRETS_KEY was changed, add the former key to it after a comma; else set the secret again',
      )
    },
    derive: (purpose) => derived(first().entry, purpose),
  }
}

function entriesOf(secretsKey: string | undefined): string[] {
  return (secretsKey ?? '').split(',').flatMap((entry) => entry.trim() || [])
}

function keyOf(entry: string): Key {
  return { id: derived(entry, 'svc seal id').readUInt8(0), entry, secret: derived(entry, 'svc seal') }
}

function derived(entry: string, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', entry, '', purpose, 32))
}

function boundTo(id: number, context: string): Buffer {
  return Buffer.concat([Buffer.of(FORMAT, id), Buffer.from(context)])
}

function tryOpen(secret: Buffer, sealed: Uint8Array, context: string): Buffer | undefined {
  const nonce = sealed.subarray(2, 2 + NONCE_BYTES)
  const decipher = createDecipheriv('aes-256-gcm', secret, nonce, { authTagLength: TAG_BYTES })
  decipher.setAAD(boundTo(sealed[1] ?? 0, context))
  decipher.setAuthTag(sealed.subarray(2 + NONCE_BYTES, HEAD_BYTES))
  const plain = decipher.update(sealed.subarray(HEAD_BYTES))
  try {
    return Buffer.concat([plain, decipher.final()])
  } catch {
    // The one error that `final` has: the tag does not fit. The next key may.
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
