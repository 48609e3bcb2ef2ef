// People as operators see them: the accounts linked to one identity count as one person, who acts as the first of them.
import { z } from 'zod'
import { timestamp } from '../../lib/clock.ts'
import { refuse } from '../../lib/refusal.ts'
import { isGlob } from '../../lib/text/glob.ts'
import { readCursor, writeCursor } from '../../store/cursor.ts'
import type { Tx } from '../../store/engine.ts'
import { containsText, likePattern, lowerAscii } from '../../store/sql-conditions.ts'
import { integer, optional, query, queryForValues, text } from '../../store/statement.ts'
import { isAccount, isPersonNamespace } from '../access/namespaces.ts'
import { isOperator, type Policy, rolesOf } from '../access/policy.ts'
import { Sub, Timestamp } from '../values.ts'

export const Person = z.object({
  sub: Sub.describe('The account that the person acts as'),
  name: z.string().optional(),
  email: z.string().optional(),
  subs: z.array(Sub).describe('All their accounts, the one that they act as first'),
  roles: z.array(z.string()).describe('Also the roles of their roles'),
  is_operator: z.boolean(),
  grants: z.int().describe('Acl rows that name one of their accounts'),
  signed_in_at: Timestamp.optional().describe('The last sign-in with any of their accounts'),
  sessions: z.int().describe('Browsers and clients that are signed in'),
  cap: z.int().optional().describe('Cents per day'),
  spent: z.int().describe('Cents since 00:00 UTC'),
})

export type PersonRow = z.output<typeof Person>

interface PeoplePage {
  people: PersonRow[]
  next?: string
}

interface PeopleRequest {
  readonly limit: number
  readonly after?: string | undefined
  /** Part of an account, a name or an e-mail address. */
  readonly search?: string | undefined
  readonly policy: Policy
  readonly nowMs: number
}

/** A column that names people, and what a search compares. */
interface PeopleSource {
  readonly from: string
  readonly column: string
  readonly searched: readonly string[]
  /** Namespaces with many rows that are not people, in byte order. */
  readonly skipped?: readonly string[]
}

const SOURCES: readonly PeopleSource[] = [
  { from: 'accounts', column: 'sub', searched: ['sub', 'name', 'email'] },
  {
    from: 'identity_claims join identities on identities.id = identity_claims.identity_id',
    column: 'sub',
    searched: ['sub', 'name'],
  },
  { from: 'users', column: 'sub', searched: ['sub'] },
  { from: 'acl', column: 'principal', searched: ['principal'], skipped: ['folder', 'role'] },
  { from: 'acl_membership', column: 'subject', searched: ['subject'], skipped: ['folder', 'role'] },
]

/** By account. A person is at the position of the first account that matches the search. */
export async function listPeople(tx: Tx, request: PeopleRequest): Promise<PeoplePage> {
  const { limit, after, search, policy, nowMs } = request
  const found: PersonAccounts[] = []
  let from = after === undefined ? '' : positionOf(after)
  let size = limit + 1
  for (;;) {
    const subs = await listSubs(tx, from, size, search)
    for (const each of await groupAccounts(tx, subs, search)) {
      const last = found[limit - 1]
      if (last) return { people: await describePeople(tx, found, policy, nowMs), next: writeCursor([last.position]) }
      found.push(each)
    }
    if (subs.length < size) return { people: await describePeople(tx, found, policy, nowMs) }
    from = subs.at(-1) ?? from
    size = Math.max(size, CHUNK_SUBS)
  }
}

/** Also for a sub without any row. */
export async function describePerson(tx: Tx, sub: string, policy: Policy, nowMs: number): Promise<PersonRow> {
  const [person] = await describePeople(tx, [await accountsOfSub(tx, sub)], policy, nowMs)
  if (!person) throw new Error(`no person for ${sub}`)
  return person
}

