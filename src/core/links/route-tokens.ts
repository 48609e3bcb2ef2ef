// Route tokens: bearer links as rows. Only the hash of a token is stored.
import { z } from 'zod'
import type { Tx } from '../../store/engine.ts'
import { query, text } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { Reach } from '../access/reach.ts'
import { Bytes, checkedText, Folder, Jid, LabelSegment, multilineText, Sub, Timestamp } from '../values.ts'
import { Visitors } from './visitor-chats.ts'
import { signatureSchemeFault } from './webhook-signatures.ts'

export const RouteToken = z
  .object({
    token_hash: Bytes.meta({ writeOnly: true }),
    jid: Jid,
    owner_folder: Folder.describe('Folder of the issuer; limits who may revoke it'),
    target_folder: Folder.optional().describe('Folder that receives its messages'),
    source_label: LabelSegment.optional().meta({ writeOnly: true }),
    created_at: Timestamp.meta({ readOnly: true }),
    context: multilineText(16_384).optional().describe('Instructions for processing messages from this link'),
    tools: Reach.optional().describe('Reach of its messages; absent: chat for web:, work for hook:'),
    // Only the operator's command line sets these. See docs/decisions.md#signed-webhooks.
    verify: checkedText(signatureSchemeFault).optional().meta({ writeOnly: true }),
    verify_secret: Bytes.optional().meta({ writeOnly: true }),
    // Only for the chat of one person with the folder. See docs/decisions.md#person-chats.
    person: Sub.optional().meta({ writeOnly: true }),
    // Only the operator's command line and the dashboard set it. See docs/decisions.md#visitors-apart.
    visitors: Visitors.optional().meta({ writeOnly: true }),
    // Only operators' faces set these; the secret is set for a URL. See docs/decisions.md#answers-of-webhooks.
    answer_to: z.string().optional().meta({ writeOnly: true }),
    answer_secret: Bytes.optional().meta({ writeOnly: true }),
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
    'alter table route_tokens add column person text',
    'create unique index route_tokens_of_person on route_tokens (jid) where person is not null',
    'create index route_tokens_of_owner_newest on route_tokens (owner_folder, created_at desc, token_hash)',
    'create index route_tokens_of_target_newest on route_tokens (target_folder, created_at desc, token_hash)',
    'drop index route_tokens_of_owner',
    'drop index route_tokens_of_target',
    'create index route_tokens_signed on route_tokens (jid) where verify is not null',
    'alter table route_tokens add column visitors text',
    'alter table route_tokens add column answer_to text',
    'alter table route_tokens add column answer_secret bytea',
    'create index route_tokens_answering on route_tokens (jid) where answer_to is not null',
  ],
})

/** Binds the seal of `verify_secret` to its row, so it does not open on another link. */
export function verifyContext(tokenHash: Uint8Array): string {
  return `link signature ${Buffer.from(tokenHash).toString('hex')}`
}

/** The same for `answer_secret`. */
export function answerContext(tokenHash: Uint8Array): string {
  return `link answers ${Buffer.from(tokenHash).toString('hex')}`
}

/** Rows that lists and texts about links must not show. */
export function isPersonChat({ person }: Pick<z.output<typeof RouteToken>, 'person'>): boolean {
  return person !== undefined
}

/** Whether answers go to a program, not to a chat. */
export function isAnswerUrl(target: string): boolean {
  return target.startsWith('https://')
}

/** The target of a webhook's answers to this turn; undefined if they stay in its chat. */
export async function findAnswerTarget(tx: Tx, jid: string, turn_id: string | undefined): Promise<string | undefined> {
  if (turn_id === undefined || !jid.startsWith('hook:')) return undefined
  // What other turns say in the chat is not an answer.
  const [link] = await query(
    tx,
    { answer_to: text },
    `select answer_to from route_tokens where jid = $1 and answer_to is not null
       and exists (select 1 from turns where id = $2 and jid = $1)`,
    [jid, turn_id],
  )
  return link?.answer_to
}
