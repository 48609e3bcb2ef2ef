// Fills a store as after long use, with a few statements: the rows of one folder, in one chat of a link and one of a platform,
// because a plan that reads a whole folder or chat is most expensive there.
import type { Engine, Tx, Value } from '../../src/store/engine.ts'
import { run } from './sql.ts'

export interface OldStore {
  /** Each with a question and an answer. */
  readonly turns: number
  readonly folder: string
  /** A chat of a link and one of a platform; each has half of the turns. */
  readonly jids: readonly [string, string]
  /** The time of all rows. */
  readonly at: string
}

/** The tables that grow with messages and turns. */
export const GROWING_TABLES = [
  'messages',
  'inbox',
  'turns',
  'rounds',
  'frames',
  'chat_events',
  'chat_topics',
  'chat_files',
  'outbox',
  'envelopes',
  'session_log',
  'cost_log',
  'conversations',
  'engagements',
  'chats',
  'storage_use',
  'audit',
  'sessions',
  'session_tokens',
  'bearers',
  'route_tokens',
] as const

/** Tables for which a tenth of the rows is enough. */
const FEWER = 'n where i % 10 = 0 order by i'

export async function fillOldStore(engine: Engine, old: OldStore): Promise<void> {
  await engine.transaction(async (tx) => {
    // Created at the end, which is much faster.
    const { rows: indexes } = await run(tx, engine.dialect.isRemote ? POSTGRES_INDEXES : SQLITE_INDEXES)
    for (const { name } of indexes) await run(tx, `drop index ${name}`)
    await fillTables(tx, old)
    await fillPeople(tx, old, engine.dialect.isRemote ? 'bytea' : 'blob')
    await fillLinks(tx, old, engine.dialect.isRemote ? 'bytea' : 'blob')
    for (const { sql } of indexes) await run(tx, String(sql))
  })
  if (engine.dialect.isRemote) await engine.transaction(async (tx) => void (await run(tx, 'analyze')))
}

const NAMED = GROWING_TABLES.map((name) => `'${name}'`).join(', ')
const SQLITE_INDEXES = `select name, sql from sqlite_schema
  where type = 'index' and sql is not null and tbl_name in (${NAMED})`
const POSTGRES_INDEXES = `select i.indexname as name, i.indexdef as sql from pg_indexes i
  where i.schemaname = current_schema() and i.tablename in (${NAMED})
    and not exists (select 1 from pg_constraint c where c.conname = i.indexname)`

const text = (value: string): string => `'${value}'`

/** Inserts a row for each number `i` of `n`, with SQL expressions as columns. */
function fillerOf(tx: Tx, rows: number) {
  return (table: string, columns: Readonly<Record<string, string>>, from: string, values: Value[] = []) =>
    run(
      tx,
      `insert into ${table} (${Object.keys(columns).join(', ')})
       with recursive n (i) as (select 1 union all select i + 1 from n where i < ${rows})
       select ${Object.values(columns).join(', ')} from ${from}`,
      values,
    )
}

/** Sessions and bearers of a tenth as many people, most of them over but not yet removed. */
async function fillPeople(tx: Tx, { turns, at }: OldStore, bytesType: string): Promise<void> {
  const fill = fillerOf(tx, turns)
  const end = `case when i % 20 = 0 then '2099-01-01T00:00:00.000Z' else '${at}' end`
  const sub = `'github:old' || (i % 1000)`
  await fill(
    'sessions',
    {
      family_id: `'old-' || i`,
      sub,
      scope: text(''),
      started_at: text(at),
      renewed_at: text(at),
      expires_at: end,
      rotations: '0',
      status: `case when i % 20 = 0 then 'active' else 'expired' end`,
      kind: text('browser'),
      method: text('link'),
      idle_ms: '1',
      ends_at: end,
    },
    FEWER,
  )
  await fill(
    'session_tokens',
    {
      token_hash: `cast('old-' || i as ${bytesType})`,
      family_id: `'old-' || i`,
      generation: '0',
      created_at: text(at),
      confirmed_at: text(at),
    },
    FEWER,
  )
  await fill(
    'bearers',
    {
      id: `'old-' || i`,
      sub,
      kind: text('user'),
      created_at: text(at),
      created_by: text('cli'),
      expires_at: end,
    },
    FEWER,
  )
}

async function fillLinks(tx: Tx, { turns, folder, at }: OldStore, bytesType: string): Promise<void> {
  await fillerOf(tx, turns)(
    'route_tokens',
    {
      token_hash: `cast('old-' || i as ${bytesType})`,
      jid: `'web:old/' || i`,
      owner_folder: text(folder),
      target_folder: text(folder),
      created_at: text(at),
    },
    'n order by i',
  )
}

