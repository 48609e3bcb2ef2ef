// Finds the chat link of a folder for the operator and creates a proof of it (see docs/decisions.md#svc-send). Only reads the
// store: it does not migrate the schema or disturb a running server.
import { groups } from '../../core/groups/groups.ts'
import { createTokenProof } from '../../core/links/link-token.ts'
import { keyedHash } from '../../core/secrets/derived-keys.ts'
import { openKeyring } from '../../core/secrets/keyring.ts'
import { folderFault } from '../../core/values.ts'
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { openEngine } from '../../store/index.ts'
import { bytes, query } from '../../store/statement.ts'
import { type ConfiguredInstance, storeAddress } from '../instance/instance.ts'

const VISITOR_PURPOSE = 'svc send visitor'

export interface OperatorLink {
  /** Replaces the raw token in URLs. */
  readonly proof: string
  /** The key of the operator, at a link that keeps visitors apart: the same for each command, so that topics continue. */
  readonly visitor: string
}

/** A proof of the newest token of `web:<folder>`. */
export async function findOperatorLink(configured: ConfiguredInstance, folder: string): Promise<OperatorLink> {
  const fault = folderFault(folder)
  if (fault !== undefined) refuse('invalid', `the folder ${fault}`)
  const engine = await openEngine(storeAddress(configured))
  try {
    const hash = await engine.read((tx) => findNewestHash(tx, folder, configured.name))
    const keyring = openKeyring(configured.settings.SECRETS_KEY)
    const visitor = keyedHash(keyring, VISITOR_PURPOSE, Buffer.from(hash).toString('hex')).toString('base64url')
    return { proof: createTokenProof(hash, keyring), visitor }
  } finally {
    await engine.close()
  }
}

async function findNewestHash(tx: Tx, folder: string, instance: string): Promise<Uint8Array> {
  // Selects single columns, so that it works on stores of other versions. Rows without a target belong to `web:<folder>` too.
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
