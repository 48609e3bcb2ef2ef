// Accounts: how people are known to a provider. An account is identified by issuer and subject, never by its e-mail address.
import { z } from 'zod'
import { refuse } from '../../lib/refusal.ts'
import type { Tx } from '../../store/engine.ts'
import { query, text } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { isAccount } from '../access/namespaces.ts'
import { line, Sub, Timestamp } from '../values.ts'

export const Account = z.object({
  sub: Sub,
  /** URL of the OpenID issuer, github, discord or local. */
  issuer: line(2048),
  /** The id that the issuer gave the account. */
  subject: line(256),
  name: line(256).optional(),
  email: line(256).optional(),
  email_verified: z.boolean(),
  created_at: Timestamp,
  signed_in_at: Timestamp.optional(),
})

export type AccountRow = z.output<typeof Account>

export const accounts = new Table({
  name: 'accounts',
  row: Account,
  key: 'sub',
  storage: [
    `create table accounts (
       sub text primary key, issuer text not null, subject text not null, name text, email text,
       email_verified boolean not null, created_at text not null, signed_in_at text)`,
    'create unique index accounts_of_issuer on accounts (issuer, subject)',
  ],
})

/** An account that its provider has just confirmed. */
export type ConfirmedAccount = Omit<AccountRow, 'created_at' | 'signed_in_at'>

export const LOCAL_ISSUER = 'local'

/** The account of a person whom the operator signs in by name. */
export function localAccount(sub: string): ConfirmedAccount {
  return { sub, issuer: LOCAL_ISSUER, subject: sub, email_verified: false }
}

/** Refuses a provider whose name was used for another issuer before: its subjects would be other people's accounts. */
export async function recordAccount(tx: Tx, account: ConfirmedAccount, now: string): Promise<void> {
  const existing = await accounts.find(tx, { sub: account.sub })
  if (!existing) return accounts.insert(tx, { ...account, created_at: now, signed_in_at: now })
  if (account.issuer === LOCAL_ISSUER) {
    await accounts.update(tx, { sub: account.sub }, { signed_in_at: now })
    return
  }
  if (existing.issuer !== account.issuer && existing.issuer !== LOCAL_ISSUER)
    refuse('conflict', `the account ${account.sub} belongs to the issuer ${existing.issuer}, not to ${account.issuer}`)
  const { sub, ...changes } = account
  await accounts.update(tx, { sub }, { name: undefined, email: undefined, ...changes, signed_in_at: now })
}

/**
 * The account that a person acts as: of the accounts linked to the same identity, the one linked first. Signing in with any of
 * them signs in as this one.
 */
export async function primaryAccount(tx: Tx, sub: string): Promise<string> {
  const [first = sub] = await subsOfPerson(tx, sub)
  return first
}

/** The subs of accounts with the same identity, the one linked first at the start. Empty if the account is not linked. */
async function subsOfPerson(tx: Tx, sub: string): Promise<string[]> {
  const claims = await query(
    tx,
    { sub: text },
    `select c.sub from identity_claims c join identity_claims own on own.identity_id = c.identity_id
     where own.sub = $1 order by c.claimed_at, c.sub`,
    [sub],
  )
  return claims.flatMap((claim) => (isAccount(claim.sub) ? [claim.sub] : []))
}

/** The account of a person and those that are linked to it, without those that never signed in. */
export async function accountsOfPerson(tx: Tx, sub: string): Promise<AccountRow[]> {
  const found: AccountRow[] = []
  for (const each of new Set([sub, ...(await subsOfPerson(tx, sub))])) {
    const account = await accounts.find(tx, { sub: each })
    if (account) found.push(account)
  }
  return found
}

export type LinkedAccount = Pick<AccountRow, 'sub'> & Partial<AccountRow>

/** Every account that signs in as this person. Operators may have linked accounts that never signed in. */
export async function linkedAccounts(tx: Tx, sub: string): Promise<LinkedAccount[]> {
  const subs = await subsOfPerson(tx, sub)
  const linked: LinkedAccount[] = []
  for (const each of subs.length > 0 ? subs : [sub])
    linked.push((await accounts.find(tx, { sub: each })) ?? { sub: each })
  return linked
}
