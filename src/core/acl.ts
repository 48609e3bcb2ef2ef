// The access rows and role memberships, and the compiled policy that is made of them.
import { z } from 'zod'
import type { Tx } from '../store/engine.ts'
import { run } from '../store/statement.ts'
import { Table } from '../store/table.ts'
import { type AclRow, compilePolicy, deadRow, type Policy } from './access.ts'
import { line, Timestamp } from './values.ts'

const NOTED = (freshText: string) => `update access_stamp set stamp = ${freshText} where id = 1`

export const Acl = z
  .object({
    principal: line(256).describe('Who: folder:<path>, <provider>:<id>, role:<name>, or a glob of them'),
    action: line(128).describe(
      'What: *, admin, interact, assume or mcp:<tool>, where * stands for any part of a name; hold:mcp:<tool> lets an operator decide',
    ),
    scope: line(255).describe('Where: a folder glob; ** is everywhere'),
    effect: z.enum(['allow', 'deny']),
    params: z.string().max(512).describe('key=glob pairs that the call must have, or empty'),
    predicate: z.string().max(512).describe("key=glob pairs that the caller's claims must have, or empty"),
    granted_by: line(256).optional(),
    granted_at: Timestamp.meta({ readOnly: true }),
  })
  .meta({ id: 'Acl' })

export const AclMembership = z
  .object({
    subject: line(256).describe('Who is a member: <provider>:<id>, folder:<path> or role:<name>'),
    role: line(256).describe('Of which role: role:<name>'),
    added_by: line(256).optional(),
    added_at: Timestamp.meta({ readOnly: true }),
  })
  .meta({ id: 'AclMembership' })

const MEMBER_TOOLS = [
  'reply',
  'send',
  'send_file',
  'send_voice',
  'post',
  'forward',
  'quote',
  'repost',
  'like',
  'dislike',
  'edit',
  'delete',
]
const SEEDED_AT = '2026-01-01T00:00:00.000Z'

function seed(principal: string, action: string): string {
  return `insert into acl (principal, action, scope, effect, params, predicate, granted_by, granted_at)
    values ('${principal}', '${action}', '**', 'allow', '', '', 'system', '${SEEDED_AT}')`
}

export const acl = new Table({
  name: 'acl',
  row: Acl,
  key: ['principal', 'action', 'scope', 'params', 'predicate', 'effect'],
  storage: [
    `create table acl (
       principal text not null, action text not null, scope text not null, effect text not null,
       params text not null, predicate text not null, granted_by text, granted_at text not null,
       primary key (principal, action, scope, params, predicate, effect))`,
    // Changes with every write to the rows that decide, whoever writes: a policy kept in memory is known to be current.
    () => [
      'create table access_stamp (id integer primary key, stamp text not null)',
      `insert into access_stamp (id, stamp) values (1, 'new')`,
    ],
    (dialect) => dialect.onWrite('acl', NOTED(dialect.freshText)),
    () => [seed('role:operator', '*'), ...MEMBER_TOOLS.map((tool) => seed('role:member', `mcp:${tool}`))],
  ],
})

export const aclMembership = new Table({
  name: 'acl_membership',
  row: AclMembership,
  key: ['subject', 'role'],
  storage: [
    `create table acl_membership (
       subject text not null, role text not null, added_by text, added_at text not null, primary key (subject, role))`,
    (dialect) => dialect.onWrite('acl_membership', NOTED(dialect.freshText)),
  ],
})

/** The policy as it stands in this transaction. A read that fails is thrown, so it refuses rather than allows. */
export class PolicyReader {
  #stamp: string | undefined
  #policy: Policy | undefined

  async read(tx: Tx): Promise<Policy> {
    const { rows } = await run(tx, 'select stamp from access_stamp where id = 1')
    const stamp = String(rows[0]?.stamp)
    if (this.#policy && stamp === this.#stamp) return this.#policy
    const [grants, memberships] = [await acl.list(tx), await aclMembership.list(tx)]
    this.#policy = compilePolicy(grants, memberships)
    this.#stamp = stamp
    return this.#policy
  }
}

/** Why this row must not be written, or nothing. */
export function aclFault(row: AclRow): string | undefined {
  return deadRow(row)
}