/** The names of people, by sub; those without a name are absent. */
export async function findNames(tx: Tx, subs: readonly string[]): Promise<Map<string, string>> {
  const names = new Map<string, string>()
  for (const { sub, name } of await readAccounts(tx, subs)) if (name !== undefined) names.set(sub, name)
  for (const { sub, name } of await claimsOfPeople(tx, subs)) names.set(sub, name)
  return names
}

const CHUNK_SUBS = 200

function positionOf(cursor: string): string {
  const [sub] = readCursor(cursor) ?? []
  if (typeof sub === 'string' && !sub.includes('\u0000')) return sub
  return refuse('invalid', 'after is not a cursor of this list', 'use the `next` of the previous page')
}

async function listSubs(tx: Tx, after: string, limit: number, search: string | undefined): Promise<string[]> {
  const parts = SOURCES.flatMap((source) => sourceParts(source, search !== undefined))
  const sql = `select sub from (${parts.join(' union ')}) as people order by sub limit $2`
  const rows = await query(tx, { sub: text }, sql, [
    after,
    limit,
    ...(search === undefined ? [] : [likePattern(search)]),
  ])
  return rows.map(({ sub }) => sub)
}

/** Each part reads at most one page of an index, or of a table if there is a search. */
function sourceParts({ from, column, searched, skipped = [] }: PeopleSource, hasSearch: boolean): string[] {
  const found = hasSearch ? ` and ${containsText(searched, 3)}` : ''
  // ";" is the character after ":": it ends the range of a namespace.
  const starts = ['', ...skipped.map((name) => ` and ${column} >= '${name};'`)]
  const ends = [...skipped.map((name) => ` and ${column} < '${name}:'`), '']
  return starts.map(
    (start, at) => `select sub from (select distinct ${column} as sub from ${from}
       where ${column} > $1${start}${ends[at]}${found} order by ${column} limit $2) as part`,
  )
}

/** The accounts of one person. */
interface PersonAccounts {
  /** The sub that orders the list. */
  readonly position: string
  readonly subs: readonly string[]
  readonly identityName?: string | undefined
}

interface Claim {
  readonly sub: string
  readonly identity_id: string
  readonly name: string
}

/** In the order of `subs`, without persons that an earlier sub has already listed. */
async function groupAccounts(tx: Tx, subs: readonly string[], search: string | undefined): Promise<PersonAccounts[]> {
  const claims = await claimsOfPeople(tx, subs)
  const byIdentity = Map.groupBy(claims, ({ identity_id }) => identity_id)
  const identityOf = new Map(claims.map(({ sub, identity_id }) => [sub, identity_id]))
  const searched = search === undefined ? undefined : await readSearchedTexts(tx, claims)
  const isMatch = ({ sub, name }: Claim): boolean =>
    searched === undefined || lowerAscii([sub, name, searched.get(sub)].join('\n')).includes(lowerAscii(search ?? ''))
  return subs.filter(isPerson).flatMap((sub) => {
    const linked = byIdentity.get(identityOf.get(sub) ?? '') ?? []
    if (linked.some((claim) => claim.sub < sub && isPerson(claim.sub) && isMatch(claim))) return []
    return [{ position: sub, subs: primaryFirst(sub, linked), identityName: linked[0]?.name }]
  })
}

async function accountsOfSub(tx: Tx, sub: string): Promise<PersonAccounts> {
  const claims = await claimsOfPeople(tx, [sub])
  return { position: sub, subs: primaryFirst(sub, claims), identityName: claims[0]?.name }
}

/** As `primaryAccount` decides: the account that was linked first; subs of platforms sign no person in. */
function primaryFirst(sub: string, linked: readonly Claim[]): string[] {
  const subs = linked.map((claim) => claim.sub)
  const primary = subs.find(isAccount) ?? subs[0] ?? sub
  return [primary, ...subs.filter((each) => each !== primary)]
}

function isPerson(sub: string): boolean {
  return isPersonNamespace(sub) && !isGlob(sub)
}

