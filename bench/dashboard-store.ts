// Fills a SQLite store with plain SQL like one of a large instance in long use, for the benchmark of the dashboard: folders
// with links, routes, tasks and people, and 90 days of messages, turns and costs. One folder has a fifth of the messages.
import { DatabaseSync } from 'node:sqlite'

export interface LargeStore {
  readonly messages: number
  /** Besides `main`. */
  readonly folders: number
  /** The end of the history, in milliseconds since 1970. */
  readonly nowMs: number
}

/** Folders without a parent; all others are children of these. */
const TEAMS = 100
const HISTORY_MS = 90 * 24 * 3_600_000
/** Has a fifth of all messages. */
export const BUSY_FOLDER = 'team7'
/** Sent one message, long ago. */
export const RARE_SENDER = 'anon:rare'
export const ORDINARY_PERSON = 'github:p42'

const time = (ms: string): string => `strftime('%Y-%m-%dT%H:%M:%fZ', (${ms}) / 1000.0, 'unixepoch')`
const id = (ms: string, number: string): string =>
  `printf('%08x-%04x-7%03x-8000-', (${ms}) >> 16, (${ms}) & 65535, (${number}) & 4095) || lower(hex(randomblob(6)))`

export function fillLargeStore(path: string, { messages, folders, nowMs }: LargeStore): void {
  const db = new DatabaseSync(path, { enableForeignKeyConstraints: false })
  const [first, step] = [nowMs - HISTORY_MS, HISTORY_MS / messages]
  const at = (number: string): string => `cast(${first} + (${number}) * ${step} as integer)`
  /** Inserts a row for each number `i` of `n`, from 0 to `rows`. */
  const fill = (table: string, rows: number, columns: Readonly<Record<string, string>>, from = 'n'): void =>
    db.exec(`insert into ${table} (${Object.keys(columns).join(', ')})
      with recursive n (i) as (select 0 union all select i + 1 from n where i < ${rows - 1})
      select ${Object.values(columns).join(', ')} from ${from}`)
  const folder = (number: string): string => `(select folder from numbered where n = (${number}) % ${folders})`
  try {
    // The store is disposable, so no journal is needed; the cache has room for the growing indexes.
    db.exec('pragma journal_mode = off; pragma synchronous = off; pragma cache_size = -1000000; begin')
    // Created at the end, which is much faster.
    const indexes = db
      .prepare(`select name, sql from sqlite_schema where type = 'index' and sql is not null`)
      .all()
      .map(({ name, sql }) => ({ name: String(name), sql: String(sql) }))
    for (const { name } of indexes) db.exec(`drop index ${name}`)
    db.exec(`create temp table numbered as
      with recursive n (i) as (select 0 union all select i + 1 from n where i < ${folders - 1})
      select i as n, 'team' || (i % ${TEAMS}) || iif(i < ${TEAMS}, '', '/g' || (i / ${TEAMS})) as folder from n;
      create unique index temp.number_of on numbered (n)`)
    fillFolders({ fill, folder, folders, at, nowMs })
    fillMessages(db, { fill, folders, messages, at })
    fillPeople({ fill, folder, folders, at, nowMs })
    for (const { sql } of indexes) db.exec(sql)
    db.exec('commit; pragma journal_mode = wal')
  } finally {
    db.close()
  }
}

interface Filling {
  readonly fill: (table: string, rows: number, columns: Readonly<Record<string, string>>, from?: string) => void
  /** SQL of the folder with a number. */
  readonly folder: (number: string) => string
  readonly folders: number
  /** SQL of the milliseconds at which message number `i` arrived. */
  readonly at: (number: string) => string
}

