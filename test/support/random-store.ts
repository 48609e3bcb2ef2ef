// Stores with random rows, for properties that must hold for every store.
import fc from 'fast-check'
import type { ManifestRow } from '../../src/faces/manifest/manifest-resource.ts'
import type { InstanceHost } from '../../src/registry/context.ts'
import { SHAPES } from './manifest.ts'
import { run } from './sql.ts'

export type RandomStore = Readonly<Record<string, readonly ManifestRow[]>>

/** Texts that a naive YAML writer would break. */
const AWKWARD = [
  ...'~ null true No on 1 -0 0x1F 1e3 .inf 1:20 2024-01-01 #a &a *a !a | > %a @a `a "a" \'a\' {a} [a] a,b << = --- ...'.split(
    ' ',
  ),
  ...['- a', '? a', ': a', 'a: b', 'a #b', ' a', 'a ', 'a\\nb', 'é', 'z\u0301', '😀'],
  ...['\u0085', '\u00a0', '\u2028', '\ufeff', '\uffff'],
]

/** One line: any characters that the schemas accept. */
const line = fc
  .oneof(fc.constantFrom(...AWKWARD), fc.string({ unit: 'binary', minLength: 1, maxLength: 12 }))
  .map((text) => text.replace(/[\u0000-\u001f\u007f]/g, '_'))
const prose = fc
  .array(fc.oneof(fc.constantFrom(...AWKWARD, '', '\n', '  ', '\t', '\r\n', '  indented'), line), {
    minLength: 1,
    maxLength: 4,
  })
  .map((lines) => `${lines.join('\n')}.`)
const time = fc
  .date({ min: new Date('2000-01-01'), max: new Date('2100-01-01'), noInvalidDate: true })
  .map((date) => date.toISOString())
const segment = fc.constantFrom('main', 'team', 'Team', 'a', 'b1', 'x.y', 'no', '1', '10', '2', 'z_z')
const folder = fc.array(segment, { minLength: 1, maxLength: 3 }).map((segments) => segments.join('/'))
const window = fc.integer({ min: 0, max: 1_000_000 })
const jsonObject = fc.dictionary(line, fc.oneof(line, fc.integer(), fc.boolean())).map((value) => JSON.stringify(value))
const sub = fc
  .tuple(fc.constantFrom('github', 'google', 'folder'), fc.integer({ min: 0, max: 40 }))
  .map((parts) => parts.join(':'))
const match = fc
  .array(fc.constantFrom('room=42', 'platform=web', 'verb=mention', 'sender=a*', 'chat_jid=web:team', 'room=[a-c]?'), {
    maxLength: 3,
  })
  .map((tokens) => tokens.join(' '))
const target = fc.oneof(
  folder,
  folder.map((name) => `${name}#observe`),
  fc.constantFrom('daemon:mail', 'builtin:drop'),
)

const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined })

function rows(fields: Record<string, fc.Arbitrary<unknown>>, key: readonly string[]): fc.Arbitrary<ManifestRow[]> {
  return fc.uniqueArray(fc.record(fields).map(withoutAbsent), {
    maxLength: 8,
    selector: (row) => JSON.stringify(key.map((column) => row[column])),
  })
}

function withoutAbsent(row: ManifestRow): ManifestRow {
  return Object.fromEntries(Object.entries(row).filter(([, value]) => value !== undefined))
}

const someGroups = rows(
  {
    folder,
    name: line,
    product: line,
    open: fc.boolean(),
    cost_cap_cents_per_day: optional(fc.integer({ min: 1, max: 1_000_000_000_000 })),
    observe_window_messages: optional(window),
    observe_window_chars: optional(window),
    container_config: optional(jsonObject),
    config: optional(jsonObject),
    added_at: time,
    updated_at: optional(time),
  },
  ['folder'],
)

const MAIN = { name: 'main', product: 'assistant', open: true, added_at: '2026-01-01T00:00:00.000Z' }

/** The root always exists. */
const groups = someGroups.map((rows) =>
  rows.some(({ folder }) => folder === 'main') ? rows : [{ ...MAIN, folder: 'main' }, ...rows],
)

/** Roles only include higher ones, so that there is no cycle. */
const membership = fc
  .record({
    subject: fc.oneof(
      sub,
      fc.integer({ min: 0, max: 4 }).map((level) => `role:${level}`),
    ),
    role: fc.oneof(
      fc.integer({ min: 5, max: 9 }).map((level) => `role:${level}`),
      fc.constant('role:operator'),
    ),
    added_by: optional(line),
    added_at: time,
  })
  .map(withoutAbsent)

const redirect = fc.constantFrom('/', '/pub/a/', '/x')

