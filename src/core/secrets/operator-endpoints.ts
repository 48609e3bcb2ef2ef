// Which base URLs of models in the secrets of folders an operator has set. Only these may lead to this machine or a private
// network: everybody else could use the model's connection to read services there.
import { isIP } from 'node:net'
import { z } from 'zod'
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { Table } from '../../store/table.ts'
import { Folder, SecretKey, Timestamp } from '../values.ts'
import type { Keyring } from './keyring.ts'
import { MODEL_URLS } from './model-variables.ts'
import { type SecretName, secretContext, secrets } from './secrets.ts'

export const operatorEndpoints = new Table({
  name: 'operator_endpoints',
  row: z.object({ owner: Folder, key: SecretKey, created_at: Timestamp }),
  key: ['owner', 'key'],
  storage: [
    'create table operator_endpoints (owner text not null, key text not null, created_at text not null, primary key (owner, key))',
    // Earlier versions did not store who set a secret. All count as set by operators, so that local models keep working.
    `insert into operator_endpoints (owner, key, created_at) select owner, key, created_at from secrets
     where scope_kind = 'folder' and key in ('OPENAI_BASE_URL', 'ANTHROPIC_BASE_URL')`,
  ],
})

const PRIVATE_NAME = /^[^.]+\.?$|(?:^|\.)(?:localhost|local|lan|internal|intranet|home\.arpa)\.?$/i

/** Names that resolve to private addresses are refused by the network of runs. */
export function publicEndpointFault(url: string): string | undefined {
  const host = URL.parse(url)?.hostname.replace(/^\[(.*)\]$/, '$1') ?? ''
  if (host === '' || (isIP(host) === 0 && !PRIVATE_NAME.test(host))) return undefined
  return 'an endpoint with an IP address or on this machine or a private network is set by operators only'
}

interface SecretWriter {
  readonly tx: Tx
  readonly keyring: Keyring
  readonly now: string
  isByOperator(): Promise<boolean>
}

/** Seals and stores a secret. */
export async function writeSecret(writer: SecretWriter, name: SecretName, value: string): Promise<void> {
  const { tx, keyring, now } = writer
  const { owner, key } = name
  if (MODEL_URLS.includes(key)) {
    const isTrusted = await writer.isByOperator()
    const fault = isTrusted ? undefined : publicEndpointFault(value)
    if (fault !== undefined) refuse('forbidden', `${key}: ${fault}`)
    if (name.scope_kind === 'folder') {
      if (isTrusted) await operatorEndpoints.upsert(tx, { owner, key, created_at: now })
      else await operatorEndpoints.remove(tx, { owner, key })
    }
  }
  await secrets.upsert(tx, { ...name, value: keyring.seal(value, secretContext(name)), created_at: now })
}
