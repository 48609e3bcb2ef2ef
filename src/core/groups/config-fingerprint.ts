// Fingerprint of the configuration of a folder's runs: its config, its secrets and its ancestors' secrets, and the instance's
// settings. When it changes, the failure count of the folder is reset.
import { createHash } from 'node:crypto'
import type { Tx } from '../../store/engine.ts'
import { readSecretLevels, type SecretLevels } from '../secrets/run-secrets.ts'
import { groups } from './groups.ts'

/** `settingsHash` is a hash of the instance's settings. */
export async function readConfigFingerprint(tx: Tx, folder: string, settingsHash: string): Promise<string> {
  const config = (await groups.find(tx, { folder }))?.config
  return configFingerprint(config, await readSecretLevels(tx, { folder, reach: 'all' }), settingsHash)
}

/** Computed from rows; a person's secrets do not count. */
export function configFingerprint(config: string | undefined, levels: SecretLevels, settingsHash: string): string {
  const hash = createHash('sha256')
  const add = (part: string | Uint8Array): void => void hash.update(`${part.length}:`).update(part)
  add(settingsHash)
  add(config ?? '')
  for (const { scope_kind, owner, key, value } of levels.flat()) {
    if (scope_kind !== 'folder') continue
    add(`${owner} ${key}`)
    add(value)
  }
  return hash.digest('base64url')
}