/** Every exported resource; references to groups name existing ones. */
export const randomStore: fc.Arbitrary<RandomStore> = groups.chain((groups) =>
  fc.record({
    groups: fc.constant(groups),
    routes: rows(
      {
        seq: fc.oneof(fc.integer({ min: -1, max: 1 }), fc.integer({ min: -12, max: 12 })),
        match,
        target,
        observe_window_messages: optional(window),
        observe_window_chars: optional(window),
      },
      ['seq', 'match', 'target'],
    ),
    web_routes: rows(
      {
        path_prefix: fc.array(segment, { maxLength: 3 }).map((segments) => `/${segments.join('/')}`),
        access: fc.constantFrom('public', 'auth', 'deny', 'redirect'),
        folder: fc.constantFrom(...groups.map((group) => group.folder)),
        created_at: time,
        redirect_to: redirect,
      },
      ['path_prefix'],
    ).map((list) => list.map(({ redirect_to, ...row }) => (row.access === 'redirect' ? { ...row, redirect_to } : row))),
    web_hosts: rows(
      {
        hostname: fc.constantFrom('a.example', 'b.example', 'a.example:8443', 'no', '1.example'),
        folder: fc.constantFrom(...groups.map((group) => group.folder)),
      },
      ['hostname'],
    ),
    acl: rows(
      {
        principal: fc.oneof(sub, fc.constantFrom('role:operator', '**', 'github:*')),
        action: fc.constantFrom('*', 'admin', 'interact', 'mcp:*', 'mcp:send'),
        scope: fc.oneof(folder, fc.constantFrom('**', 'team/**', '*')),
        effect: fc.constantFrom('allow', 'deny'),
        params: fc.constantFrom('', 'chatJid=web:*', 'a,b=c'),
        predicate: fc.constantFrom('', 'tier=1'),
        granted_by: optional(line),
        granted_at: time,
      },
      ['principal', 'action', 'scope', 'params', 'predicate', 'effect'],
    ),
    acl_membership: fc.uniqueArray(membership, { maxLength: 8, selector: ({ subject, role }) => `${subject} ${role}` }),
    scheduled_tasks: rows(
      {
        id: line,
        owner: fc.constantFrom(...groups.map((group) => group.folder)),
        chat_jid: line,
        prompt: prose,
        cron: optional(fc.constantFrom('0 2 * * *', '*/5 1-3 * * 1', '60000')),
        next_run: time,
        status: fc.constantFrom('active', 'paused', 'firing', 'completed'),
        context_mode: fc.constantFrom('group', 'isolated'),
        created_at: time,
      },
      ['id'],
    ),
    network_rules: rows(
      {
        folder: fc.oneof(folder, fc.constant('')),
        target: fc.constantFrom('a.example', 'b.example', 'xn--bcher-kva.example', 'yes', 'x_y'),
        created_at: time,
        created_by: line,
      },
      ['folder', 'target'],
    ),
    onboarding_gates: rows(
      {
        spec: fc.oneof(folder, fc.constantFrom('*', 'team/**')),
        daily_limit: fc.integer({ min: 1, max: 99 }),
        enabled: fc.boolean(),
      },
      ['spec'],
    ),
    proxyd_routes: rows(
      {
        path: fc.array(segment, { maxLength: 2 }).map((segments) => `/${segments.join('/')}`),
        backend: fc.constantFrom('http://127.0.0.1:8081', 'https://x.example/y'),
        auth: fc.constantFrom('public', 'user', 'operator'),
        gated_by: optional(fc.constantFrom('SOME_SETTING', 'X')),
        preserve_headers: optional(fc.uniqueArray(fc.constantFrom('X-A', 'Accept', 'no', '1'), { maxLength: 3 })),
        strip_prefix: optional(fc.boolean()),
        escapes: optional(fc.constantFrom('refuse', 'keep')),
      },
      ['path'],
    ),
    secrets: rows(
      {
        scope_kind: fc.constantFrom('folder', 'user'),
        owner: line,
        key: fc.constantFrom('A', 'B_2'),
        value: fc.uint8Array({ maxLength: 8 }),
        created_at: time,
      },
      ['scope_kind', 'owner', 'key'],
    ),
  }),
)

/** Replaces the exported tables by these rows, inserted in the order of the lists. */
export async function fillStore({ engine }: InstanceHost, store: RandomStore): Promise<void> {
  await engine.transaction(async (tx) => {
    for (const { name } of SHAPES.toReversed()) await run(tx, `delete from ${name}`)
    for (const { name, table } of SHAPES) for (const row of store[name] ?? []) await table.append(tx, row)
  })
}
