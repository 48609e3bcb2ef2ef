// The rows that are sealed under SECRETS_KEY, to find out whether the key still opens them.
import { Refusal } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { bytes, optional, query, text } from '../../store/statement.ts'
import { accountContext, channelAccounts } from '../delivery/channel-accounts.ts'
import { answerContext, verifyContext } from '../links/route-tokens.ts'
import type { Keyring } from './keyring.ts'
import { secretContext, secrets } from './secrets.ts'
import { sealContextOf, signingKeys } from './signing-keys.ts'

export interface SealedRow {
  readonly kind: 'secret' | 'link' | 'account' | 'signing key'
  readonly name: string
  readonly sealed: Uint8Array
  readonly context: string
}

/** Secrets of folders and people, of links that check or make signatures, of chat platforms, and the key that signs bearers. */
export async function listSealedRows(tx: Tx): Promise<SealedRow[]> {
  const links = await query(
    tx,
    { jid: text, token_hash: bytes, verify_secret: optional(bytes) },
    'select jid, token_hash, verify_secret from route_tokens where verify is not null',
  )
  const answering = await query(
    tx,
    { jid: text, token_hash: bytes, answer_secret: bytes },
    'select jid, token_hash, answer_secret from route_tokens where answer_to is not null and answer_secret is not null',
  )
  return [
    ...(await secrets.list(tx)).map((row) => ({
      kind: 'secret' as const,
      name: `${row.key} of ${row.scope_kind} ${row.owner}`,
      sealed: row.value,
      context: secretContext(row),
    })),
    ...links.map(({ jid, token_hash, verify_secret = new Uint8Array() }) => ({
      kind: 'link' as const,
      name: `signing secret of ${jid}`,
      sealed: verify_secret,
      context: verifyContext(token_hash),
    })),
    ...answering.map(({ jid, token_hash, answer_secret }) => ({
      kind: 'link' as const,
      name: `secret of the answers of ${jid}`,
      sealed: answer_secret,
      context: answerContext(token_hash),
    })),
    ...(await channelAccounts.list(tx)).map(({ account, secrets_sealed }) => ({
      kind: 'account' as const,
      name: `secrets of the account ${account}`,
      sealed: secrets_sealed,
      context: accountContext(account),
    })),
    ...(await signingKeys.list(tx, { active: true })).map(({ kid, private_sealed }) => ({
      kind: 'signing key' as const,
      name: 'the key that signs bearers',
      sealed: private_sealed,
      context: sealContextOf(kid),
    })),
  ]
}

/** A sentence for each row that the keys do not open. */
export function findUnreadable(rows: readonly SealedRow[], keyring: Keyring): string[] {
  return rows.flatMap(({ name, sealed, context }) => {
    try {
      keyring.open(sealed, context)
      return []
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      return [`${name}: ${error.message}`]
    }
  })
}
