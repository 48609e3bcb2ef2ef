// How many bytes of received messages are stored for each chat and each folder. Filing adds to these counters in the
// transaction that moves its cursor, so every message counts once, whichever process files it and whenever one dies.
import { z } from 'zod'
import { Refusal, refuse } from '../lib/refusal.ts'
import type { Tx, Value } from '../store/engine.ts'
import { run } from '../store/statement.ts'
import { Table } from '../store/table.ts'

export const StorageScope = z.enum(['chat', 'folder'])
export type StorageScope = z.output<typeof StorageScope>

/** What the rows of one message take besides its content: id, chat, sender, times, its event and its place in the queue. */
export const MESSAGE_OVERHEAD = 512

/**
 * Adds up the messages of a range, which is read once. The link's context is copied into each of its messages, so it
 * counts for each.
 */
const add = (range: string): string => `
  with received as materialized (
    select m.jid, m.target_folder, sum(octet_length(m.content) + coalesce(octet_length(m.link_context), 0)
      + coalesce(octet_length(e.attachments), 0) + ${MESSAGE_OVERHEAD}) as bytes
    from messages m left join envelopes e on e.message_seq = m.seq
    where ${range} and m.direction = 'in' group by m.jid, m.target_folder)
  insert into storage_use (scope, name, bytes)
  select 'chat', jid, cast(sum(bytes) as bigint) from received group by jid
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
    // What an earlier version has stored; the messages that it has not filed are counted when they are.
    add('m.seq <= (select last_seq from filing where id = 1)'),
  ],
})

const COUNT = `${add('m.seq > $1 and m.seq <= $2')}
  on conflict (scope, name) do update set bytes = storage_use.bytes + excluded.bytes returning scope, name`

/** Counts the messages of a range that is filed in the same transaction; the chats that they are in. */
export async function countReceived(tx: Tx, since: number, until: number): Promise<string[]> {
  const { rows } = await run(tx, COUNT, [since, until])
  return rows.flatMap(({ scope, name }) => (scope === 'chat' ? [String(name)] : []))
}

export async function storedBytes(tx: Tx, scope: StorageScope, name: string): Promise<number> {
  return (await storageUse.find(tx, { scope, name }))?.bytes ?? 0
}

/** In bytes; 0 is no limit. */
export interface StorageQuotas {
  readonly chat: number
  readonly folder: number
}

export const QUOTA_KEYS: Readonly<Record<StorageScope, string>> = { chat: 'LINK_QUOTA', folder: 'FOLDER_QUOTA' }

/** For messages that are recorded one by one: by the counters as they are in this transaction. */
export async function mustHaveStorage(
  tx: Tx,
  quotas: StorageQuotas,
  { jid, folder, bytes }: { readonly jid: string; readonly folder: string; readonly bytes: number },
): Promise<void> {
  const isFull = async (scope: StorageScope, name: string): Promise<boolean> =>
    quotas[scope] > 0 && (await storedBytes(tx, scope, name)) + bytes + MESSAGE_OVERHEAD > quotas[scope]
  if ((await isFull('chat', jid)) || (await isFull('folder', folder)))
    refuse(
      'storage_full',
      `${folder} takes no more messages: its storage is full`,
      'ask the operator to raise its quota',
    )
}

/** What a link's visitor is told; the operator is told by the log and by `svc doctor`. */
export function storageFull(): Refusal {
  return new Refusal(
    'storage_full',
    'this link takes no more messages: its storage is full',
    'ask the person who gave you the link',
  )
}

export interface StorageFinding {
  readonly scope: StorageScope
  readonly name: string
  readonly bytes: number
  readonly quota: number
}

/** The chats of links, and the folders, that have used at least `share` of their quota; the fullest first. */
export async function nearlyFull(tx: Tx, quotas: StorageQuotas, share: number): Promise<StorageFinding[]> {
  const found: StorageFinding[] = []
  for (const scope of StorageScope.options) {
    const quota = quotas[scope]
    if (quota === 0) continue
    const { rows } = await run(
      tx,
      `select name, bytes from storage_use where scope = $1 and bytes >= $2${scope === 'chat' ? ONLY_LINKS : ''}`,
      [scope, Math.floor(quota * share)] satisfies Value[],
    )
    for (const { name, bytes } of rows) found.push({ scope, name: String(name), bytes: Number(bytes), quota })
  }
  return found.sort((a, b) => b.bytes / b.quota - a.bytes / a.quota)
}

/** The chats of platforms have no quota. */
const ONLY_LINKS = ` and name in (select jid from route_tokens)`