async function fillTables(tx: Tx, { turns, folder, jids, at }: OldStore): Promise<void> {
  const fill = fillerOf(tx, turns)
  const jid = `case when i % 2 = 0 then '${jids[0]}' else '${jids[1]}' end`
  const common = { jid, target_folder: text(folder), kind: text('message'), created_at: text(at) }
  const ids = { turn_id: `'0-old-' || i`, content: '$1' }
  const content = [Buffer.from('said long ago')]
  await fill(
    'messages',
    { id: `'0-old-' || i`, ...common, direction: text('in'), sender: text('anon:old'), ...ids },
    'n order by i',
    content,
  )
  await fill(
    'messages',
    { id: `'said-' || i`, ...common, direction: text('out'), sender: text(folder), ...ids },
    'n order by i',
    content,
  )
  await run(tx, 'update filing set last_seq = (select max(seq) from messages) where id = 1')
  await run(tx, 'update routing set last_seq = (select max(seq) from messages) where id = 1')
  const asked = `n join messages m on m.seq = n.i and m.direction = 'in'`
  const said = `n join messages m on m.seq = n.i + ${turns} and m.direction = 'out'`
  const times = { created_at: text(at), updated_at: text(at) }
  await fill(
    'inbox',
    {
      message_seq: 'm.seq',
      id: 'm.id',
      jid: 'm.jid',
      folder: text(folder),
      topic: text(''),
      chat_topic: text(''),
      sender: 'm.sender',
      verb: text('message'),
      state: text('answered'),
      turn_id: 'm.id',
      updated_at: text(at),
    },
    asked,
  )
  await fill(
    'turns',
    {
      id: 'm.id',
      folder: text(folder),
      topic: text(''),
      jid: 'm.jid',
      chat_topic: text(''),
      sender: 'm.sender',
      first_seq: 'm.seq',
      last_seq: 'm.seq',
      message_count: '1',
      state: text('done'),
      outcome: text('answered'),
      ...Object.fromEntries(
        ['attempts', 'fence', 'leased_until', 'run_after', 'replies', 'depth'].map((name) => [name, '1']),
      ),
      ...Object.fromEntries(['is_isolated', 'is_timed', 'is_guest', 'is_stopping'].map((name) => [name, 'i < 0'])),
      started_at: text(at),
      ended_at: text(at),
    },
    asked,
  )
  await fill(
    'rounds',
    {
      id: 'm.id',
      jid: 'm.jid',
      target_folder: text(folder),
      message_seq: 'm.seq',
      status: text('success'),
      last_seq: '1',
      created_at: text(at),
      ended_at: text(at),
    },
    asked,
  )
  await fill('frames', { turn_id: 'm.turn_id', seq: '1', message_seq: 'm.seq' }, said)
  await run(
    tx,
    `insert into chat_events (jid, seq, kind, message_seq, turn_id)
     select jid, row_number() over (partition by jid order by seq), 'message', seq, turn_id from messages`,
  )
  await fill(
    'outbox',
    {
      message_seq: 'm.seq',
      id: 'm.id',
      jid: 'm.jid',
      topic: text(''),
      folder: text(folder),
      turn_id: 'm.turn_id',
      action: text('send'),
      payload: text('{}'),
      engages: 'i < 0',
      state: text('sent'),
      ...Object.fromEntries(['attempts', 'next_at', 'fence', 'leased_until'].map((name) => [name, '1'])),
      platform_id: `case when i % 2 = 0 then null else 'p-' || i end`,
      ...times,
    },
    said,
  )
  await fill(
    'envelopes',
    {
      message_seq: 'm.seq',
      jid: 'm.jid',
      platform_id: `'in-' || i`,
      verb: text('message'),
      source: text('teled'),
      depth: '0',
    },
    `${asked} where i % 2 = 1 and i <= ${turns / 10}`,
  )
  await fill(
    'session_log',
    {
      folder: text(folder),
      topic: text(''),
      turn_id: `'0-old-' || i`,
      event: text('turn'),
      message_count: '1',
      result: text('answered'),
      started_at: text(at),
      ended_at: text(at),
    },
    FEWER,
  )
  // PostgreSQL keeps all versions of a row that one transaction makes, and each cost changes the sums of its day: too many for
  // one day take a minute.
  const earlier =
    "'20' || (10 + i / 10 % 10) || '-' || (10 + i / 100 % 3) || '-' || (10 + i / 300 % 18) || 'T00:00:00.000Z'"
  const recorded_at = `case when i % 100 < 30 then ${text(at)} else ${earlier} end`
  await fill(
    'cost_log',
    {
      folder: text(folder),
      turn_id: `'0-old-' || i`,
      model: text('a model'),
      user_sub: text('github:old'),
      ...Object.fromEntries(['input_tokens', 'output_tokens', 'cost_cents'].map((name) => [name, '1'])),
      recorded_at,
    },
    FEWER,
  )
  // Conversations of other visitors, each with a separate link.
  await fill(
    'conversations',
    {
      folder: text(folder),
      topic: `'web:old/' || i`,
      waiting: '0',
      session_id: `'session-' || i`,
      observed_seq: '0',
      updated_at: text(at),
    },
    FEWER,
  )
  await fill(
    'chat_topics',
    {
      jid: text('web:old/topics'),
      topic: `'topic-' || i`,
      root: `'topic-' || i`,
      folder: text(folder),
      depth: '0',
      first_seq: 'i',
      last_seq: 'i',
      updated_at: text(at),
    },
    FEWER,
  )
  await fill(
    'chat_files',
    {
      id: `'file-' || i`,
      message_seq: 'i',
      position: '0',
      jid: text('web:old/topics'),
      folder: text(folder),
      ...Object.fromEntries(['name', 'type', 'extension'].map((name) => [name, text('txt')])),
      size: '1',
      created_at: text(at),
    },
    'n order by i',
  )
  await fill('engagements', { jid: `'web:old/' || i`, topic: text(''), last_reply_id: `'said-' || i` }, FEWER)
  await fill('chats', { jid: `'telegram:old/' || i`, source: text('teled') }, FEWER)
  await fill('storage_use', { scope: text('chat'), name: `'web:old/' || i`, bytes: '1000' }, FEWER)
  await fill(
    'audit',
    {
      created_at: text(at),
      category: text('mutation'),
      action: text('tools.send'),
      actor: text(`folder:${folder}`),
      resource: text('tools'),
      key: text(''),
      surface: text('tool'),
      params_summary: text('{}'),
      outcome: text('ok'),
      duration_ms: '1',
      instance: text('test'),
    },
    FEWER,
  )
}