function fillFolders({ fill, folder, folders, at, nowMs }: Filling & { readonly nowMs: number }): void {
  const created = time(at('i'))
  fill('groups', folders, {
    folder: folder('i'),
    name: `'Group ' || i`,
    product: `'assistant'`,
    open: '1',
    cost_cap_cents_per_day: 'iif(i % 10 = 0, 500, null)',
    added_at: created,
  })
  fill('acl_membership', folders, { subject: `'folder:' || ${folder('i')}`, role: `'role:member'`, added_at: created })
  fill('route_tokens', 2 * folders, {
    token_hash: 'randomblob(32)',
    jid: `iif(i % 2 = 0, 'web:' || ${folder('i / 2')}, 'hook:' || ${folder('i / 2')} || '/bench')`,
    owner_folder: folder('i / 2'),
    target_folder: folder('i / 2'),
    source_label: `iif(i % 2 = 0, null, 'bench')`,
    created_at: created,
  })
  fill(
    'link_stats',
    1,
    { token_hash: 'token_hash', last_used_at: time(at('i')), accepted: '50', refused: `'{}'` },
    'n, route_tokens',
  )
  fill('routes', folders, { seq: 'i % 100', match: `'room=r' || i`, target: folder('i') })
  fill('network_rules', folders, {
    folder: folder('i'),
    target: `'host' || i || '.example.com'`,
    created_at: created,
    created_by: `'cli'`,
  })
  fill('network_denials', folders / 10, {
    folder: folder('i * 10'),
    host: `'denied' || i || '.example.com'`,
    sni: `''`,
    port: '443',
    reason: `'denied'`,
    count: '3',
    first_at: created,
    last_at: time(at('i * 1000')),
  })
  fill('web_routes', folders / 5, {
    path_prefix: `'/pub/' || ${folder('i * 5')} || '/docs/'`,
    access: `'public'`,
    folder: folder('i * 5'),
    created_at: created,
  })
  fill('secrets', folders / 10, {
    scope_kind: `'folder'`,
    owner: folder('i * 10'),
    key: `'API_KEY'`,
    value: 'randomblob(60)',
    created_at: created,
  })
  // No task may become due during the measurement.
  fill('scheduled_tasks', folders, {
    id: `printf('task-%05d', i)`,
    owner: folder('i'),
    chat_jid: `'web:' || ${folder('i')}`,
    prompt: `'summarize the day'`,
    cron: `(i % 60) || ' ' || (i % 24) || ' * * *'`,
    next_run: time(`${nowMs} + 864000000`),
    status: `'active'`,
    context_mode: `'group'`,
    created_at: created,
  })
  fill('task_run_logs', 10 * folders, {
    id: `'run-' || i`,
    task_id: `printf('task-%05d', i % ${folders})`,
    run_at: time(at('i * 10')),
    duration_ms: '900',
    status: `iif(i % 500 = 0, 'error', 'success')`,
  })
}

/** Messages that start a turn, and those of them that failed. */
const IS_ASKED = '(i % 10 = 3 or i % 50 = 5)'
const IS_FAILED = 'i % 1000 = 3'

function fillMessages(
  db: DatabaseSync,
  { fill, folders, messages, at }: Pick<Filling, 'fill' | 'folders' | 'at'> & { readonly messages: number },
): void {
  const number = `iif(i % 5 = 0, (select n from numbered where folder = '${BUSY_FOLDER}'), i * 7919 % ${folders})`
  const columns = {
    seq: 'i + 1',
    id: id(at('i'), 'i'),
    jid: `iif(i % 2 = 0, 'web:' || f.folder, 'hook:' || f.folder || '/bench')`,
    target_folder: 'f.folder',
    direction: `'in'`,
    kind: `'message'`,
    sender: `iif(i = 1000, '${RARE_SENDER}', iif(i % 2 = 0, 'anon:' || (i % 5000), 'bench'))`,
    content: `cast('a message of somebody f' || (i % 50) || ' about r' || (i * 104729 % 30011) ||
      ' with a few more words to it' as blob)`,
    created_at: time(at('i')),
  }
  fill('messages', messages, columns, `n join numbered f on f.n = ${number}`)
  const asked = IS_ASKED.replaceAll('i %', '(seq - 1) %')
  const failed = IS_FAILED.replaceAll('i %', '(seq - 1) %')
  db.exec(`
    create temp table answered as select seq, id, jid, target_folder as folder, sender, created_at as at, ${failed} as failed,
      (select max(seq) from messages) + row_number() over (order by seq) as reply from messages where ${asked};
    insert into messages (seq, id, jid, target_folder, direction, kind, sender, turn_id, content, created_at)
      select reply, substr(id, 1, 24) || lower(hex(randomblob(6))), jid, folder, 'out', 'message', folder, id,
        cast('an answer' as blob), at from answered order by reply;
    insert into inbox (message_seq, id, jid, folder, topic, chat_topic, sender, verb, state, turn_id, reason, updated_at, reach)
      select m.seq, m.id, m.jid, m.target_folder, '', '', m.sender, 'message',
        iif(a.id is null, 'silent', iif(a.failed, 'failed', 'answered')), a.id, iif(a.failed, 'the agent failed', null),
        m.created_at, 'work'
      from messages m left join answered a on a.seq = m.seq where m.direction = 'in';
    insert into turns (id, folder, topic, jid, chat_topic, sender, first_seq, last_seq, message_count, state, outcome, attempts,
        fence, leased_until, run_after, replies, depth, is_isolated, is_timed, is_guest, submitted, is_stopping, started_at,
        ended_at, reach)
      select id, folder, '', jid, '', sender, seq, seq, 1, 'done', iif(failed, 'failed', 'answered'), 1, 1, 0, 0, 1, 0, 0, 0, 0,
        'success', 0, at, at, 'work' from answered;
    insert into rounds (id, jid, target_folder, message_seq, status, last_seq, created_at, ended_at)
      select id, jid, folder, seq, 'success', 1, at, at from answered;
    insert into frames (turn_id, seq, message_seq) select id, 1, reply from answered;
    insert into outbox (message_seq, id, jid, topic, folder, turn_id, action, payload, engages, state, attempts, next_at,
        fence, leased_until, created_at, updated_at)
      select m.seq, m.id, m.jid, '', m.target_folder, m.turn_id, 'send', '{}', 0, 'sent', 0, 0, 0, 0, m.created_at,
        m.created_at from messages m where m.direction = 'out';
    insert into session_log (folder, topic, turn_id, event, message_count, result, started_at, ended_at)
      select folder, '', id, 'turn', 1, 'answered', at, at from answered;
    insert into conversations (folder, topic, waiting, session_id, observed_seq, updated_at)
      select folder, '', 0, 'session', 0, max(at) from answered group by folder;
    insert into cost_log (folder, turn_id, model, user_sub, input_tokens, output_tokens, cost_cents, recorded_at)
      select folder, id, iif(seq % 3 = 0, 'a-model', 'another-model'), 'github:p' || (seq % 1000), 1000, 200, 1, at
      from answered;
    insert into audit (created_at, category, action, actor, resource, key, surface, params_summary, outcome, duration_ms, folder,
        instance, turn_id)
      select at, iif(seq % 20 = 4, 'authz', 'mutation'), 'tools.reply', 'folder:' || folder, 'tools', '', 'tool', '{}',
        iif(seq % 20 = 4, 'denied', 'ok'), 5, folder, 'bench', id from answered;
    insert into chat_events (jid, seq, kind, message_seq)
      select jid, row_number() over (partition by jid order by seq), kind, seq from messages;
    insert into storage_use (scope, name, bytes)
      select 'chat', jid, sum(length(content) + 512) from messages where direction = 'in' group by jid union all
      select 'folder', target_folder, sum(length(content) + 512) from messages where direction = 'in' group by target_folder;
    update filing set last_seq = (select max(seq) from messages);
    update routing set last_seq = (select max(seq) from messages)`)
}

