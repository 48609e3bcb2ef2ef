// The operator's own way through a folder's chat link: found in the store, which is only read, and presented as a proof
// (decision L16). A server that runs on the store is not disturbed, and no schema is brought up to date.
import { groups } from '../../core/groups/groups.ts'
import { createTokenProof } from '../../core/links/link-token.ts'
import { openKeyring } from '../../core/secrets/keyring.ts'
import { folderFault } from '../../core/values.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { openEngine } from '../../store/index.ts'
import { bytes, query } from '../../store/statement.ts'
import { type ConfiguredInstance, storeAddress } from '../instance/instance.ts'

/** What stands where the raw token would, of the newest token of `web:<folder>`. */
export async function operatorLinkProof(configured: ConfiguredInstance, folder: string): Promise<string> {
  const fault = folderFault(folder)
  if (fault !== undefined) refuse('invalid', `the folder ${fault}`)
  const engine = await openEngine(storeAddress(configured))
  try {
    const hash = await engine.read((tx) => newestHash(tx, folder, configured.name))
    return createTokenProof(hash, openKeyring(configured.settings.SECRETS_KEY))
  } finally {
    await engine.close()
  }
}

async function newestHash(tx: Tx, folder: string, instance: string): Promise<Uint8Array> {
  // By their names, so that a store of another version answers too. A row without a target is of `web:<folder>` anyway.
  const [newest] = await query(
    tx,
    { token_hash: bytes },
    `select token_hash from route_tokens where jid = $1 and (target_folder = $2 or target_folder is null)
       order by created_at desc, token_hash limit 1`,
    [`web:${folder}`, folder],
  )
  if (newest) return newest.token_hash
  if (!(await groups.find(tx, { folder }))) refuse('not_found', `there is no group ${folder}`)
  return refuse(
    'not_found',
    `${folder} has no chat link of its own (web:${folder})`,
    `svc token ${instance} issue chat ${folder} mints one`,
  )
}
