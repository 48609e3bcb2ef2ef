// What stands in the store of an instance: rows counted, and rows put there by plain SQL, many at once.
import { DatabaseSync } from 'node:sqlite'
import { run } from '../src/store/statement.ts'
import type { Instance } from './instance.ts'

/** Messages that came in from outside. */
export function countMessages(instance: Instance): Promise<number> {
  return instance.open((host) =>
    host.engine.read(async (tx) => {
      const { rows } = await run(tx, `select count(*) as count from messages where direction = 'in'`)
      return Number(rows[0]?.count)
    }),
  )
}

export interface Past {
  readonly messages: number
  readonly tokens: number
}

/** A SQLite store that has been in use for long: further links, and messages of all links, filed under their chats. */
export function fillStore(path: string, { messages, tokens }: Past): void {
  const db = new DatabaseSync(path)
  try {
    db.exec('pragma synchronous = off; begin')
    db.prepare(
      `insert into route_tokens (token_hash, jid, owner_folder, target_folder, source_label, created_at)
       with recursive n (i) as (select 1 union all select i + 1 from n where i < ?)
       select randomblob(32), 'hook:main/bench/old' || i, 'main', 'main', 'bench', '2026-01-01T00:00:00.000Z' from n`,
    ).run(tokens)
    db.exec(`create temp table links as select jid from route_tokens order by token_hash`)
    db.prepare(
      `insert into messages (id, jid, target_folder, direction, kind, sender, content, content_type, created_at)
       with recursive n (i) as (select 0 union all select i + 1 from n where i < ? - 1)
       select lower(hex(randomblob(16))), l.jid, 'main', 'in', 'message', 'bench', cast(printf('%1024d', i) as blob),
         'application/json', '2026-01-01T00:00:00.000Z'
       from n join links l on l.rowid = 1 + n.i % (select max(rowid) from links)`,
    ).run(messages)
    db.exec(`insert into chat_events (jid, seq, kind, message_seq)
      select jid, row_number() over (partition by jid order by seq), kind, seq from messages`)
    db.exec('update filing set last_seq = (select max(seq) from messages)')
    db.exec('commit')
  } finally {
    db.close()
  }
}
