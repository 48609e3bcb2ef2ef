// Acl rows and role memberships, and the cached policy compiled from them.
import { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import { Table } from '../../store/table.ts'
import { ChangeStamp } from '../change-stamps.ts'
import { line, Timestamp } from '../values.ts'
import { compilePolicy, type Policy } from './policy.ts'

const accessStamp = new ChangeStamp('access_stamp')

export const Acl = z
  .object({
    principal: line(256).describe('folder:<path>, <provider>:<id>, role:<name>, or a glob of these'),
    action: line(128).describe(
      '*, admin, interact, assume or mcp:<tool>, where * matches any part of a tool name; hold:mcp:<tool> requires approval by an operator',
    ),
    scope: line(255).describe('Folder glob; ** matches every folder and the instance'),
    effect: z.enum(['allow', 'deny']),
    params: z
      .string()
      .max(512)
      .default('')
      .describe('key=glob pairs that the arguments of the call must match, or empty'),
    predicate: z.string().max(512).default('').describe("key=glob pairs that the caller's claims must match, or empty"),
    granted_by: line(256).optional(),
    granted_at: Timestamp.meta({ readOnly: true }),
  })
  .meta({ id: 'Acl' })

export const AclMembership = z
  .object({
    subject: line(256).describe('Member: <provider>:<id>, folder:<path> or role:<name>'),
    role: line(256).describe('role:<name>'),
    added_by: line(256).optional(),
    added_at: Timestamp.meta({ readOnly: true }),
  })
  .meta({ id: 'AclMembership' })

/** Sentences about what the removal of a grant or membership takes away (explanation.ts). */
export const RemovalEffects = z.object({ warnings: z.array(z.string()) })

const MEMBER_TOOLS = 'reply send send_file send_voice post forward quote repost like dislike edit delete'.split(' ')
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
    () => accessStamp.createStatements(),
    accessStamp.updateOnWrite('acl'),
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
    accessStamp.updateOnWrite('acl_membership'),
  ],
})

/** Caches the compiled policy. A failed read throws, so the caller denies access. */
export class PolicyReader {
  #stamp: string | undefined
  #policy: Policy | undefined

  async read(tx: Tx): Promise<Policy> {
    const stamp = await accessStamp.read(tx)
    if (this.#policy && stamp === this.#stamp) return this.#policy
    this.#policy = compilePolicy(await acl.list(tx), await aclMembership.list(tx))
    this.#stamp = stamp
    return this.#policy
  }
}