/** As many people as folders; a tenth of them is signed in, and a tenth administers a folder. */
function fillPeople({ fill, folder, folders, at, nowMs }: Filling & { readonly nowMs: number }): void {
  const created = time(at('i'))
  const later = time(`${nowMs} + 8640000000`)
  const sub = `'github:p' || i`
  fill('accounts', folders, {
    sub,
    issuer: `'github'`,
    subject: `'p' || i`,
    name: `'Person ' || i`,
    email: `'p' || i || '@example.com'`,
    email_verified: '1',
    created_at: created,
    signed_in_at: created,
  })
  fill('acl', folders / 10, {
    principal: sub,
    action: `'admin'`,
    scope: `${folder('i')} || iif(i % 2 = 0, '', '/**')`,
    effect: `'allow'`,
    params: `''`,
    predicate: `''`,
    granted_at: created,
  })
  fill('identities', folders / 10, { id: `'identity-' || i`, name: `'Person ' || i`, created_at: created })
  fill('identity_claims', folders / 10, { sub, identity_id: `'identity-' || i`, claimed_at: created })
  fill('sessions', folders / 10, {
    family_id: `'session-' || i`,
    sub,
    scope: `''`,
    started_at: created,
    renewed_at: created,
    expires_at: later,
    ends_at: later,
    rotations: '0',
    status: `'active'`,
    kind: `'browser'`,
    method: `'link'`,
    idle_ms: '8640000000',
  })
  fill('bearers', folders / 10, {
    id: `'bearer-' || i`,
    sub,
    kind: `'user'`,
    created_at: created,
    created_by: `'cli'`,
    expires_at: later,
  })
  fill('invites', folders / 10, {
    token_hash: 'randomblob(32)',
    token_id: `printf('%012x', i)`,
    target_glob: folder('i'),
    issued_by_sub: `'cli'`,
    issued_at: created,
    max_uses: '1',
    used_count: '0',
  })
  fill('onboarding', folders / 10, {
    jid: `'telegram:user/' || i`,
    status: `iif(i % 100 = 0, 'queued', 'approved')`,
    user_sub: `'telegram:user/' || i`,
    created: created,
    queued_at: created,
    position: 'i',
    folder: `'newcomer' || i`,
  })
  fill('pending_actions', folders / 10, {
    id: `'held-' || i`,
    folder: folder('i'),
    tool: `'send'`,
    args_hash: `'hash-' || i`,
    summary: `'{}'`,
    status: `iif(i % 100 = 0, 'held', 'rejected')`,
    held_at: time(`${nowMs}`),
    updated_at: created,
  })
  fill('proxyd_routes', folders / 100, {
    path: `'/app' || i || '/'`,
    backend: `'http://127.0.0.1:9'`,
    auth: `'operator'`,
  })
}
