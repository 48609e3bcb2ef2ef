// HMAC keys derived from SECRETS_KEY for single purposes. A keyring's first entry never changes, so each is derived once.
import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'
import type { Keyring } from './keyring.ts'

const cache = new WeakMap<Keyring, Map<string, KeyObject>>()

/** Refuses if SECRETS_KEY is not set. */
export function derivedKey(keyring: Keyring, purpose: string): KeyObject {
  const keys = cache.get(keyring) ?? new Map<string, KeyObject>()
  cache.set(keyring, keys)
  const cached = keys.get(purpose)
  if (cached) return cached
  const key = createSecretKey(keyring.derive(purpose))
  keys.set(purpose, key)
  return key
}

export function keyedHash(keyring: Keyring, purpose: string, text: string): Buffer {
  return createHmac('sha256', derivedKey(keyring, purpose)).update(text).digest()
}
