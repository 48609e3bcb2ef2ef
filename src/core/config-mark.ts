// A fingerprint of everything that a folder's runs are configured with: its config, its secrets and those of the folders above
// it, and the settings of the instance. When it changes, earlier failures no longer count.
import { createHash } from 'node:crypto'
import type { Tx } from '../store/engine.ts'
import { groups } from './groups.ts'
import { secrets } from './secrets.ts'
import { ancestry } from './tiers.ts'

/** `settingsMark` stands for the settings of the instance. */
export async function configMark(tx: Tx, folder: string, settingsMark: string): Promise<string> {
  const hash = createHash('sha256')
  const add = (part: string | Uint8Array): void => void hash.update(`${part.length}:`).update(part)
  add(settingsMark)
  add((await groups.find(tx, { folder }))?.config ?? '')
  for (const owner of ancestry(folder))
    for (const { key, value } of await secrets.list(tx, { scope_kind: 'folder', owner }, [['key', 'asc']])) {
      add(`${owner} ${key}`)
      add(value)
    }
  return hash.digest('base64url')
}
