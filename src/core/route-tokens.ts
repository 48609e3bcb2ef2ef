// Route tokens as rows: bearer links. The raw token is never stored.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { Table } from '../store/table.ts'
import { Reach } from './reach.ts'
import { schemeFault } from './signatures.ts'
import { Bytes, Folder, Jid, prose, Segment, Timestamp, text } from './values.ts'

export const RouteToken = z
  .object({
    token_hash: Bytes.meta({ writeOnly: true }),
    jid: Jid,
    owner_folder: Folder.describe('The folder of whoever issued it; bounds who may revoke'),
    target_folder: Folder.optional().describe('The folder where it delivers'),
    source_label: Segment.optional().meta({ writeOnly: true }),
    created_at: Timestamp.meta({ readOnly: true }),
    context: prose(16_384).optional().describe('How to process what arrives through this link'),
    tools: Reach.optional().describe('What its messages may ask for; absent: chat for web:, work for hook:'),
    // Of the operator alone (decision L18): no tool and no REST parameter sets or shows them.
    verify: text(schemeFault).optional().meta({ writeOnly: true }),
    verify_secret: Bytes.optional().meta({ writeOnly: true }),
  })
  .meta({ id: 'RouteTokens' })

export const routeTokens = new Table({
  name: 'route_tokens',
  row: RouteToken,
  key: 'token_hash',
  storage: [
    `create table route_tokens (
       token_hash bytea primary key, jid text not null,
       owner_folder text not null references groups (folder) on delete cascade,
       target_folder text references groups (folder) on delete cascade,
       source_label text, created_at text not null, context text)`,
    'create index route_tokens_of_jid on route_tokens (jid)',
    'create index route_tokens_of_owner on route_tokens (owner_folder)',
    'create index route_tokens_of_target on route_tokens (target_folder)',
    'create index route_tokens_newest on route_tokens (created_at, token_hash)',
    'alter table route_tokens add column verify text',
    'alter table route_tokens add column verify_secret bytea',
    'alter table route_tokens add column tools text',
  ],
})

export function hashToken(token: string): Uint8Array {
  return createHash('sha256').update(token).digest()
}

/** Bound into the seal of `verify_secret`, so that it opens beside no other link. */
export function verifyContext(tokenHash: Uint8Array): string {
  return `link signature ${Buffer.from(tokenHash).toString('hex')}`
}