/** The claims of all accounts that belong to the same people, in the order in which they were linked. */
function claimsOfPeople(tx: Tx, subs: readonly string[]): Promise<Claim[]> {
  return queryForValues(
    tx,
    { sub: text, identity_id: text, name: text },
    subs,
    (marks) => `select c.sub, c.identity_id, i.name from identity_claims c join identities i on i.id = c.identity_id
      where c.identity_id in (select identity_id from identity_claims where sub in (${marks}))
      order by c.claimed_at, c.sub`,
  )
}

async function readSearchedTexts(tx: Tx, claims: readonly Claim[]): Promise<Map<string, string>> {
  const rows = await readAccounts(
    tx,
    claims.map(({ sub }) => sub),
  )
  return new Map(rows.map(({ sub, name, email }) => [sub, [name, email].join('\n')]))
}

function readAccounts(tx: Tx, subs: readonly string[]) {
  return queryForValues(
    tx,
    { sub: text, name: optional(text), email: optional(text), signed_in_at: optional(text) },
    subs,
    (marks) => `select sub, name, email, signed_in_at from accounts where sub in (${marks})`,
  )
}

/** A fixed number of statements for a page of people. */
async function describePeople(
  tx: Tx,
  found: readonly PersonAccounts[],
  policy: Policy,
  nowMs: number,
): Promise<PersonRow[]> {
  const now = timestamp(nowMs)
  const all = found.flatMap(({ subs }) => subs)
  const primary = found.map(({ subs: [first = ''] }) => first)
  const accounts = bySub(await readAccounts(tx, all))
  const counted = { sub: text, n: integer }
  const grants = bySub(
    await queryForValues(
      tx,
      counted,
      all,
      (marks) => `select principal as sub, count(*) as n from acl where principal in (${marks}) group by principal`,
    ),
  )
  const sessions = bySub(
    await queryForValues(
      tx,
      counted,
      primary,
      (marks) => `select sub, count(*) as n from sessions where sub in (${marks}) and status = 'active'
        and expires_at > $1 and ends_at > $1 group by sub`,
      [now],
    ),
  )
  const caps = bySub(
    await queryForValues(
      tx,
      { sub: text, cap: optional(integer) },
      primary,
      (marks) => `select sub, cost_cap_cents_per_day as cap from users where sub in (${marks})`,
    ),
  )
  const spent = bySub(
    await queryForValues(
      tx,
      { sub: text, cents: integer },
      primary,
      (marks) => `select name as sub, cast(sum(cents) as bigint) as cents from daily_costs
        where payer = 'user_sub' and name in (${marks}) and day >= $1 group by name`,
      [now.slice(0, 10)],
    ),
  )
  return found.map(({ subs, identityName }) => {
    const [sub = ''] = subs
    const own = subs.flatMap((each) => accounts.get(each) ?? [])
    const name = identityName ?? own.find((account) => account.name !== undefined)?.name
    const email = own.find((account) => account.email !== undefined)?.email
    const signedInAt = own
      .flatMap((account) => account.signed_in_at ?? [])
      .sort()
      .at(-1)
    const cap = caps.get(sub)?.cap
    return {
      sub,
      ...(name === undefined ? {} : { name }),
      ...(email === undefined ? {} : { email }),
      subs: [...subs],
      roles: rolesOf(policy, sub),
      is_operator: isOperator(policy, sub),
      grants: subs.reduce((sum, each) => sum + (grants.get(each)?.n ?? 0), 0),
      ...(signedInAt === undefined ? {} : { signed_in_at: signedInAt }),
      sessions: sessions.get(sub)?.n ?? 0,
      ...(cap === undefined ? {} : { cap }),
      spent: spent.get(sub)?.cents ?? 0,
    }
  })
}

function bySub<T extends { readonly sub: string }>(rows: readonly T[]): ReadonlyMap<string, T> {
  return new Map(rows.map((row) => [row.sub, row]))
}
