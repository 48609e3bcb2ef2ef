// Stored bytes of received messages and of files per chat and folder, for quotas. `addMessagesToChats` updates the
// counters in its transaction, so every message counts exactly once, also after a crash.
import { z } from 'zod'
import { Refusal, refuse } from '../../lib/refusal.ts'
import type { Tx, Value } from '../../store/engine.ts'
import { execute, integer, placeholders, query, text } from '../../store/statement.ts'
import { Table } from '../../store/table.ts'
import { LINK_JID_SQL, VISITOR_CHAT_SQL } from './visitor-chats.ts'

export const StorageScope = z.enum(['chat', 'folder'])
export type StorageScope = z.output<typeof StorageScope>

/** Estimated size of a message's rows without its content. */
export const MESSAGE_OVERHEAD_BYTES = 512

/** Chats with the bytes that they received. A visitor's chat counts for its link too. */
const PER_CHAT = "select 'chat', jid, cast(sum(bytes) as bigint) from received group by jid"
const perChatAndLink = (table: 'received' | 'stored'): string => `select 'chat', name, cast(sum(bytes) as bigint) from (
    select jid as name, bytes from ${table}
    union all select ${LINK_JID_SQL('jid')}, bytes from ${table} where ${VISITOR_CHAT_SQL('jid')}) as c group by name`

const CLIENT_CONTEXT_BYTES = ' + coalesce(octet_length(m.client_context), 0)'

/** Sums the messages of a range. The link's context is copied into each message, so it counts for each. */
const addSql = (range: string, perChat = perChatAndLink('received'), extra = CLIENT_CONTEXT_BYTES): string => `
  with received as materialized (
    select m.jid, m.target_folder, sum(octet_length(m.content) + coalesce(octet_length(m.link_context), 0)
      + coalesce(octet_length(e.attachments), 0)${extra} + ${MESSAGE_OVERHEAD_BYTES}) as bytes
    from messages m left join envelopes e on e.message_seq = m.seq
    where ${range} and m.direction = 'in' group by m.jid, m.target_folder)
  insert into storage_use (scope, name, bytes)
  ${perChat}
  union all
  select 'folder', target_folder, cast(sum(bytes) as bigint) from received
    where target_folder is not null group by target_folder`

export const storageUse = new Table({
  name: 'storage_use',
  row: z.object({ scope: StorageScope, name: z.string(), bytes: z.int() }),
  key: ['scope', 'name'],
  storage: [
    `create table storage_use (
       scope text not null, name text not null, bytes bigint not null, primary key (scope, name))`,
    // Messages that an earlier version stored; those not yet in their chats are counted when they are added.
    addSql('m.seq <= (select last_seq from filing where id = 1)', PER_CHAT, ''),
  ],
})

const ON_CONFLICT_ADD = 'on conflict (scope, name) do update set bytes = storage_use.bytes + excluded.bytes'
const COUNT = `${addSql('m.seq > $1 and m.seq <= $2')} ${ON_CONFLICT_ADD} returning scope, name`

/** Call in the transaction that adds the range to its chats. Returns the chats of its messages. */
export async function addReceivedBytes(tx: Tx, since: number, until: number): Promise<string[]> {
  const rows = await query(tx, { scope: text, name: text }, COUNT, [since, until])
  return rows.flatMap(({ scope, name }) => (scope === 'chat' ? [name] : []))
}

const REMAINING = 'storage_use.bytes - excluded.bytes'
const ON_CONFLICT_SUBTRACT = `on conflict (scope, name) do update set bytes = case when ${REMAINING} > 0 then ${REMAINING} else 0 end`

/** Call before deleting the messages. */
export async function subtractReceivedBytes(tx: Tx, seqs: readonly number[]): Promise<void> {
  await execute(tx, `${addSql(`m.seq in (${placeholders(seqs.length)})`)} ${ON_CONFLICT_SUBTRACT}`, seqs)
}

/** For chats that are gone: strangers create these rows, so they must not stay. */
export async function forgetChatBytes(tx: Tx, jids: readonly string[]): Promise<void> {
  if (jids.length === 0) return
  await execute(tx, `delete from storage_use where scope = 'chat' and name in (${placeholders(jids.length)})`, jids)
}

