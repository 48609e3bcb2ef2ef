// Counts rows in the store of an instance, and fills a store with plain SQL.
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as pause } from 'node:timers/promises'
import { Refusal } from '../src/lib/refusal.ts'
import { run } from '../test/support/sql.ts'
import type { Instance } from './instance.ts'

/** Counts received messages in chats whose JID begins with `chats`. */
export function countMessages(instance: Instance, chats = ''): Promise<number> {
  return instance.open((host) =>
    host.engine.read(async (tx) => {
      const sql = `select count(*) as count from messages where direction = 'in' and jid like $1`
      const { rows } = await run(tx, sql, [`${chats}%`])
      return Number(rows[0]?.count)
    }),
  )
}

/** Builds the search index in advance, so that building it is not measured with the messages. */
export function fillIndex(instance: Instance): Promise<void> {
  return instance.open(async ({ search }) => {
    for (;;) {
      try {
        await search?.search({ query: 'nothing', limit: 1 })
        return
      } catch (error) {
        if (!(error instanceof Refusal && error.message.includes('being built'))) throw error
        await pause(100)
      }
    }
  })
}

export interface StoreHistory {
  readonly messages: number
  readonly tokens: number
  /** How many of the last messages were answered, each in its own turn. */
  readonly turns: number
}

/** Id of a message in the format of `uuidv7`, so that ids sort by time. */
const id = (number: string): string =>
  `printf('019b76da-%04x-7%03x-8000-', ${number} >> 12, ${number} & 4095) || lower(hex(randomblob(6)))`
const AT = '2026-01-01T00:00:00.000Z'

/** Fills a SQLite store like one in long use: links, and their messages, events and turns. */
export function fillStore(path: string, { messages, tokens, turns }: StoreHistory): void {
  const db = new DatabaseSync(path)
  try {
    // The store is disposable, so no journal is needed; the cache has room for the growing indexes.
    db.exec('pragma journal_mode = off; pragma synchronous = off; pragma cache_size = -1000000; begin')
    db.prepare(
      `insert into route_tokens (token_hash, jid, owner_folder, target_folder, source_label, created_at)
       with recursive n (i) as (select 1 union all select i + 1 from n where i < ?)
       select randomblob(32), 'hook:main/bench/old' || i, 'main', 'main', 'bench', '${AT}' from n`,
    ).run(tokens)
    db.exec('create temp table links as select jid from route_tokens order by token_hash')
    db.prepare(
      `insert into messages (id, jid, target_folder, direction, kind, sender, content, content_type, created_at)
       with recursive n (i) as (select 0 union all select i + 1 from n where i < ? - 1)
       select ${id('i')}, l.jid, 'main', 'in', 'message', 'bench', cast(printf('%1024d', i) as blob),
         'application/json', '${AT}'
       from n join links l on l.rowid = 1 + n.i % (select max(rowid) from links)`,
    ).run(messages)
    fillTurns(db, turns)
    db.exec(`insert into chat_events (jid, seq, kind, message_seq)
      select jid, row_number() over (partition by jid order by seq), kind, seq from messages`)
    db.exec(`insert into storage_use (scope, name, bytes)
      select 'chat', jid, sum(length(content) + 512) from messages where direction = 'in' group by jid union all
      select 'folder', 'main', sum(length(content) + 512) from messages where direction = 'in'`)
    db.exec('update filing set last_seq = (select max(seq) from messages)')
    db.exec('update routing set last_seq = (select max(seq) from messages)')
    db.exec('commit; pragma journal_mode = wal')
  } finally {
    db.close()
  }
}

/** Routes all messages and answers each of the last `count` in its own turn, in a round with one frame. */
function fillTurns(db: DatabaseSync, count: number): void {
  db.prepare(
    `create temp table answered as
       select seq, id, jid, (select max(seq) from messages) + row_number() over (order by seq) as reply
       from messages order by seq desc limit ?`,
  ).run(count)
  db.exec(`
    insert into messages (seq, id, jid, target_folder, direction, kind, sender, turn_id, content, created_at)
      select reply, ${id('reply')}, jid, 'main', 'out', 'message', 'main', id, cast('an answer' as blob), '${AT}'
      from answered order by reply;
    insert into inbox (message_seq, id, jid, folder, topic, chat_topic, sender, verb, state, turn_id, updated_at, reach)
      select m.seq, m.id, m.jid, 'main', 'visitor:' || m.jid || '#', '', 'bench', 'message', 'answered',
        coalesce(a.id, m.id), '${AT}', 'work'
      from messages m left join answered a on a.seq = m.seq where m.direction = 'in';
    insert into turns (id, folder, topic, jid, chat_topic, sender, first_seq, last_seq, message_count, state, outcome, attempts,
        fence, leased_until, run_after, replies, depth, is_isolated, is_timed, is_guest, submitted, is_stopping, started_at,
        ended_at, reach)
      select id, 'main', 'visitor:' || jid || '#', jid, '', 'bench', seq, seq, 1, 'done', 'answered', 1, 1, 0, 0, 1, 0, 0, 0,
        0, 'success', 0, '${AT}', '${AT}', 'work' from answered;
    insert into rounds (id, jid, target_folder, message_seq, status, last_seq, created_at, ended_at)
      select id, jid, 'main', seq, 'success', 1, '${AT}', '${AT}' from answered;
    insert into frames (turn_id, seq, message_seq) select id, 1, reply from answered;
    insert into outbox (message_seq, id, jid, topic, folder, turn_id, action, payload, engages, state, attempts, next_at,
        fence, leased_until, created_at, updated_at)
      select m.seq, m.id, m.jid, '', 'main', m.turn_id, 'send', '{}', 1, 'sent', 0, 0, 0, 0, '${AT}', '${AT}'
      from messages m where m.direction = 'out';
    insert into conversations (folder, topic, waiting, session_id, observed_seq, updated_at)
      select distinct 'main', 'visitor:' || jid || '#', 0, 'demo-' || jid, 0, '${AT}' from answered;
    insert into session_log (folder, topic, turn_id, event, message_count, result, started_at, ended_at)
      select 'main', 'visitor:' || jid || '#', id, 'turn', 1, 'answered', '${AT}', '${AT}' from answered`)
}