/** Bytes of the files of these messages, which also the agent may have sent. */
const filesSql = (count: number): string => `
  with stored as materialized (
    select jid, folder, sum(size) as bytes from chat_files where message_seq in (${placeholders(count)}) group by jid, folder)
  insert into storage_use (scope, name, bytes)
  ${perChatAndLink('stored')}
  union all
  select 'folder', folder, cast(sum(bytes) as bigint) from stored where true group by folder`

/** Call after adding the files. */
export async function addFileBytes(tx: Tx, seqs: readonly number[]): Promise<void> {
  await execute(tx, `${filesSql(seqs.length)} ${ON_CONFLICT_ADD}`, seqs)
}

/** Call before deleting the files. */
export async function subtractFileBytes(tx: Tx, seqs: readonly number[]): Promise<void> {
  await execute(tx, `${filesSql(seqs.length)} ${ON_CONFLICT_SUBTRACT}`, seqs)
}

/** For bytes that were moved out of a message into a file. */
export async function subtractMovedBytes(tx: Tx, seq: number, bytes: number): Promise<void> {
  await execute(
    tx,
    `insert into storage_use (scope, name, bytes)
     select 'chat', jid, cast($2 as bigint) from messages where seq = $1 union all
     select 'chat', ${LINK_JID_SQL('jid')}, cast($2 as bigint) from messages
       where seq = $1 and ${VISITOR_CHAT_SQL('jid')} union all
     select 'folder', target_folder, cast($2 as bigint) from messages where seq = $1 and target_folder is not null
     ${ON_CONFLICT_SUBTRACT}`,
    [seq, bytes],
  )
}

export async function storedBytes(tx: Tx, scope: StorageScope, name: string): Promise<number> {
  return (await storageUse.find(tx, { scope, name }))?.bytes ?? 0
}

/** In bytes; 0 means no limit. */
export interface StorageQuotas {
  readonly chat: number
  readonly folder: number
}

export const QUOTA_SETTINGS: Readonly<Record<StorageScope, string>> = { chat: 'LINK_QUOTA', folder: 'FOLDER_QUOTA' }

/** For messages recorded one by one; links use webd's cached counters instead. */
export async function mustHaveStorage(
  tx: Tx,
  quotas: StorageQuotas,
  { jid, folder, bytes }: { readonly jid: string; readonly folder: string; readonly bytes: number },
): Promise<void> {
  const isFull = async (scope: StorageScope, name: string): Promise<boolean> =>
    quotas[scope] > 0 && (await storedBytes(tx, scope, name)) + bytes + MESSAGE_OVERHEAD_BYTES > quotas[scope]
  if ((await isFull('chat', jid)) || (await isFull('folder', folder)))
    refuse(
      'storage_full',
      `${folder} accepts no more messages: its storage is full`,
      'ask the operator to raise its quota',
    )
}

/** For visitors; operators see it in the log and in `svc doctor`. */
export function storageFullRefusal(): Refusal {
  return new Refusal(
    'storage_full',
    'this link accepts no more messages: its storage is full',
    'ask the person who gave you the link',
  )
}

interface QuotaUsage {
  readonly scope: StorageScope
  readonly name: string
  readonly bytes: number
  readonly quota: number
}

/** Folders and chats of links that have used at least `share` of their quota, fullest first. */
export async function findNearlyFull(tx: Tx, quotas: StorageQuotas, share: number): Promise<QuotaUsage[]> {
  const found: QuotaUsage[] = []
  for (const scope of StorageScope.options) {
    const quota = quotas[scope]
    if (quota === 0) continue
    const rows = await query(
      tx,
      { name: text, bytes: integer },
      `select name, bytes from storage_use where scope = $1 and bytes >= $2${scope === 'chat' ? ONLY_LINKS : ''}`,
      [scope, Math.floor(quota * share)] satisfies Value[],
    )
    for (const { name, bytes } of rows) found.push({ scope, name, bytes, quota })
  }
  return found.sort((a, b) => b.bytes / b.quota - a.bytes / a.quota)
}

/** Chats of platforms have no quota. */
const ONLY_LINKS = ` and name in (select jid from route_tokens)`
